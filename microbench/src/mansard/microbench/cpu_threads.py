"""Own threads, each pinned to one CPU; the main thread stays free to be interrupted."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from mansard.core.errors import MeasurementError

Result = TypeVar("Result")

_POLL_S = 0.02  # how soon an interrupt or a request to stop is seen


def _no_stop() -> None:
    """Nothing to stop: the tasks end by themselves."""


class _Run(Generic[Result]):
    """One task on all threads, and what became of it on each."""

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
        self._queues: list[queue.SimpleQueue[_Run[Any] | None]] = [
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
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    ) -> list[Result]:
        """Run ``task(index)`` on every thread; the results by index.

        ``stop`` must make running tasks return soon. It is called when ``should_stop``
        says so, and when a task raises: its error is raised again here once all tasks
        have returned. An interrupt also calls it, but does not wait.
        """
        run = _Run(task, len(self._queues))
        try:
            for tasks in self._queues:
                tasks.put(run)
            while not run.is_done:
                run.changed.wait(_POLL_S)
                run.changed.clear()
                if run.errors or should_stop():
                    stop()
        except BaseException:
            stop()
            raise
        if run.errors:
            raise run.errors[min(run.errors)]
        return [run.results[index] for index in range(len(self._queues))]


def _work(tasks: queue.SimpleQueue[_Run[Any] | None], index: int) -> None:
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
