"""Energy windows by a counter that moves in steps, on a virtual clock: settling, and their ends."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.clock import VirtualClock
from mansard.core.records import EnergyWindow, PowerSample
from mansard.device.meters.meter import Meters
from mansard.device.totals import Total
from mansard.measuring.metering import EnergyMetering, Metered
from mansard.measuring.protocol import PROTOCOLS, Protocol
from mansard.measuring.raw_samples import RawSample, waited_s
from tests.device.stepped_meter import EnergyAt, SteppedMeter, steady, stepping

QUICK, FULL = PROTOCOLS["quick"], PROTOCOLS["full"]
PACES_S = [0.02, 0.1, 0.5]


class Kernel:
    """A kernel of 1 ms that runs on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.run_s = 0.0

    def take(self, n_samples: int, n: int, should_stop: Callable[[], bool]) -> list[RawSample]:
        del should_stop
        taken = []
        for _ in range(n_samples):
            start_s = self.clock.now_s()
            self.clock.sleep(n * 0.001)
            taken.append(RawSample(self.clock.now_s() - start_s, start_s))
        self.run_s += n_samples * n * 0.001
        return taken


def meter(energy_at: EnergyAt, pace_s: float, protocol: Protocol) -> tuple[Metered, Kernel]:
    """What a kernel of two repetitions a sample is metered with; it begins at 100 s."""
    clock = VirtualClock(100.0)
    found = (SteppedMeter(clock, energy_at, pace_s),)
    meters = Meters(found, {}, Total(("gpu0",), "gpu0", "card"), "", clock.clock())
    kernel = Kernel(clock)
    kept: list[PowerSample] = []
    metered = EnergyMetering(meters, protocol, kept.append, period_s=0.01).run(
        kernel, 2, lambda: False
    )
    return metered, kernel


def only_window(metered: Metered) -> EnergyWindow:
    (window,) = metered.windows or ()
    return window


def lasting(protocol: Protocol, **seconds: float) -> Protocol:
    return msgspec.structs.replace(protocol, **seconds)


@pytest.mark.parametrize("pace_s", PACES_S)
def test_power_that_still_rises_is_not_taken_for_settled(pace_s: float) -> None:
    # From 300 W to 700 W within 4 s. Of a counter of 0.5 s a stretch of 0.5 s has a step or none.
    rising = stepping(*[(100.0 + k / 10, 300.0 + 10 * k) for k in range(41)])
    slow = lasting(QUICK, settle_s=0.5, settle_cap_s=20.0, n_changed_min=5, energy_window_cap_s=6.0)
    window = only_window(meter(rising, pace_s, slow)[0])
    assert window.is_settled is True
    assert window.total_j == pytest.approx(700 * window.window_s, rel=0.02)


def test_settling_is_not_skipped_where_the_counter_stands_still() -> None:
    # The counter moves every 0.5 s; a settling stretch lasts 0.2 s, and all of them one second.
    metered, kernel = meter(steady(500), 0.5, QUICK)
    window = only_window(metered)
    assert window.is_settled is None
    assert window.unknown["is_settled"] == (
        "the meter changes too seldom to compare two stretches within 1 s"
    )
    assert window.start_s >= 101.0  # the second was used up
    # 20 steps of 0.5 s are more than the 3 s that a window may last.
    assert window.total_j is None
    assert "run it for" in window.unknown["total_j"]
    assert kernel.run_s < 1.3 + 3.3 + 0.6


def test_power_that_never_settles_is_said() -> None:
    # 100 W more every 0.3 s; stretches of 0.5 s, up to 4 s.
    rising = stepping(*[(100.0 + 0.3 * k, 100.0 * (k + 1)) for k in range(30)])
    window = only_window(meter(rising, 0.02, lasting(QUICK, settle_s=0.5, settle_cap_s=4.0))[0])
    assert window.is_settled is False
    assert "is_settled" not in window.unknown


def test_a_counter_that_never_moves_is_unknown_with_a_reason() -> None:
    window = only_window(meter(steady(500), 1e9, QUICK)[0])
    assert window.total_j is None
    assert "the energy counter did not change for 3" in window.unknown["total_j"]
    assert window.is_settled is None


@settings(max_examples=60, deadline=None)
@given(st.floats(0.005, 0.14), st.floats(10, 700))
def test_windows_are_within_their_bound(pace_s: float, power_w: float) -> None:
    # Idle before and after the kernel, which is what a meter sees of a benchmark.
    window = only_window(meter(stepping((0.0, 70), (100.0, power_w + 70)), pace_s, QUICK)[0])
    assert window.total_j is not None
    assert window.error_j is not None
    assert abs(window.total_j - (power_w + 70) * window.window_s) <= window.error_j + 1e-6
    # 20 steps, or half a second: 20 ms of either, and a quarter of two steps, at most.
    assert window.error_j <= (power_w + 70) * (0.02 + 0.5 * pace_s) + 1e-6


