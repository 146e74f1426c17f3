"""The sampler: its schedule, its counts, and meters that fail."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MeasurementError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import NO_METERS, READS_POWER, Meter, Meters
from mansard.device.meters.sampler import Sampler, affordable_period_s, idle_window, next_tick
from mansard.device.totals import Total
from tests.device.replay_meters import ReplayMeter, TraceMeter
from tests.waiting import awaited


def power(time_s: float, power_w: float) -> PowerSample:
    return PowerSample(
        rail="VDD_IN", monotonic_s=time_s, power_w=power_w, energy_j=None, unknown=READS_POWER
    )


def meters(*found: Meter) -> Meters:
    return Meters(found, {}, Total(("VDD_IN",), "VDD_IN", "module"), "")


def test_the_sampler_keeps_every_reading() -> None:
    recorded = [(power(float(i), 10.0 + i),) for i in range(200)]
    with Sampler(meters(ReplayMeter(recorded)), period_s=0.001) as sampler:
        assert awaited(lambda: sampler.n_readings >= 5)
    samples = sampler.samples
    assert 6 <= len(samples) <= 200  # one before, at least four in between, one after
    assert list(samples) == [reading[0] for reading in recorded[: len(samples)]]
    assert sampler.n_readings == len(samples)


def test_gaps_and_repeated_readings_are_counted() -> None:
    # Period 1 s: from 2 s to 6 s a gap, from 6 s to 9 s (three periods) none; 7 W twice.
    times = [(0.0, 5.0), (1.0, 6.0), (2.0, 7.0), (6.0, 7.0), (9.0, 8.0)]
    sampler = Sampler(meters(ReplayMeter([(power(*one),) for one in times])), period_s=1.0)
    for _ in times:
        sampler.read()
    assert (sampler.n_readings, sampler.n_gaps, sampler.n_repeated) == (5, 1, 1)


def test_a_meter_that_stops_answering_leaves_its_reason_in_the_samples() -> None:
    trace = {"VDD_IN": [(-1.0, 5.0), (0.5, 6.0)]}  # it ends after half a second
    with Sampler(meters(TraceMeter(trace)), period_s=0.005) as sampler:
        start_s = time.monotonic()
        time.sleep(0.7)
        end_s = time.monotonic()
    window = sampler.window(start_s, end_s, n_changed_min=1)
    assert window.rails[0].energy_j is None
    assert "stopped answering" in window.rails[0].unknown["energy_j"]
    assert "the trace has ended" in window.rails[0].unknown["energy_j"]
    assert window.total_j is None
    assert sampler.samples[0].power_w is not None  # what was read is kept
    assert sampler.samples[-1].power_w is None


def test_one_meter_that_fails_does_not_stop_the_other() -> None:
    failing, lasting = ReplayMeter([(power(0.0, 1.0),)]), TraceMeter({"GPU": [(-9, 5), (99, 5)]})
    sampler = Sampler(Meters((failing, lasting), {}, None, "two"))
    sampler.read()
    sampler.read()
    assert [sample.power_w for sample in sampler.samples if sample.rail == "GPU"] == (
        pytest.approx([5.0, 5.0])
    )
    assert [sample.power_w for sample in sampler.samples if sample.rail == "VDD_IN"] == [1.0, None]


@pytest.mark.parametrize("n_readings", [9, 10, 11, 12])
def test_what_is_sampled_for_long_is_thinned(n_readings: int) -> None:
    """Of one rail, at most 8 samples: after the ninth 0, 2, 4, 6 and 8 are left, and 9 is next."""
    recorded = [(power(float(i), 10.0 + i),) for i in range(20)]
    sampler = Sampler(meters(ReplayMeter(recorded)), period_s=1.0, most_samples=8)
    for _ in range(n_readings):
        sampler.read()
    assert sampler.period_s == 2.0
    times_s = [sample.monotonic_s for sample in sampler.samples]
    assert times_s == [0, 2, 4, 6, 8, *range(9, n_readings)]
    # A straight line has the same energy: 10 + t over [0, 8] is 8 · 14 J.
    assert sampler.window(0.0, 8.0, n_changed_min=1).total_j == pytest.approx(112)


def test_the_first_and_the_last_reading_stay() -> None:
    recorded = [(power(float(i), 10.0),) for i in range(20)]
    sampler = Sampler(meters(ReplayMeter(recorded)), period_s=1.0, most_samples=9)
    for _ in range(10):
        sampler.read()
    assert [sample.monotonic_s for sample in sampler.samples] == [0, 1, 3, 5, 7, 9]


def test_readings_that_are_not_needed_can_be_forgotten() -> None:
    recorded = [(power(float(i), 10.0 + i),) for i in range(20)]
    sampler = Sampler(meters(ReplayMeter(recorded)), period_s=1.0)
    for _ in range(20):
        sampler.read()
    before = sampler.window(12.5, 15.5, n_changed_min=1)
    sampler.forget(12.5)
    assert sampler.window(12.5, 15.5, n_changed_min=1) == before
    assert [one.monotonic_s for one in sampler.between(12.5, 15.0)] == [13, 14, 15]
    assert sampler.samples[0].monotonic_s >= 10


def test_without_meters_nothing_is_sampled() -> None:
    with Sampler(NO_METERS) as sampler:
        pass
    assert sampler.samples == ()
    window = sampler.window(0.0, 1.0)
    assert (window.rails, window.total_j) == ((), None)
    assert window.unknown["total_j"] == "there is no meter"


def test_a_window_that_is_not_sampled_is_an_error() -> None:
    with Sampler(meters(TraceMeter({"VDD_IN": [(-9, 5), (99, 9)]}))) as sampler:
        pass
    with pytest.raises(MeasurementError, match="do not cover"):
        sampler.window(time.monotonic() - 60, time.monotonic())


def test_an_idle_window_has_no_repetitions() -> None:
    # 4 W at the start, 0.1 W more each second: the window of 0.1 s has about 0.4 J.
    trace = {"VDD_IN": [(-40.0, 0.0), (960.0, 100.0)]}
    with Sampler(meters(TraceMeter(trace)), period_s=0.01) as sampler:
        for _ in range(40):  # a busy machine may not let it read throughout
            window = idle_window(sampler, 0.1)
            if window.total_j is not None:
                break
    assert window.repetitions == 0
    assert window.total_j == window.rails[0].energy_j
    assert window.total_j == pytest.approx(4.2 * window.window_s, rel=0.2)


@given(
    elapsed_s=st.floats(0, 1e6),
    period_s=st.floats(0.001, 10),
    tick=st.integers(0, 1000),
)
def test_ticks_lie_ahead_on_one_schedule(elapsed_s: float, period_s: float, tick: int) -> None:
    following = next_tick(elapsed_s, period_s, tick)
    assert following > tick
    assert following * period_s >= elapsed_s * (1 - 1e-12)
    # No tick that is still ahead is left out.
    assert following == tick + 1 or (following - 1) * period_s < elapsed_s


def test_a_late_reading_does_not_move_the_schedule() -> None:
    # Period 0.1 s, tick 3 was due at 0.3 s and ended at 0.57 s: the next is at 0.6 s.
    assert next_tick(0.57, 0.1, 3) == 6
    assert next_tick(0.301, 0.1, 3) == 4


def test_readings_that_cost_too_much_are_taken_less_often() -> None:
    # 2 % of a core: 1 ms of CPU every 50 ms. Half the wall clock: 12 ms every 24 ms.
    assert affordable_period_s(0.01, 0.0001, 0.003) == 0.01
    assert affordable_period_s(0.01, 0.001, 0.003) == pytest.approx(0.05)
    assert affordable_period_s(0.01, 0.0001, 0.012) == pytest.approx(0.024)
