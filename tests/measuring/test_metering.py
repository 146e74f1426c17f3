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
from mansard.measuring.raw_samples import RawSample
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
    assert "let it last" in window.unknown["total_j"]
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
    assert "the energy counter stood still for 3" in window.unknown["total_j"]
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
