"""The energy of a call beside its time: hand arithmetic, and what no row may ever say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.quantities import joules, seconds
from mansard.analytics.data.run_frames import energy_frame
from mansard.analytics.models.predict.row_times import program_times, times_of
from mansard.analytics.models.scaling.call_energy import call_energy, timed
from mansard.analytics.models.scaling.observations import measured_observations
from mansard.core.records import EnergyWindow
from tests.analytics.factory import (
    measurement,
    program,
    repetition,
    trial,
    window,
    write_networks,
)

STEADY_S = (0.010,) * 40


def calls(
    n: int, window_s: float, *, power_w: float = 10.0, disturbed_s: float | None = 0.0
) -> EnergyWindow:
    """A window of so many calls at a steady power."""
    plain = window({"R": power_w}, ("R",), window_s=window_s, repetitions=n)
    if disturbed_s is None:
        return plain  # as recorded before
    unknown = {name: why for name, why in plain.unknown.items() if name != "disturbed_s"}
    return replace(plain, disturbed_s=disturbed_s, unknown=unknown)


def test_a_quiet_window_is_power_times_time() -> None:
    # 10 W for 2 s over 200 calls of 10 ms: 0.1 J each; 3 W idle take 0.03 J of it.
    found = call_energy([calls(200, 2.0)], STEADY_S, 3.0)
    assert found.energy_j == pytest.approx(0.1)
    assert (found.low_j, found.high_j) == pytest.approx((0.1, 0.1))
    assert (found.above_idle_j, found.power_w) == pytest.approx((0.07, 10.0))


def test_what_waited_in_a_calm_window_is_no_time_of_the_calls() -> None:
    # 0.08 s of 2 s waited: 1.92 s over 192 calls are 10 ms, at 10 W 0.1 J, ± 0.08 / 1.92.
    found = call_energy([calls(192, 2.0, disturbed_s=0.08)], STEADY_S)
    assert found.energy_j == pytest.approx(0.1)
    assert found.low_j == pytest.approx(0.1 * (1 - 0.08 / 1.92))
    assert found.high_j == pytest.approx(0.1 * (1 + 0.08 / 1.92))


def test_a_disturbed_window_gives_the_most_that_it_may_be() -> None:
    # Three quarters waited: 10 W for 2 s over 50 calls are 0.4 J at most, and not 0.1 J each.
    found = call_energy([calls(50, 2.0, disturbed_s=1.5)], STEADY_S)
    assert (found.energy_j, found.low_j, found.power_w) == (None, None, None)
    assert found.high_j == pytest.approx(0.4)
    assert found.reason == "other work disturbed 75\u00a0% of its energy windows"


def test_a_calm_window_counts_beside_disturbed_ones() -> None:
    windows = [calls(50, 2.0, disturbed_s=1.5), calls(200, 2.0), calls(60, 2.0, disturbed_s=1.4)]
    assert call_energy(windows, STEADY_S).energy_j == pytest.approx(0.1)


def test_windows_that_say_nothing_of_it_are_compared_with_the_time() -> None:
    # 230 µs, 6.35 W and 6.52 mJ, where 1.46 mJ is the product.
    old = calls(1000, 1.0268, power_w=6.35, disturbed_s=None)
    found = call_energy([old], (230e-6,) * 40)
    assert (found.energy_j, found.power_w) == (None, None)
    assert found.high_j == pytest.approx(6.52e-3, rel=1e-3)
    why = "a call took 1.03\u00a0ms in its energy windows, not 230\u00a0µs"
    assert found.reason == why


def test_calls_that_were_faster_in_the_windows_bound_nothing() -> None:
    found = call_energy([calls(400, 2.0)], STEADY_S)
    assert (found.energy_j, found.high_j, found.power_w) == (None, None, None)


def test_without_a_time_there_is_a_bound() -> None:
    found = call_energy([calls(200, 2.0)], ())
    assert found.energy_j is None
    assert found.high_j == pytest.approx(0.1)


def test_samples_that_were_all_disturbed_are_the_most_that_the_time_may_be() -> None:
    row = measurement("r", ())
    row = replace(row, rejected_s=(0.02, 0.03, 0.04), rejected_reason=("waited",) * 3)
    times = times_of(row)
    assert times == {"time_s": None, "low_s": None, "high_s": 0.03}
    assert seconds(times["time_s"], times["low_s"], times["high_s"]) == (
        "at most 30.0\u00a0ms, disturbed"
    )
    assert joules(None, None, 0.0741) == "at most 74.1\u00a0mJ, disturbed"


def test_a_disturbed_energy_is_in_no_model(tmp_path: Path) -> None:
    disturbed = measurement("r", STEADY_S, energy=(calls(50, 2.0, disturbed_s=1.5),))
    write_networks(tmp_path, (disturbed,))
    (row,) = measured_observations(ingest(tmp_path)).rows.iter_rows(named=True)
    assert row["latency_s"] == 0.01
    assert (row["power_w"], row["reason"]) == (
        None,
        "other work disturbed 75\u00a0% of its energy windows",
    )


def test_a_disturbed_window_of_a_kernel_has_no_energy_in_the_frame() -> None:
    kernel = trial("r", "fma", 1e9, energy=(calls(50, 2.0, disturbed_s=1.5), calls(200, 2.0)))
    rows = energy_frame((), (kernel,)).rows(named=True)
    assert [row["energy_j"] for row in rows] == [None, None, 20.0, 20.0]
    assert "other work disturbed 75% of the window" in rows[0]["unknown_json"]


LENGTHS = st.floats(1e-5, 10.0)
POWERS = st.floats(0.5, 500.0)


@st.composite
def metered_windows(draw: st.DrawFn) -> EnergyWindow:
    """Any window: of calls of any length, disturbed for any part of it, or not watched for it."""
    n, call_s = draw(st.integers(1, 1000)), draw(LENGTHS)
    share = draw(st.none() | st.floats(0, 1))
    disturbed_s = None if share is None else share * n * call_s
    found = calls(n, n * call_s, power_w=draw(POWERS), disturbed_s=disturbed_s)
    error = draw(st.none() | st.floats(0, 0.5))
    if error is None or found.total_j is None:
        return found
    unknown = {name: why for name, why in found.unknown.items() if name != "error_j"}
    return replace(found, error_j=error * found.total_j, unknown=unknown)


SAMPLES = st.lists(LENGTHS, max_size=30) | LENGTHS.map(lambda call_s: [call_s] * 12)


@given(st.lists(metered_windows(), max_size=6), SAMPLES)
@example([calls(115, 0.94, power_w=9.066, disturbed_s=None)], [0.002107] * 7)
@example([calls(10, 1.0), calls(10, 1.0, power_w=40.0), calls(20, 1.0)], [0.1, 0.05, 0.1])
def test_no_energy_contradicts_power_times_time(
    windows: list[EnergyWindow], samples: list[float]
) -> None:
    found, time = call_energy(windows, samples), timed(samples)
    known = [found.energy_j, found.low_j, found.power_w]
    if found.energy_j is None:
        assert known == [None] * 3
        assert found.reason
        return
    assert None not in known
    assert found.low_j is not None
    assert found.high_j is not None
    assert found.power_w is not None
    assert time.time_s is not None
    product_j = found.power_w * time.time_s
    assert found.low_j * (1 - 1e-9) <= product_j <= found.high_j * (1 + 1e-9)
    assert found.low_j <= found.energy_j <= found.high_j
    # Nor is it far off the interval of the time: 5 % beyond it.
    low_s, high_s = time.low_s or min(samples), time.high_s or max(samples)
    assert found.power_w * low_s / 1.0501 <= found.energy_j <= found.power_w * high_s * 1.0501
    # And some window was calm.
    assert any((each.disturbed_s or 0) <= 0.0501 * each.window_s for each in windows)


@given(
    st.lists(st.tuples(st.floats(0.01, 100.0), st.none() | POWERS), min_size=1, max_size=12),
)
@example([(1.0, 10.0), (2.0, 10.0), (10.0, 1.0)])
@example([(1.0, None), (1.0, None), (1.0, None), (5.0, 10.0)])
def test_no_program_contradicts_power_times_time(runs: list[tuple[float, float | None]]) -> None:
    # The meter may have failed in any of the runs.
    repetitions = tuple(repetition(wall_s, power_w=power_w) for wall_s, power_w in runs)
    (whole,) = program_times(replace(program("p", ()), repetitions=repetitions), "board", "15W")
    assert whole.time_s is not None
    if whole.energy_j is not None:
        assert whole.energy_low_j is not None
        assert whole.energy_high_j is not None
        assert whole.power_w is not None
        product_j = whole.power_w * whole.time_s
        assert whole.energy_low_j * (1 - 1e-9) <= product_j <= whole.energy_high_j * (1 + 1e-9)
