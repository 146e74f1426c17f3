"""How long a network is run for, and which of its samples count."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mansard.core.clock import Clock
from mansard.inference.calls import (
    CallSource,
    ThreadTimes,
    paced_protocol,
    samples_of_run,
    single_calls,
    undisturbed,
    warm_up,
)
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.raw_samples import RawSample, rejection
from mansard.measuring.sampling import collect

QUICK = PROTOCOLS["quick"]  # 80 samples in 8 blocks, 1.5 s


@pytest.mark.parametrize(
    ("sample_s", "n_accepted"),
    [
        (0.002, 80),  # 10 a block, as the protocol has it: 8 · 10 · 2 ms = 0.16 s
        (0.02, 32),  # half of 1.5 s holds 37 samples of 20 ms, which are 4 for each of 8 blocks
        (3.0, 8),  # one for each block, though not even one fits
    ],
)
def test_long_calls_are_taken_less_often(sample_s: float, n_accepted: int) -> None:
    assert paced_protocol(QUICK, sample_s).n_accepted_min == n_accepted


class SlowNetwork:
    """A network whose calls take three seconds of a clock of its own."""

    def __init__(self) -> None:
        self.now_s, self.n_calls = 0.0, 0

    def call(self) -> None:
        self.n_calls += 1
        self.now_s += 3.0


def test_a_call_of_seconds_is_made_a_few_times() -> None:
    network = SlowNetwork()
    clock = Clock(lambda: network.now_s)
    assert warm_up(network.call, QUICK, clock) == 3.0
    assert network.n_calls == 1
    assert single_calls(network.call, QUICK, clock) == (3.0,)


@pytest.mark.parametrize(
    ("call_s", "n_asked", "n_kept", "stability"),
    [
        # 20 calls a sample of 2 ms; 8 blocks of 10 samples and one that is dropped, twice
        (1e-4, 20 * 2 * 8 * 11, 80, "stable"),
        # 8 blocks of 4 samples and one that is dropped; 1.5 s hold 75 of the 80 calls
        (0.02, 75, 32, "stable"),
        (3.0, 1, 1, "unstable"),
    ],
)
def test_calls_of_one_run_are_its_blocks(
    call_s: float, n_asked: int, n_kept: int, stability: str
) -> None:
    asked = []

    def time_calls(n_calls: int) -> list[float]:
        asked.append(n_calls)
        return [call_s] * n_calls

    samples = samples_of_run(time_calls, QUICK, call_s)
    assert asked == [n_asked]
    assert (len(samples.seconds_s), samples.stability) == (n_kept, stability)
    assert samples.seconds_s == pytest.approx([call_s] * n_kept)


def test_what_differs_within_a_run_is_unstable() -> None:
    # 4 of 16 blocks are of shorter calls; the interval is from the 4th median to the 13th.
    samples = samples_of_run(lambda n: [1e-4] * (n // 4) + [2e-4] * (n - n // 4), QUICK, 1e-4)
    assert samples.stability == "unstable"
    assert len(set(samples.block)) == 16  # it looks at all that was asked for
    assert "block medians differ" in str(samples.stability_reason)


def schedstat(folder: Path, thread: str, on_cpu_ns: int, waited_ns: int) -> None:
    (folder / thread).mkdir(exist_ok=True)
    (folder / thread / "schedstat").write_text(f"{on_cpu_ns} {waited_ns} 7\n")


def test_waiting_for_a_cpu_is_added_over_threads(tmp_path: Path) -> None:
    schedstat(tmp_path, "1", 1000, 500_000_000)
    schedstat(tmp_path, "2", 1000, 250_000_000)
    with ThreadTimes(tmp_path) as waits:
        assert waits.waited_s() == pytest.approx(0.75)
        schedstat(tmp_path, "2", 1000, 300_000_000)
        assert waits.waited_s() == pytest.approx(0.8)
        schedstat(tmp_path, "3", 1000, 100_000_000)  # a new thread, once it is looked for
        waits.find_threads()
        assert waits.waited_s() == pytest.approx(0.9)


def test_cpu_time_is_what_the_threads_ran() -> None:
    """Of this process it lies between that of this thread and that of all threads."""
    with ThreadTimes() as times:
        process_s, before = time.process_time(), times.cpu_s()
        thread_s = time.thread_time()
        sum(range(200_000))
        thread_s = time.thread_time() - thread_s
        after = times.cpu_s()
        process_s = time.process_time() - process_s
    assert before is not None
    assert after is not None
    assert 0 < thread_s <= after - before <= process_s


def test_cpu_time_is_unknown_once_a_thread_has_ended(tmp_path: Path) -> None:
    schedstat(tmp_path, "1", 1000, 0)  # no thread of this process
    with ThreadTimes(tmp_path) as times:
        assert times.cpu_s() is None
        source = CallSource(lambda: None, times)
        samples = collect(source, QUICK, 0.03, repetitions=1)
    assert samples.cpu_s is None


def test_cpu_time_is_of_each_sample_rejected_ones_too() -> None:
    """Three samples of 4 calls: 8, 9 and 10 ms on a CPU are 2, 2.25 and 2.5 ms a call."""
    raw = [
        RawSample(0.020, 0.0, waited_s=0.012, cpu_s=0.008),
        RawSample(0.009, 0.1, waited_s=0.0, cpu_s=0.009),
        RawSample(0.030, 0.2, waited_s=0.020, cpu_s=0.010),
    ]
    samples = collect(Recorded(raw), QUICK, 0.03, lambda: not raw, NO_PAUSE, repetitions=4)
    assert (len(samples.seconds_s), len(samples.rejected_s)) == (1, 2)
    assert samples.cpu_s == (0.002, 0.00225, 0.0025)


NO_PAUSE = Clock(lambda: 0.0, lambda _: None)


class Recorded:
    """Samples of a list, one a block."""

    def __init__(self, raw: list[RawSample]) -> None:
        self._raw = raw

    def take(self, n_samples: int, _: int, __: Callable[[], bool]) -> list[RawSample]:
        """The next one, behind those of a block that do not count."""
        return [RawSample(1.0, 0.0), self._raw.pop(0)] if self._raw else []


@pytest.mark.parametrize("threads", [(), ("1",)])
def test_where_waiting_is_not_counted_a_switch_is_a_time_slice(
    tmp_path: Path, threads: tuple[str, ...]
) -> None:
    for thread in threads:
        schedstat(tmp_path, thread, 0, 0)
    with ThreadTimes(tmp_path) as waits:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        seconds = waits.waited_s()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    assert before * 0.004 <= seconds <= after * 0.004 + 1e-9


@pytest.mark.parametrize(
    ("waited_s", "reason"),
    [
        (10e-6, None),  # 10 µs of 2 ms are 0.5 %
        (100e-6, "other processes used the CPU: threads waited 0.05 s in each second"),
    ],
)
def test_a_sample_counts_by_its_share_of_waiting(waited_s: float, reason: str | None) -> None:
    assert rejection(RawSample(0.002, 0.0, waited_s=waited_s), 0.98) == reason


def test_ten_microseconds_do_not_cost_a_long_sample() -> None:
    assert rejection(RawSample(0.2, 0.0, waited_s=10e-6), 0.98) is None


def test_a_sample_is_so_many_calls(tmp_path: Path) -> None:
    calls = []
    schedstat(tmp_path, "1", 1000, 0)
    with ThreadTimes(tmp_path) as waits:
        source = CallSource(lambda: calls.append(1), waits)
        brief = msgspec.structs.replace(QUICK, time_cap_s=0.001, n_accepted_min=8)
        samples = collect(source, brief, 0.03, repetitions=7)
    assert samples.repetitions_per_sample == 7
    # One sample a block: none is dropped, none is taken to warm up.
    assert len(calls) == 7 * (len(samples.seconds_s) + len(samples.rejected_s))


def test_profiled_calls_that_were_disturbed_do_not_count() -> None:
    def calls(*waited_s: float) -> list[RawSample]:
        return [RawSample(0.01, 0.0, waited_s=seconds) for seconds in waited_s]

    # 2 % of 10 ms are 0.2 ms.
    assert undisturbed(calls(0, 0, 0.005, 0.0001), 0.98) == [False, True, False, True]
    # All disturbed, by 40, 30 and 50 %: the half that waited least, of three two.
    assert undisturbed(calls(0, 0.004, 0.003, 0.005), 0.98) == [False, True, True, False]
    assert undisturbed(calls(0, 0.004), 0.98) == [False, True]
