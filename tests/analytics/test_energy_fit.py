"""The energy fit: exact data, noise, laws, and what cannot be told."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.energy.fit import EnergyFit, EnergyPoint, fit_energy
from tests.analytics.energy_board import (
    ORIN,
    WINDOW_S,
    Truth,
    errors,
    idle,
    noisy,
    point,
    sweep,
)

N_SEEDS = 200


def percentile_95(points: list[EnergyPoint], share: float) -> np.ndarray:
    found = [errors(fit_energy(noisy(points, share, seed))) for seed in range(N_SEEDS)]
    high: np.ndarray = np.quantile(np.array(found), 0.95, axis=0, method="higher")
    return high


def test_one_percent_of_noise_costs_less_than_three() -> None:
    worst = percentile_95([*sweep(), *idle()], 0.01)
    assert (worst < 0.03).all()


def test_idle_points_are_what_makes_it_good() -> None:
    with_idle = percentile_95([*sweep(), *idle()], 0.01)
    without = percentile_95(sweep(), 0.01)
    assert (without > 1.5 * with_idle).all()


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    hits = np.zeros(3)
    for seed in range(400):
        found = fit_energy(noisy([*sweep(), *idle()], 0.02, seed))
        terms = (found.flop_j["fp32"], found.byte_j["DRAM"], found.constant_w)
        truths = (ORIN.flop_j, ORIN.byte_j, ORIN.constant_w)
        for at, (term, truth) in enumerate(zip(terms, truths, strict=True)):
            assert term.low is not None
            assert term.high is not None
            hits[at] += term.low <= truth <= term.high
    # 95 % of 400 is 380, with a standard deviation of √(400 · 0.95 · 0.05) = 4.4
    assert (hits >= 366).all()
    assert (hits <= 394).all()


def test_exact_data_gives_exact_values() -> None:
    found = fit_energy([*sweep(), *idle()])
    assert errors(found) == pytest.approx((0, 0, 0), abs=1e-9)
    assert found.residuals == pytest.approx([0.0] * 14, abs=1e-9)
    assert (found.n_points, found.n_idle, found.missing) == (14, 3, ())
    assert found.constant_w.low == pytest.approx(15.0)
    assert found.constant_w.high == pytest.approx(15.0)


costs = st.floats(min_value=0.1, max_value=10.0)


@given(costs, costs, costs)
def test_exact_data_of_any_board(flop: float, byte: float, constant: float) -> None:
    truth = Truth(flop_j=flop * 3e-12, byte_j=byte * 60e-12, constant_w=constant * 15)
    found = fit_energy([*sweep(truth), *idle(truth)])
    assert errors(found, truth) == pytest.approx((0, 0, 0), abs=1e-7)


def test_residuals_are_signed_and_relative() -> None:
    points = [*sweep(), *idle()]
    # One point reads 10 % too much: the model stays below it, and near the others.
    points[5] = noisy([points[5]], 0, 0)[0]
    points[5] = msgspec.structs.replace(points[5], energy_j=1.1 * points[5].energy_j)
    residuals = fit_energy(points).residuals
    assert min(residuals) == residuals[5]
    assert -1 / 11 < residuals[5] < -0.05  # 1/1.1 - 1, less what the model gave way


@given(st.randoms())
def test_order_of_points_does_not_matter(random: object) -> None:
    points = noisy([*sweep(), *idle()], 0.02, 7)
    shuffled = list(points)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = fit_energy(points), fit_energy(shuffled)
    assert (one.flop_j, one.byte_j, one.constant_w) == (
        other.flop_j,
        other.byte_j,
        other.constant_w,
    )
    by_energy = dict(zip((p.energy_j for p in points), one.residuals, strict=True))
    assert [by_energy[p.energy_j] for p in shuffled] == pytest.approx(list(other.residuals))


@given(
    st.floats(min_value=1e-3, max_value=1e3),
    st.floats(min_value=1e-3, max_value=1e3),
    st.floats(min_value=1e-2, max_value=1e2),
)
def test_other_units_scale_the_answer(work: float, energy: float, time: float) -> None:
    points = noisy([*sweep(), *idle()], 0.02, 7)
    scaled = [
        EnergyPoint(
            name=p.name,
            work_flop={name: work * count for name, count in p.work_flop.items()},
            traffic_bytes=p.traffic_bytes,
            window_s=time * p.window_s,
            energy_j=energy * p.energy_j,
        )
        for p in points
    ]
    one, other = fit_energy(points), fit_energy(scaled)
    for before, after, factor in (
        (one.flop_j["fp32"], other.flop_j["fp32"], energy / work),
        (one.byte_j["DRAM"], other.byte_j["DRAM"], energy),
        (one.constant_w, other.constant_w, energy / time),
    ):
        assert after.value == pytest.approx(before.value * factor)  # type: ignore[operator]
        assert after.low == pytest.approx(before.low * factor)  # type: ignore[operator]
        assert after.high == pytest.approx(before.high * factor)  # type: ignore[operator]


def test_points_bound_by_arithmetic_alone_without_idle() -> None:
    found = fit_energy(sweep(chains=(128, 192, 256, 384, 512, 1024)))
    assert found.missing == ("no idle point", "all points are bound by arithmetic")
    assert found.flop_j["fp32"].value is None
    assert found.constant_w.value is None
    assert "all points are bound by arithmetic" in found.constant_w.unknown["value"]


def test_points_bound_by_memory_alone_without_idle() -> None:
    found = fit_energy(sweep(chains=(1, 2, 4, 8, 16, 24)))
    assert found.missing == ("no idle point", "all points are bound by memory")
    assert found.byte_j["DRAM"].value is None
    assert found.constant_w.value is None


def test_one_intensity_tells_neither_work_nor_traffic() -> None:
    found = fit_energy([*sweep(chains=(16,) * 6), *idle()])
    assert "one intensity only" in found.missing
    assert found.flop_j["fp32"].value is None
    assert found.byte_j["DRAM"].value is None
    assert found.constant_w.value == pytest.approx(15.0)  # idle alone tells it


def test_idle_alone_is_the_constant_power() -> None:
    found = fit_energy(idle(n_points=5))
    assert found.constant_w.value == pytest.approx(15.0)
    assert found.missing == ("no point under load",)


def test_too_few_points_say_how_many_it_takes() -> None:
    found = fit_energy([*sweep(chains=(1, 1024)), *idle()])
    assert found.constant_w.unknown["value"] == "too few points: 5, it takes 6"  # 3 terms + 3
    assert found.residuals == ()
    assert fit_energy([]).constant_w.value is None


def test_a_term_below_zero_is_not_passed_off_as_zero() -> None:
    # Traffic that would give energy back: no board does, so its value is not known.
    truth = Truth(byte_j=-5e-12)
    found = fit_energy([*sweep(truth), *idle(truth)])
    assert found.byte_j["DRAM"].value is None
    assert "not above 0" in found.byte_j["DRAM"].unknown["value"]


def test_a_wide_interval_is_not_a_value() -> None:
    found = fit_energy(noisy(sweep(), 0.15, 3))
    assert found.flop_j["fp32"].value is None
    assert "the interval is ±" in found.flop_j["fp32"].unknown["value"]


def test_several_precisions_and_levels() -> None:
    # 2 and 4 pJ/FLOP; 5, 20 and 80 pJ/byte; 10 W
    flop_j, byte_j = {"fp32": 2e-12, "fp64": 4e-12}, {"L1": 5e-12, "L2": 2e-11, "DRAM": 8e-11}
    points = [point(0, 0, 10.0 * WINDOW_S)] * 3
    for work, traffic in (
        *(({name: n * 1e11}, {"L1": 8e11 / n}) for name in flop_j for n in (1, 4, 16, 64)),
        *(({"fp32": n * 1e10}, {level: 1e12}) for level in byte_j for n in (1, 2)),
    ):
        energy_j = 10.0 * WINDOW_S + sum(flop_j[k] * v for k, v in work.items())
        energy_j += sum(byte_j[k] * v for k, v in traffic.items())
        points.append(
            EnergyPoint(
                name="made up",
                work_flop=work,
                traffic_bytes=traffic,
                window_s=WINDOW_S,
                energy_j=energy_j,
            )
        )
    found = fit_energy(points)
    assert {k: v.value for k, v in found.flop_j.items()} == pytest.approx(flop_j)
    assert {k: v.value for k, v in found.byte_j.items()} == pytest.approx(byte_j)
    assert found.constant_w.value == pytest.approx(10.0)


def test_twenty_kinds_of_work_are_told_apart() -> None:
    # kind k costs k pJ/FLOP: 1 TFLOP of it takes k J beside the 10 J of a second
    many = [
        EnergyPoint(
            name="made up",
            work_flop={f"kind {kind}": 1e12} if kind else {},
            traffic_bytes={},
            window_s=1.0,
            energy_j=10.0 + kind,
        )
        for kind in range(21)
        for _ in range(2)
    ]
    found = fit_energy(many)
    costs = {name: cost.value for name, cost in found.flop_j.items()}
    assert costs == pytest.approx({f"kind {kind}": kind * 1e-12 for kind in range(1, 21)})
    assert found.constant_w.value == pytest.approx(10.0)


@pytest.mark.parametrize(("window_s", "energy_j"), [(0.0, 1.0), (1.0, 0.0), (1.0, -2.0)])
def test_points_that_no_meter_gives(window_s: float, energy_j: float) -> None:
    odd = msgspec.structs.replace(point(1.0, 1.0, 1.0), window_s=window_s, energy_j=energy_j)
    with pytest.raises(ValueError, match="made up"):
        fit_energy([odd])


def test_it_survives_json() -> None:
    found = fit_energy(noisy(sweep(chains=(1, 2, 4, 8, 16, 24)), 0.01, 1))
    assert msgspec.json.decode(msgspec.json.encode(found), type=EnergyFit) == found


def test_intervals_are_no_narrower_than_the_steps_of_the_counter_allow() -> None:
    points = [*sweep(), *idle()]
    exact = fit_energy(points)
    assert exact.constant_w.high is not None
    assert exact.constant_w.low is not None
    # Without noise the interval has no width. Each energy may be 3 % off: 1.73 % in the mean
    # square, so that the interval is as wide as that of such residuals.
    assert exact.constant_w.high - exact.constant_w.low == pytest.approx(0, abs=1e-6)
    stepped = [msgspec.structs.replace(one, error_j=0.03 * one.energy_j) for one in points]
    found = fit_energy(stepped).constant_w
    assert found.value == exact.constant_w.value
    assert found.value is not None
    assert found.high is not None
    assert found.low is not None
    width = (found.high - found.low) / found.value
    assert 0.01 < width < 0.1
    twice = [msgspec.structs.replace(one, error_j=0.06 * one.energy_j) for one in points]
    wide = fit_energy(twice).constant_w
    assert wide.high is not None
    assert wide.low is not None
    assert (wide.high - wide.low) / found.value == pytest.approx(2 * width, rel=1e-6)
