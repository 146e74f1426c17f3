"""Acceptance, calibration and stopping, with recorded samples and a clock of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
import pytest

from mansard.core.clock import Clock
from mansard.core.errors import MeasurementError
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.raw_samples import RawSample, rejection
from mansard.measuring.sampling import Samples, calibrate, collect
from mansard.microbench.cpu.source import combine

QUICK = PROTOCOLS["quick"]  # 80 samples in 8 blocks, samples of 2 ms, 1.5 s at most


class Recording:
    """Plays samples back; time passes as they say."""

    def __init__(self, repetition_s: float, disturbances: Iterator[tuple[float, float, int]]):
        self._repetition_s = repetition_s
        self._disturbances = disturbances  # factor on the duration, CPU share, switches
        self.now_s = 100.0
        self.n_taken = 0

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        taken = []
        for _ in range(n_samples):
            if should_stop():
                break
            factor, share, switches = next(self._disturbances)
            duration_s = repetitions * self._repetition_s * factor
            taken.append(RawSample(duration_s, self.now_s, share, switches))
            self.now_s += duration_s
            self.n_taken += 1
        return taken

    def clock(self) -> Clock:
        def sleep(seconds_s: float) -> None:
            self.now_s += seconds_s

        return Clock(now_s=lambda: self.now_s, sleep=sleep)


def run(recording: Recording, interval_max: float = 0.01) -> Samples:
    return collect(recording, QUICK, interval_max, clock=recording.clock())


def test_quiet_machine_takes_the_least_that_the_protocol_asks_for() -> None:
    recording = Recording(1e-5, cycle([(1.0, 0.999, 0)]))
    samples = run(recording)
    assert samples.repetitions_per_sample == 200  # 2 ms / 10 µs
    assert len(samples.seconds_s) == 80
    assert samples.seconds_s == pytest.approx([1e-5] * len(samples.seconds_s))
    # Eight blocks of ten, in order.
    assert samples.block == tuple(block for block in range(8) for _ in range(10))
    assert (samples.rejected_s, samples.rejected_reason) == ((), ())
    assert samples.stability == "stable"
    assert samples.stability_interval == pytest.approx(0, abs=1e-9)
    assert samples.stability_reason is None
    assert not samples.interrupted


def test_disturbed_samples_are_kept_with_their_reason() -> None:
    # Of four samples one was switched away from and took 3 times as long, one was robbed.
    pattern = [(1.0, 0.999, 0), (3.0, 0.999, 2), (1.0, 0.999, 0), (1.5, 0.91, 0)]
    samples = run(Recording(1e-5, cycle(pattern)))
    assert samples.stability == "stable"
    assert len(samples.seconds_s) >= 80
    assert len(samples.rejected_s) == len(samples.rejected_reason)
    assert samples.seconds_s == pytest.approx([1e-5] * len(samples.seconds_s))
    reasons = dict(zip(samples.rejected_reason, samples.rejected_s, strict=True))
    assert reasons == {
        "2 involuntary context switches": pytest.approx(3e-5),
        "CPU time is 0.910 of wall time": pytest.approx(1.5e-5),
    }


@pytest.mark.parametrize(
    ("share", "switches", "accepted"),
    [(0.981, 0, True), (0.98, 0, False), (0.5, 0, False), (1.0, 1, False), (1.01, 0, True)],
)
def test_what_counts_as_disturbed(share: float, switches: int, accepted: bool) -> None:
    assert (rejection(RawSample(1.0, 0.0, share, switches), 0.98) is None) is accepted


def test_blocks_that_differ_are_unstable_after_the_cap() -> None:
    # Whole stretches of 11 samples (a block and its first, dropped one) at two speeds.
    pattern = [(1.0, 0.999, 0)] * 11 + [(1.2, 0.999, 0)] * 11
    recording = Recording(1e-5, cycle(pattern))
    samples = run(recording)
    assert samples.stability == "unstable"
    assert samples.stability_interval is not None
    assert samples.stability_interval > 0.01
    assert "block medians differ" in str(samples.stability_reason)
    assert len(samples.seconds_s) > 80  # it went on trying
    assert 101.5 <= recording.now_s < 101.5 + 0.1  # to the cap and not much beyond
    assert not samples.interrupted


def test_the_same_blocks_are_stable_for_a_wider_limit() -> None:
    pattern = [(1.0, 0.999, 0)] * 11 + [(1.02, 0.999, 0)] * 11
    assert run(Recording(1e-5, cycle(pattern)), interval_max=0.03).stability == "stable"


def test_a_machine_that_disturbs_everything_is_an_honest_result() -> None:
    samples = run(Recording(1e-5, cycle([(2.0, 0.6, 3)])))
    assert (samples.seconds_s, samples.block) == ((), ())
    assert len(samples.rejected_s) > 100
    assert samples.stability == "unstable"
    assert samples.stability_interval is None
    assert samples.stability_reason == "every sample was disturbed by other work on this machine"


def test_too_few_samples_before_the_cap() -> None:
    # One repetition of 100 ms: a block of 11 takes 1.1 s, so the cap ends after two.
    samples = run(Recording(0.1, cycle([(1.0, 0.999, 0)])))
    assert samples.repetitions_per_sample == 1
    assert samples.stability == "unstable"
    assert "10 of 80 that are needed, in 1 of 8 blocks" in str(samples.stability_reason)


def test_stop_keeps_what_there_is() -> None:
    recording = Recording(1e-5, cycle([(1.0, 0.999, 0)]))
    samples = collect(
        recording, QUICK, 0.01, lambda: recording.n_taken >= 70, clock=recording.clock()
    )
    assert samples.interrupted
    assert recording.n_taken == 70
    assert 0 < len(samples.seconds_s) < 70
    assert samples.stability == "unstable"


@pytest.mark.parametrize("repetition_s", [1e-8, 3.7e-6, 1.9e-3, 2.1e-3, 0.5])
def test_calibration_aims_at_the_length_of_a_sample(repetition_s: float) -> None:
    recording = Recording(repetition_s, cycle([(1.0, 0.999, 0), (5.0, 0.4, 1)]))
    repetitions = calibrate(recording, 0.002, lambda: False)
    assert repetitions == max(1, round(0.002 / repetition_s))


def test_a_kernel_that_takes_no_time_was_optimised_away() -> None:
    with pytest.raises(MeasurementError, match="time is 0"):
        calibrate(Recording(0.0, cycle([(1.0, 1.0, 0)])), 0.002, lambda: False)


def test_samples_of_two_threads_are_combined() -> None:
    # Columns: start ns, end ns, CPU ns, switches.
    first = np.array([[1_000, 3_000, 2_000, 0], [5_000, 6_000, 1_000, 0]])
    second = np.array([[1_500, 3_500, 1_000, 1], [5_000, 7_000, 2_000, 0]])
    one, two = combine([first, second])
    # From 1,000 to 3,500 ns; the second thread had 1,000 of 2,000 ns.
    assert one.duration_s == pytest.approx(2.5e-6)
    assert (one.cpu_share, one.n_switches) == (0.5, 1)
    # From 5,000 to 7,000 ns; both had all of their time.
    assert two.duration_s == pytest.approx(2e-6)
    assert (two.cpu_share, two.n_switches) == (1.0, 0)
    assert two.started_s == pytest.approx(5e-6)
