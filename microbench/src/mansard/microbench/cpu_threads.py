"""Own threads, each pinned to one CPU; the main thread stays free to be interrupted."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from mansard.core.errors import MeasurementError

Result = TypeVar("Result")

_POLL_S = 0.02  # how soon an interrupt or a request to stop is seen


def _no_stop() -> None:
    """Nothing to stop: the tasks end by themselves."""


class PinnedThreads:
    """One thread for each CPU named; a context manager that ends them.

    Tasks run on all threads at once. They should release the interpreter's lock.
    """

    def __init__(self, cpus: tuple[int, ...]) -> None:
        if not cpus:
            raise MeasurementError("no CPU to run on", fix="name at least one CPU")
        self._tasks: list[queue.SimpleQueue[Callable[[int], Any] | None]] = [
            queue.SimpleQueue() for _ in cpus
        ]
        self._results: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = (
            queue.SimpleQueue()
        )
        self._threads = [
            threading.Thread(
                target=self._work, args=(index, cpu), name=f"mansard-cpu{cpu}", daemon=True
            )
            for index, cpu in enumerate(cpus)
        ]

    def __enter__(self) -> PinnedThreads:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for tasks in self._tasks:
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
        says so, when a task raises, and when this thread is interrupted; an error is
        raised again here after all tasks have returned.
        """
        for tasks in self._tasks:
            tasks.put(task)
        results: dict[int, Result] = {}
        first_error: BaseException | None = None
        n_returned = 0
        while n_returned < len(self._threads):
            try:
                index, result, error = self._results.get(timeout=_POLL_S)
            except queue.Empty:
                if should_stop():
                    stop()
                continue
            except BaseException as interrupt:
                stop()
                first_error = first_error or interrupt
                continue
            n_returned += 1
            if error is not None:
                stop()
                first_error = first_error or error
            results[index] = result
        if first_error is not None:
            raise first_error
        return [results[index] for index in range(len(self._threads))]

    def _work(self, index: int, cpu: int) -> None:
        failure: BaseException | None = None
        try:
            os.sched_setaffinity(0, {cpu})  # 0 is the calling thread, not the process
        except OSError as error:
            failure = MeasurementError(
                f"cannot pin a thread to CPU {cpu}: {error.strerror}",
                fix="name CPUs that this process may use (taskset -p shows them)",
            )
        while (task := self._tasks[index].get()) is not None:
            result: Any = None
            error_of_task = failure
            if failure is None:
                try:
                    result = task(index)
                except BaseException as error:
                    error_of_task = error
            self._results.put((index, result, error_of_task))
            del task  # it may hold the arrays of a trial
