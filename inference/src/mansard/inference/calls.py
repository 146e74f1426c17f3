"""Calls of a loaded network: warm-up, samples of many calls, single calls; and which ones count.

A call counts if the threads of this process waited for no CPU during it.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, median_high

import msgspec

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.storage.files import check_descriptors
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample
from mansard.measuring.sampling import Samples, collect

_TASKS = Path("/proc/self/task")
_SLICE_S = 0.004  # a scheduler's time slice, 3 to 10 ms: about what one interruption may cost


class ThreadTimes:
    """A context manager over the threads' accounting, kept open: a reading takes microseconds.

    The kernel counts for every thread the nanoseconds that it waited on a run queue: the second
    number of ``schedstat`` (Documentation/scheduler/sched-stats.rst). Where that is not
    counted, each involuntary context switch is taken for a whole time slice. The first number, the
    time on a CPU, is brought up to date at a tick alone, so CPU time is read from each thread's
    clock (man 3 pthread_getcpuclockid).
    """

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self._is_counted = False

    def __enter__(self) -> ThreadTimes:
        self.find_threads()
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def find_threads(self) -> None:
        """Update the list of threads: some may have started or ended."""
        try:
            names = {task.name for task in self._tasks.iterdir()}
        except OSError as error:
            check_descriptors(error, self._tasks)
            names = set()
        # Of Python's threads only the one that calls: the others read meters and the machine.
        others = {str(thread.native_id) for thread in threading.enumerate()}
        names -= others - {str(threading.get_native_id())}
        for name in self._files.keys() - names:
            os.close(self._files.pop(name))
        for name in names - self._files.keys():
            try:
                self._files[name] = os.open(self._tasks / name / "schedstat", os.O_RDONLY)
            except OSError as error:  # it has ended meanwhile
                check_descriptors(error, self._tasks)
        # Where the kernel does not count, all three numbers stay 0.
        self._is_counted = any(self._read(file)[0] for file in self._files.values())

    def waited_s(self) -> float:
        """Total seconds that all threads have waited for a CPU, since a fixed time."""
        if not self._is_counted:
            return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw * _SLICE_S
        return sum(self._read(file)[1] for file in self._files.values()) * 1e-9

    def cpu_s(self) -> float | None:
        """Total seconds that all threads have run on a CPU; None where one of them has ended."""
        try:
            seconds = [time.clock_gettime(_cpu_clock(int(name))) for name in self._files]
        except OSError:
            return None
        return sum(seconds) if seconds else None

    @staticmethod
    def _read(file: int) -> tuple[int, int]:
        """Nanoseconds that a thread ran and waited for a CPU; zeros after it has ended."""
        try:
            on_cpu, waiting, _ = os.pread(file, 80, 0).split()
        except (OSError, ValueError):
            return 0, 0
        return int(on_cpu), int(waiting)


def _cpu_clock(thread: int) -> int:
    """The number of a thread's clock of CPU time, by which Linux makes it from the thread's.

    (The complement of the thread shifted by 3, then "of one thread" and "as scheduled":
    include/linux/posix-timers.h.)
    """
    return ~thread << 3 | 4 | 2


_WARM_CHUNK_S = 0.05
_WARM_CHANGE = 0.02  # warm once the medians of two chunks in a row agree to this
_WARM_SHARE = 0.25  # of the protocol's time, at most
_SINGLE_SHARE = 0.5  # of the protocol's time for single calls, at most
_SINGLE_FACTOR = 5  # single calls for each sample of the protocol, at most


class CallSource:
    """Samples of calls in a row: how long threads ran on a CPU in each, and waited for one."""

    def __init__(self, call: Callable[[], None], times: ThreadTimes) -> None:
        self._call, self._times = call, times

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        """Samples of ``repetitions`` calls each."""
        call, times = self._call, self._times
        times.find_threads()
        raw = []
        for _ in range(n_samples):
            if should_stop():
                break
            waited_s, cpu_start_s, start_s = times.waited_s(), times.cpu_s(), time.monotonic()
            for _ in range(repetitions):
                call()
            end_s, cpu_end_s = time.monotonic(), times.cpu_s()
            waited_s = times.waited_s() - waited_s
            cpu_s = None
            if cpu_start_s is not None and cpu_end_s is not None:
                cpu_s = cpu_end_s - cpu_start_s
            raw.append(RawSample(end_s - start_s, start_s, waited_s=waited_s, cpu_s=cpu_s))
        return raw


class TimedCalls:
    """Samples of calls that a program timed in one run, in their order."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds, self._n_taken, self._end_s = seconds, 0, 0.0

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        """Samples of ``repetitions`` calls each; start times are relative to the first."""
        raw: list[RawSample] = []
        while len(raw) < n_samples and not should_stop():
            calls = self._seconds[self._n_taken : self._n_taken + repetitions]
            raw.append(RawSample(sum(calls), self._end_s))
            self._n_taken, self._end_s = self._n_taken + repetitions, self._end_s + sum(calls)
        return raw

    def are_taken(self) -> bool:
        """Whether all calls have been handed out."""
        return self._n_taken >= len(self._seconds)


