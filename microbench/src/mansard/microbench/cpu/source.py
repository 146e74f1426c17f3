"""Samples from real CPUs: pinned threads that run a compiled kernel in lock step."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.errors import MansardError, MeasurementError
from mansard.core.text import printable
from mansard.measuring.metering import UNMETERED, EnergyMetering
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample
from mansard.measuring.sampling import Samples, calibrate, collect
from mansard.microbench.cpu import driver
from mansard.microbench.cpu.launching import Operands, allocate
from mansard.microbench.kernel import HOST, Case, Kernel, find_kernel

Result = TypeVar("Result")
Table = npt.NDArray[np.int64]  # n_samples × N_COLUMNS
_RACE_ROUNDS, _RACE_SAMPLES = 4, 3
_LONGEST_WORDS = 600
_POLL_S = 0.02  # how soon an interrupt or a request to stop is seen


def _no_stop() -> None:
    """Nothing to stop: the tasks end by themselves."""


class _ThreadedTask(Generic[Result]):
    """One task on all threads, and its outcome on each."""

    def __init__(self, task: Callable[[int], Result], n_threads: int) -> None:
        self.task = task
        self.results: dict[int, Result] = {}
        self.errors: dict[int, BaseException] = {}
        self.changed = threading.Event()
        self._n_threads = n_threads

    @property
    def is_done(self) -> bool:
        return len(self.results) + len(self.errors) == self._n_threads

    def perform(self, index: int) -> None:
        try:
            self.results[index] = self.task(index)
        except BaseException as error:
            self.errors[index] = error
        self.changed.set()


class PinnedThreads:
    """One thread for each CPU named; a context manager that ends them.

    Tasks run on all threads at once. They should release the interpreter's lock.
    """

    def __init__(self, cpus: tuple[int, ...]) -> None:
        if not cpus:
            raise MeasurementError("no CPU to run on", fix="name at least one CPU")
        self._queues: list[queue.SimpleQueue[_ThreadedTask[Any] | None]] = [
            queue.SimpleQueue() for _ in cpus
        ]
        self._threads = [
            threading.Thread(target=_work, args=(tasks, index), name=f"cpu{cpu}", daemon=True)
            for index, (tasks, cpu) in enumerate(zip(self._queues, cpus, strict=True))
        ]
        self._cpus = cpus

    def __enter__(self) -> PinnedThreads:
        for thread in self._threads:
            thread.start()
        try:
            self.run(lambda index: _pin(self._cpus[index]))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for tasks in self._queues:
            tasks.put(None)
        for thread in self._threads:
            thread.join()

    def run(
        self,
        task: Callable[[int], Result],
        *,
        stop: Callable[[], None] = _no_stop,
        should_stop: Callable[[], bool] = lambda: False,
        poll_s: float = _POLL_S,
    ) -> list[Result]:
        """Run ``task(index)`` on every thread; the results by index.

        ``stop`` must make running tasks return soon. It is called when ``should_stop``, which is
        asked every ``poll_s``, says so, and when a task raises: its error is raised again here
        once all tasks have returned. An interrupt also calls it, but does not wait.
        """
        run = _ThreadedTask(task, len(self._queues))
        try:
            for tasks in self._queues:
                tasks.put(run)
            while not run.is_done:
                run.changed.wait(poll_s)
                run.changed.clear()
                if run.errors or should_stop():
                    stop()
        except BaseException:
            stop()
            raise
        if run.errors:
            raise run.errors[min(run.errors)]
        return [run.results[index] for index in range(len(self._queues))]


def _work(tasks: queue.SimpleQueue[_ThreadedTask[Any] | None], index: int) -> None:
    while (run := tasks.get()) is not None:
        run.perform(index)
        del run  # it may hold the arrays of a trial


def _pin(cpu: int) -> None:
    try:
        os.sched_setaffinity(0, {cpu})  # 0 is the calling thread, not the process
    except OSError as error:
        raise MeasurementError(
            f"cannot pin a thread to CPU {cpu}: {error.strerror}",
            fix="name CPUs that this process may use (taskset -p shows them)",
        ) from error


class CpuSource:
    """A team of threads with the operands of one case; a context manager.

    ``function`` is the address of another kernel with the same arguments, for
    comparisons; by default the case's own kernel is compiled.
    """

    def __init__(self, case: Case, cpus: tuple[int, ...], function: int | None = None) -> None:
        self._kernel = find_kernel(case.kernel)
        self._kernel.check(case)
        self._case = case
        self._n_threads = len(cpus)
        self._function = _build(self._kernel, case) if function is None else function
        self._threads = PinnedThreads(cpus)
        self._operands: list[Operands] = []
        self._words: list[Table] = []  # of each thread: of one call a row
        self._next = 0  # row of the next sample
        self._shared = np.zeros(driver.N_SHARED_WORDS, dtype=np.int64)  # of the last block

    def __enter__(self) -> CpuSource:
        self._threads.__enter__()
        try:
            self._operands = self._threads.run(lambda _: allocate(self._kernel, self._case))
            self._words = [operands.words.reshape(1, -1) for operands in self._operands]
        except BaseException:
            self._threads.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.__exit__()
        self._operands, self._words = [], []

    @property
    def operands(self) -> tuple[Operands, ...]:
        """The operands of each thread."""
        return tuple(self._operands)

    def slice(self, slice_bytes: int, fma_per_element: int) -> int:
        """Make each sample sweep the next slice of the arrays, with chains of this length.

        So a sample is short and its traffic that of main memory all the same. ``slice_bytes``: of
        one thread, all its arrays at most. Returns the traffic of all threads in a slice, bytes.
        """
        n_bytes = min(slice_bytes, self._case.working_set_bytes)
        case = replace(self._case, working_set_bytes=n_bytes, fma_per_element=fma_per_element)
        launch = self._kernel.launch(case, HOST)
        self._words, self._next = [], 0
        for operands in self._operands:
            n_slices = int(operands.words[3]) // launch.n_elements
            words = np.tile(operands.words, (n_slices, 1))
            steps = launch.array_bytes[0] * np.arange(n_slices)
            words[:, : self._kernel.n_arrays] += steps[:, None]
            words[:, 3:] = launch.n_elements, fma_per_element
            self._words.append(words)
        return self._kernel.traffic_bytes(case, launch) * self._n_threads

    def stop(self) -> None:
        """Make ``take`` in another thread return after the present sample."""
        self._shared[driver.STOP] = 1

    def choose_variant(self, repetitions: int, should_stop: Callable[[], bool]) -> Case:
        """Race the variants of the case, alternating; run the fastest from now on.

        Disturbances only lengthen a sample, so the shortest of each decides.
        """
        variants = self._kernel.variants(self._case)
        functions = [_build(self._kernel, variant) for variant in variants]
        shortest_s = [inf] * len(variants)
        for _ in range(_RACE_ROUNDS if len(variants) > 1 else 0):
            for k, function in enumerate(functions):
                raw = self.take(_RACE_SAMPLES, repetitions, should_stop, function)
                shortest_s[k] = min([shortest_s[k], *(sample.duration_s for sample in raw)])
        best = shortest_s.index(min(shortest_s))
        self._case, self._function = variants[best], functions[best]
        return self._case

    def take(
        self,
        n_samples: int,
        repetitions: int,
        should_stop: Callable[[], bool] = lambda: False,
        function: int | None = None,
        poll_s: float = _POLL_S,
    ) -> list[RawSample]:
        """Take samples on all threads; fewer than asked for only when told to stop.

        ``poll_s``: how often it is asked whether to stop; each time interrupts a thread where all
        CPUs are in use.
        """
        # Fresh for every block: an interrupted one may still be on its way out.
        shared = self._shared = np.zeros(driver.N_SHARED_WORDS, dtype=np.int64)
        operands = self._operands
        tables = [np.zeros((n_samples, driver.N_COLUMNS), dtype=np.int64) for _ in operands]
        address = self._function if function is None else function
        # From where the last samples ended, for what they swept may still be in the caches.
        words = [np.roll(row, -self._next, axis=0) for row in self._words]

        def run(index: int) -> int:
            scratch = np.zeros(driver.N_SCRATCH_WORDS, dtype=np.int64)
            taken = driver.take_samples(
                address,
                words[index].ctypes.data,
                len(words[index]),
                repetitions,
                shared.ctypes.data,
                self._n_threads,
                scratch.ctypes.data,
                tables[index],
            )
            return int(taken)

        def stop() -> None:
            shared[driver.STOP] = 1

        n_taken = self._threads.run(run, stop=stop, should_stop=should_stop, poll_s=poll_s)
        self._next = (self._next + min(n_taken)) % len(words[0])
        return combine([table[: min(n_taken)] for table in tables])


def sample_case(
    case: Case,
    cpus: tuple[int, ...],
    protocol: Protocol,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Clock = SYSTEM_CLOCK,
    metering: EnergyMetering | None = None,
) -> Samples:
    """Measure ``case`` with one pinned thread on each of ``cpus``.

    The case's working set is that of one thread. Of a kernel's variants, the fastest in
    a short race is measured. Meters are read afterwards, while the kernel runs on without
    pause: reading them would disturb the samples, and the pauses between these the power.
    Raises UsageError for a case its kernel does not have, MeasurementError where it cannot
    be run at all.
    """
    family = find_kernel(case.kernel).family
    interval = protocol.fma_interval if family == "fma" else protocol.stream_interval
    with CpuSource(case, cpus) as source:
        repetitions = calibrate(source, protocol.sample_s, should_stop)
        ran = source.choose_variant(repetitions, should_stop)
        samples = collect(source, protocol, interval, should_stop, clock)
        energy = UNMETERED
        if metering is not None and not should_stop():
            energy = metering.run(source, samples.repetitions_per_sample, should_stop)
    return replace(samples, vector_bytes=ran.vector_bytes, energy=energy)


def _build(kernel: Kernel, case: Case) -> int:
    """The address of the compiled kernel; raises MeasurementError with the compiler's words."""
    try:
        return int(kernel.build(case))
    except MansardError:
        raise
    except Exception as error:  # Numba and LLVM raise many kinds
        words = printable(" ".join(str(error).split()) or type(error).__name__, _LONGEST_WORDS)
        raise MeasurementError(
            f"Numba does not compile {printable(kernel.name)} {case.precision}: {words}",
            fix="'mansard doctor' says what is installed",
        ) from error


def combine(tables: list[Table]) -> list[RawSample]:
    """Samples over all threads from the tables of each: nanoseconds in, seconds out."""
    stacked: Any = np.stack(tables)  # threads × samples × columns
    start, end = stacked[:, :, driver.START_NS], stacked[:, :, driver.END_NS]
    duration_s = (end.max(axis=0) - start.min(axis=0)) * 1e-9
    wall = np.maximum(end - start, 1)
    share = (stacked[:, :, driver.CPU_NS] / wall).min(axis=0)
    switches = stacked[:, :, driver.N_SWITCHES].sum(axis=0)
    return [
        RawSample(
            duration_s=float(duration_s[k]),
            cpu_share=float(share[k]),
            n_switches=int(switches[k]),
            started_s=float(start[:, k].min() * 1e-9),
        )
        for k in range(stacked.shape[1])
    ]
