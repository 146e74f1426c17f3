"""Counters of energy that move in steps: windows, their error at most, and counters that stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mansard.core.clock import VirtualClock
from mansard.core.records import PowerSample, RailEnergy
from mansard.device.meters.meter import Meters, RailFacts
from mansard.device.meters.sampler import Sampler, idle_window
from mansard.device.totals import Total
from tests.device.energy_samples import energy, only_rail
from tests.device.stepped_meter import SteppedMeter, steady, stepping

FACTS = RailFacts(period_s=0.01)
PACES_S = st.floats(0.001, 0.5)


def readings(
    energy_at: Callable[[float], float],
    pace_s: float,
    phase_s: float,
    *,
    end_s: float,
    period_s: float = 0.01,
) -> list[PowerSample]:
    """Readings every ``period_s`` from 0 on, of a counter renewed every ``pace_s``."""
    samples = []
    for at in range(round(end_s / period_s) + 1):
        now_s = at * period_s
        renewed_s = phase_s + (now_s - phase_s) // pace_s * pace_s
        samples.append(energy(now_s, energy_at(renewed_s)))
    return samples


def error_of(rail: RailEnergy, true_j: float) -> tuple[float, float]:
    """The error of an energy, and what the window says that it is at most."""
    assert rail.energy_j is not None
    assert rail.error_j is not None
    return abs(rail.energy_j - true_j), rail.error_j + 1e-9 * true_j


@given(
    PACES_S,
    st.floats(0, 1),
    st.floats(1, 1000),
    st.floats(0.5, 1.5),
    st.floats(0.3, 4),
    st.sampled_from([0.005, 0.01, 0.05]),
)
def test_the_error_of_a_steady_power_is_never_above_the_bound(
    pace_s: float, phase: float, power_w: float, start_s: float, window_s: float, period_s: float
) -> None:
    end_s = start_s + window_s
    samples = readings(steady(power_w), pace_s, phase * pace_s, end_s=end_s + 1, period_s=period_s)
    rail = only_rail(samples, start_s, end_s, RailFacts(period_s=period_s), n_changed_min=1)
    assume(rail.error_j is not None)
    error_j, most_j = error_of(rail, power_w * window_s)
    assert error_j <= most_j


@given(PACES_S, st.floats(0, 1), st.floats(0, 300), st.floats(310, 1000), st.floats(0.01, 4))
def test_it_holds_where_the_load_begins_and_ends_with_the_window(
    pace_s: float, phase: float, idle_w: float, busy_w: float, more_s: float
) -> None:
    # Busy for longer than ten steps, so that some of them show its power.
    start_s, end_s = 2.0, 2.0 + 10 * pace_s + 0.3 + more_s
    at = stepping((0.0, idle_w), (start_s, busy_w), (end_s, idle_w))
    samples = readings(at, pace_s, phase * pace_s, end_s=end_s + 1)
    rail = only_rail(samples, start_s, end_s, FACTS, n_changed_min=1)
    error_j, most_j = error_of(rail, busy_w * (end_s - start_s))
    assert error_j <= most_j


@pytest.mark.parametrize("pace_s", [0.02, 0.1, 0.5])
def test_the_bound_shrinks_with_the_length_of_the_window(pace_s: float) -> None:
    samples = readings(steady(500), pace_s, 0.3 * pace_s, end_s=45)
    shares = []
    for window_s in (2.5, 10.0, 40.0):
        rail = only_rail(samples, 2.003, 2.003 + window_s, FACTS, n_changed_min=1)
        error_j, most_j = error_of(rail, 500 * window_s)
        assert error_j <= most_j
        shares.append(most_j / (500 * window_s))
    assert shares[0] > 2 * shares[1] > 4 * shares[2]
    # A reading is late by up to 10 ms at either end: 20 ms of 2.5 s and of 40 s, and by a quarter
    # more of a step where it takes the power for higher than it is.
    assert shares[0] < 0.008 + 0.25 * pace_s / 2.5
    assert shares[2] < 0.0005 + 0.25 * pace_s / 40


def test_a_counter_between_two_readings_of_one_value_is_not_taken_for_idle() -> None:
    # Renewed at 0, 0.5, 1.0 … s at 100 W: from 1.25 s to 2.25 s the readings show 50 J of 100 J,
    # and 150 J from 1.0 s to 2.0 s. Interpolated between its steps it is 100 J.
    samples = readings(steady(100), 0.5, 0.0, end_s=4)
    rail = only_rail(samples, 1.25, 2.25, FACTS, n_changed_min=1)
    assert rail.energy_j == pytest.approx(100, abs=2)
    short = only_rail(samples, 1.25, 1.55, FACTS, n_changed_min=1)
    assert short.energy_j == pytest.approx(30, abs=2)


def test_a_counter_that_stands_still_is_unknown_and_not_0_j() -> None:
    samples = [energy(at / 100, 7.0) for at in range(201)]
    rail = only_rail(samples, 0.5, 1.5, FACTS, n_changed_min=0)
    assert rail.energy_j is None
    assert rail.error_j is None
    assert rail.unknown["energy_j"] == rail.unknown["error_j"]
    assert rail.unknown["energy_j"] == (
        "not measurable: the energy counter did not change for 1 s, in 101 readings; run it "
        "longer, in a loop, unless the counter has stopped"
    )


def test_a_counter_that_moved_too_seldom_has_no_error_and_says_so() -> None:
    rail = only_rail([energy(0, 0), energy(1, 5)], 0.0, 1.0, FACTS)
    assert rail.energy_j == 5
    assert rail.error_j is None
    assert rail.unknown["error_j"] == (
        "the counter moved too seldom near the window to tell its pace (steps seen: 1)"
    )


def test_a_pace_that_the_meter_knows_bounds_the_error_more_closely() -> None:
    # Renewed every millisecond and read every 50: at most 2 ms old at either end.
    samples = readings(steady(50), 0.001, 0.0, end_s=4, period_s=0.05)
    facts = RailFacts(period_s=0.05, paces_s={"package-0": 0.002})
    rail = only_rail(samples, 1.013, 3.021, facts, n_changed_min=1)
    error_j, most_j = error_of(rail, 50 * 2.008)
    # 4 ms of 50 W are 0.2 J; the power may be taken for a twentieth too high, over 25 ms.
    assert error_j <= most_j < 0.35


def meters_of(clock: VirtualClock, meter: SteppedMeter) -> Meters:
    return Meters((meter,), {}, Total(("gpu0",), "gpu0", "card"), "", clock.clock())


@pytest.mark.parametrize("pace_s", [0.02, 0.1, 0.5])
def test_an_idle_window_is_long_against_the_counter(pace_s: float) -> None:
    clock = VirtualClock()
    meters = meters_of(clock, SteppedMeter(clock, steady(70), pace_s))
    with Sampler(meters, period_s=0.01) as sampler:
        window = idle_window(sampler, 1.0, clock.clock())
    # Five steps of 20 or 100 ms lie within a second; of 500 ms they take 2.5 s, and a quarter of
    # a second more at most.
    assert 1.0 <= window.window_s <= (2.76 if pace_s == 0.5 else 1.01)
    assert window.total_j is not None
    assert window.error_j is not None
    assert abs(window.total_j - 70 * window.window_s) <= window.error_j
    assert window.unknown == {
        "is_settled": "only a kernel or network that repeats without pause can settle",
        "disturbed_s": "only repetitions of a kernel or network are watched for it",
    }


def test_reading_past_a_moment_ends_at_the_next_step_or_after_half_a_second() -> None:
    clock = VirtualClock(0.0)
    sampler = Sampler(meters_of(clock, SteppedMeter(clock, steady(70), 0.1)), period_s=0.01)
    sampler.read()
    clock.sleep(0.25)
    sampler.read_past(0.25)
    assert clock.now_s() == pytest.approx(0.3, abs=0.011)
    stopped = SteppedMeter(clock, steady(70), 1e9)
    sampler = Sampler(meters_of(clock, stopped), period_s=0.01)
    start_s = clock.now_s()
    sampler.read_past(start_s)
    assert clock.now_s() == pytest.approx(start_s + 0.5, abs=0.011)


def test_energy_of_a_curve() -> None:
    # 10 W for 2 s, 30 W for 1 s, 5 W after: 20 + 30 + 5 J
    at = stepping((0.0, 10), (2.0, 30), (3.0, 5))
    assert at(4.0) == 55