def samples_of_run(
    time_calls: Callable[[int], Sequence[float]], protocol: Protocol, call_s: float
) -> Samples:
    """Samples of calls of ``call_s`` that a program times in one run; blocks are parts of it.

    ``time_calls(n)`` runs the program, and returns the seconds of n calls. It is asked for
    twice the blocks of the protocol, within its time.
    """
    n_calls = max(1, round(protocol.sample_s / call_s))
    paced = paced_protocol(protocol, n_calls * call_s)
    n_wanted = 2 * paced.n_blocks_min * (paced.n_per_block + 1)
    n_fitting = int(protocol.time_cap_s / (n_calls * call_s))
    calls = TimedCalls(time_calls(n_calls * max(1, min(n_wanted, n_fitting))))
    no_pause = Clock(lambda: 0.0, lambda _: None)
    interval_max = protocol.stream_interval
    return collect(calls, paced, interval_max, calls.are_taken, no_pause, repetitions=n_calls)


def warm_up(call: Callable[[], None], protocol: Protocol, clock: Clock = SYSTEM_CLOCK) -> float:
    """Call until two periods in a row are equally fast; returns the seconds of one call."""
    end_s = clock.now_s() + _WARM_SHARE * protocol.time_cap_s
    before_s: float | None = None
    while True:
        chunk_end_s = clock.now_s() + _WARM_CHUNK_S
        seconds = [seconds_of(call, clock)]
        while clock.now_s() < chunk_end_s:
            seconds.append(seconds_of(call, clock))
        now_s = median(seconds)
        if before_s is not None and abs(now_s - before_s) <= _WARM_CHANGE * before_s:
            return now_s
        if clock.now_s() >= end_s:
            return now_s
        before_s = now_s


def paced_protocol(protocol: Protocol, sample_s: float) -> Protocol:
    """The protocol for samples that last ``sample_s``: fewer in a block where they are long.

    The blocks together are to take half of the time at most; the other half is for samples that
    do not count. A block has one sample at least, so a network whose call takes seconds
    may not get all its blocks, and is unstable then.
    """
    fitting = int(0.5 * protocol.time_cap_s / (protocol.n_blocks_min * sample_s))
    n_accepted = max(1, min(protocol.n_per_block, fitting)) * protocol.n_blocks_min
    return msgspec.structs.replace(protocol, n_accepted_min=n_accepted)


def single_calls(
    call: Callable[[], None], protocol: Protocol, clock: Clock = SYSTEM_CLOCK
) -> tuple[float, ...]:
    """Seconds of calls that are timed singly; disturbed ones are included."""
    end_s = clock.now_s() + _SINGLE_SHARE * protocol.time_cap_s
    seconds = [seconds_of(call, clock)]
    n_most = _SINGLE_FACTOR * protocol.n_accepted_min
    while len(seconds) < n_most and clock.now_s() < end_s:
        seconds.append(seconds_of(call, clock))
    return tuple(seconds)


def n_single_calls(protocol: Protocol, call_s: float) -> int:
    """How many calls of ``call_s`` a program times singly in the time that ``single_calls`` has."""
    fitting = int(_SINGLE_SHARE * protocol.time_cap_s / call_s)
    return max(1, min(_SINGLE_FACTOR * protocol.n_accepted_min, fitting))


def seconds_of(call: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> float:
    """The mean seconds of one call."""
    start_s = clock.now_s()
    call()
    return clock.now_s() - start_s


def undisturbed(raw: Sequence[RawSample], cpu_share_min: float) -> list[bool]:
    """Which calls count; never the first, whose caches are cold.

    At least the half of the others count that waited for a CPU for the smallest shares of their
    time. A disturbance lengthens a few layers of a call, and other layers in the next one: of
    several calls each layer has a time, of a single one some have none.
    """
    shares = [(sample.waited_s or 0.0) / sample.duration_s for sample in raw]
    most = max(median_high(shares[1:]), 1 - cpu_share_min)
    return [False, *(share <= most for share in shares[1:])]
