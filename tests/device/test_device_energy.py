"""The energy of a window, from samples made by hand and from Hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MeasurementError
from mansard.core.records import PowerSample
from mansard.device.meters.energy import window_energy
from mansard.device.meters.meter import RailFacts
from mansard.device.totals import Total
from tests.device.energy_samples import FAST, SECONDS, energy, only_rail, power


def test_trapezoid_with_interpolated_ends() -> None:
    # Power rises 10 W/s from 10 W at 0 s. Window 0.5 s to 1.5 s: 15 W to 25 W,
    # so 20 W on average for 1 s.
    samples = [power(0, 10), power(1, 20), power(2, 30)]
    window = window_energy(samples, 0.5, 1.5, SECONDS, repetitions=7, n_changed_min=1)
    (rail,) = window.rails
    assert rail.energy_j == pytest.approx(20.0)
    assert (rail.rail, rail.n_samples, rail.n_changed, rail.n_gaps) == ("VDD_IN", 1, 1, 0)
    assert (window.start_s, window.window_s, window.repetitions) == (0.5, 1.0, 7)


def test_a_window_between_two_samples() -> None:
    # From 10 W at 0 s to 20 W at 10 s: 12 W at 2 s, 14 W at 4 s; 13 W for 2 s.
    assert only_rail([power(0, 10), power(10, 20)], 2, 4, RailFacts(period_s=10)).energy_j == (
        pytest.approx(26.0)
    )


def test_a_counter_is_interpolated_at_both_ends() -> None:
    # 0 J, 10 J, 40 J at 0, 1, 2 s: at 0.5 s 5 J, at 1.5 s 25 J.
    rail = only_rail([energy(0, 0), energy(1, 10), energy(2, 40)], 0.5, 1.5)
    assert rail.energy_j == pytest.approx(20.0)
    assert rail.step_w is None
    assert "counts energy" in rail.unknown["step_w"]


@pytest.mark.parametrize("window", [(-0.1, 1.0), (0.0, 2.1), (3.0, 4.0)])
def test_samples_that_do_not_cover_the_window_are_an_error(window: tuple[float, float]) -> None:
    with pytest.raises(MeasurementError, match=r"rail VDD_IN: .*do not cover the window"):
        window_energy([power(0, 10), power(2, 10)], *window, SECONDS)


def test_one_rail_that_ends_early_is_an_error() -> None:
    samples = [power(0, 1, "A"), power(0, 1, "B"), power(1, 2, "A"), power(1, 2, "B")]
    samples.append(power(2, 1, "A"))
    with pytest.raises(MeasurementError, match=r"rail B: .*from 0\.000 s to 1\.000 s"):
        window_energy(samples, 0.5, 1.5, SECONDS)


@pytest.mark.parametrize("end_s", [1.0, 0.5, float("nan")])
def test_an_empty_window_is_an_error(end_s: float) -> None:
    with pytest.raises(MeasurementError, match="is empty"):
        window_energy([power(0, 10), power(2, 10)], 1.0, end_s, SECONDS)


def test_rails_stay_apart_and_the_total_is_by_rule() -> None:
    samples = [power(0, 1, "GPU"), power(0, 5, "CPU"), power(2, 1, "GPU"), power(2, 5, "CPU")]
    total = Total(("GPU", "CPU"), "GPU + CPU", "module")
    facts = RailFacts(period_s=1.0, total=total)
    # 1 W and 5 W for 2 s
    window = window_energy(samples, 0, 2, facts, n_changed_min=0)
    assert [(r.rail, r.energy_j) for r in window.rails] == [("GPU", 2.0), ("CPU", 10.0)]
    assert window.total_j == 12.0
    assert window_energy(samples, 0, 2, SECONDS).total_j is None


def test_the_step_is_the_meters_or_the_smallest_change_seen() -> None:
    samples = [power(0, 5.0), power(1, 5.08), power(2, 5.04), power(3, 5.08)]
    assert only_rail(samples, 0, 3).step_w == pytest.approx(0.04)
    assert only_rail(samples, 0, 3, RailFacts(period_s=1.0, steps_w={"VDD_IN": 0.02})).step_w == (
        0.02
    )


def test_samples_out_of_order_are_an_error() -> None:
    with pytest.raises(MeasurementError, match="not in the order of time"):
        only_rail([power(0, 1), power(0.6, 1), power(0.4, 1), power(0.5, 1), power(1, 1)], 0, 1)


# Within a factor of eight, so that none is taken for a jump.
powers_w = st.lists(st.floats(15, 90), min_size=3, max_size=20)


def at_seconds(values: list[float]) -> list[PowerSample]:
    return [power(float(i), value) for i, value in enumerate(values)]


def joules(samples: list[PowerSample], start_s: float, end_s: float) -> float:
    value = only_rail(samples, start_s, end_s).energy_j
    assert value is not None
    return value


@given(powers=powers_w, cut=st.floats(0.01, 0.99))
def test_energy_adds_up_over_windows_that_adjoin(powers: list[float], cut: float) -> None:
    samples = at_seconds(powers)
    end_s = len(powers) - 1.0
    middle_s = cut * end_s
    whole = joules(samples, 0, end_s)
    parts = joules(samples, 0, middle_s) + joules(samples, middle_s, end_s)
    assert parts == pytest.approx(whole, rel=1e-9, abs=1e-6)
    assert min(powers) * end_s - 1e-6 <= whole <= max(powers) * end_s + 1e-6


@given(powers=powers_w, factor=st.floats(0.1, 10), offset=st.floats(0, 50))
def test_energy_is_linear_in_power(powers: list[float], factor: float, offset: float) -> None:
    end_s = len(powers) - 1.25
    scaled = at_seconds([factor * value + offset for value in powers])
    # E(a P + b) = a E(P) + b t over t = end - 0.5
    expected = factor * joules(at_seconds(powers), 0.5, end_s) + offset * (end_s - 0.5)
    assert joules(scaled, 0.5, end_s) == pytest.approx(expected, rel=1e-9)


@given(powers=powers_w, where=st.floats(0.001, 0.999), segment=st.integers(0, 1))
def test_more_samples_on_the_line_change_nothing(
    powers: list[float], where: float, segment: int
) -> None:
    samples = at_seconds(powers)
    between = powers[segment] + (powers[segment + 1] - powers[segment]) * where
    more = sorted(
        [*samples, power(segment + where, between)], key=lambda sample: sample.monotonic_s
    )
    end_s = len(powers) - 1.0
    assert joules(more, 0.3, end_s) == pytest.approx(joules(samples, 0.3, end_s), rel=1e-9)


@given(
    value=st.floats(0, 500),
    start_s=st.floats(0, 40),
    length_s=st.floats(0.001, 50),
)
def test_constant_power_is_power_times_time(value: float, start_s: float, length_s: float) -> None:
    samples = at_seconds([value] * 100)
    assert joules(samples, start_s, start_s + length_s) == pytest.approx(value * length_s)


class CountingList(list[PowerSample]):
    """Says how many of its elements were looked at one by one."""

    n_looks = 0

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        self.n_looks += 1 if isinstance(index, int) else len(range(*index.indices(len(self))))
        return super().__getitem__(index)

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.n_looks += len(self)
        return super().__iter__()


def test_a_window_of_a_long_list_is_found_without_reading_it_all() -> None:
    samples = CountingList(power(i / 100, 5.0 + i % 3) for i in range(100_000))
    rail = only_rail(samples, 700.0, 700.5, FAST, n_changed_min=20)
    # 50 samples inside, two beside them, 64 for the rails' names, and two bisections of
    # 17 looks.
    assert samples.n_looks < 200
    assert rail.n_samples == 51


anything = st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e300, -1e300]))


@given(
    readings=st.lists(
        st.tuples(st.floats(0, 10), anything, st.sampled_from("AB"), st.booleans()), max_size=30
    ),
    ends=st.tuples(st.floats(-1, 11), st.floats(-1, 11)),
    period_s=st.floats(1e-3, 5),
)
def test_any_samples_give_a_window_or_our_error(
    readings: list[tuple[float, float | None, str, bool]],
    ends: tuple[float, float],
    period_s: float,
) -> None:
    samples = [
        energy(time_s, value, rail) if counts and value is not None else power(time_s, value, rail)
        for time_s, value, rail, counts in sorted(readings, key=lambda reading: reading[0])
    ]
    facts = RailFacts(
        period_s=period_s,
        total=Total(("A",), "A", "all", ("B",)),
        steps_w={"A": 0.04},
        sensors={"A": "chip", "B": "chip"},
    )
    try:
        window = window_energy(samples, *ends, facts, n_changed_min=3)
    except MeasurementError:
        return
    rails = {rail.rail: rail for rail in window.rails}
    # A total is never more believed than its rail.
    assert window.total_j is None or window.total_j == rails["A"].energy_j