def test_the_kernel_runs_on_until_the_counter_has_moved_behind_the_last_window() -> None:
    # A step every 100 ms: the window's end is bounded by one at the same power, and 0.15 s of
    # running on are enough for it.
    metered, kernel = meter(steady(500), 0.1, lasting(FULL, settle_s=0.6))
    windows = metered.windows or ()
    assert len(windows) == 5
    run_s = windows[-1].start_s + windows[-1].window_s
    assert 0.05 <= 100.0 + kernel.run_s - run_s <= 0.16
    for window in windows:
        assert window.total_j == pytest.approx(500 * window.window_s, rel=0.01)
        assert window.error_j is not None
        assert window.error_j < 0.02 * 500 * window.window_s


class SharedKernel(Kernel):
    """A kernel that waits for CPUs in a share of the time, which depends on the moment."""

    def __init__(self, clock: VirtualClock, share_at: Callable[[float], float]) -> None:
        super().__init__(clock)
        self.share_at = share_at

    def take(self, n_samples: int, n: int, should_stop: Callable[[], bool]) -> list[RawSample]:
        raw = []
        for _ in range(n_samples):
            share = self.share_at(self.clock.now_s())
            (sample,) = super().take(1, n, should_stop)
            waited_s = sample.duration_s * share / (1 - share)
            self.clock.sleep(waited_s)
            length_s = self.clock.now_s() - sample.started_s
            raw.append(RawSample(length_s, sample.started_s, waited_s=waited_s))
        return raw


def meter_beside(share_at: Callable[[float], float], protocol: Protocol) -> tuple[Metered, float]:
    """What is metered at 500 W, and how long the kernel ran."""
    clock = VirtualClock(100.0)
    found = (SteppedMeter(clock, steady(500), 0.02),)
    meters = Meters(found, {}, Total(("gpu0",), "gpu0", "card"), "", clock.clock())
    kernel = SharedKernel(clock, share_at)
    metering = EnergyMetering(meters, protocol, lambda _: None, period_s=0.01)
    return metering.run(kernel, 2, lambda: False), clock.now_s() - 100.0


def test_a_quiet_window_is_not_disturbed() -> None:
    window = only_window(meter_beside(lambda _: 0.0, QUICK)[0])
    assert window.disturbed_s == 0.0
    assert "disturbed_s" not in window.unknown


def test_a_window_that_other_work_disturbs_is_taken_again() -> None:
    # It settles by 100.4 s, and the first windows of 0.5 s are half disturbed, until 101.4 s.
    metered, _ = meter_beside(lambda time_s: 0.5 if time_s < 101.4 else 0.01, QUICK)
    window = only_window(metered)
    assert window.start_s >= 100.9  # a later one
    assert window.disturbed_s is not None
    assert window.disturbed_s <= 0.05 * window.window_s
    # 1 % of 2 ms / 0.99 each.
    assert window.disturbed_s == pytest.approx(0.01 * window.window_s, rel=0.01)


def test_where_every_window_is_disturbed_the_calmest_says_so() -> None:
    # The share falls from nine tenths by a tenth every 0.7 s, and rises again after two seconds.
    def share_at(time_s: float) -> float:
        return 0.9 - 0.1 * int((time_s - 100.0) / 0.7) if time_s < 102.8 else 0.9

    metered, lasted_s = meter_beside(share_at, QUICK)
    window = only_window(metered)
    assert window.total_j == pytest.approx(500 * window.window_s, rel=0.05)
    assert window.disturbed_s is not None
    # The last whole window before 102.8 s: six tenths, or between that and five.
    assert 0.5 * window.window_s <= window.disturbed_s <= 0.65 * window.window_s
    # All tries together took no longer than the longest window, and the settling its second.
    assert lasted_s <= QUICK.settle_cap_s + QUICK.energy_window_cap_s + 1.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 0.95), min_size=1, max_size=8))
def test_the_disturbed_time_of_a_window_is_what_its_samples_waited(shares: list[float]) -> None:
    def share_at(time_s: float) -> float:
        return shares[int((time_s - 100.0) / 0.3) % len(shares)]

    window = only_window(meter_beside(share_at, QUICK)[0])
    assert window.disturbed_s is not None
    # A sample of two repetitions of 1 ms: what is beyond them is waiting.
    assert window.disturbed_s == pytest.approx(
        window.window_s - 0.001 * window.repetitions, abs=1e-6
    )


def test_a_thread_without_its_cpu_waits() -> None:
    # 2 ms, of which the slowest thread had its CPU for three quarters; then all of them; a GPU.
    raw = [
        RawSample(0.002, 1.0, cpu_share=0.75, n_switches=3),
        RawSample(0.002, 2.0, cpu_share=1.0001, n_switches=0),
        RawSample(0.002, 3.0, clock_hz=1e9),
        # Eight threads waited, 4 ms together: the sample waited no longer than it lasted.
        RawSample(0.002, 4.0, waited_s=0.004),
    ]
    assert waited_s(raw) == pytest.approx(0.0005 + 0.002)
