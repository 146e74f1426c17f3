"""How long the threads of this process were ready to run and had no CPU."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

from mansard.core.storage.files import check_descriptors

_TASKS = Path("/proc/self/task")
_SLICE_S = 0.004  # a scheduler's time slice, 3 to 10 ms: about what one interruption may cost


class CpuWaits:
    """A context manager over the threads' accounting, kept open: a reading takes microseconds.

    The kernel counts for every thread the nanoseconds that it waited on a run queue: the second
    number of ``schedstat`` (Documentation/scheduler/sched-stats.rst). Where that is not
    counted, each involuntary context switch is taken for a whole time slice.
    """

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self._is_counted = False

    def __enter__(self) -> CpuWaits:
        self.find_threads()
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def find_threads(self) -> None:
        """Look for threads that were started or have ended."""
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

    def seconds(self) -> float:
        """Seconds that all threads together have waited for a CPU, since a fixed time."""
        if not self._is_counted:
            return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw * _SLICE_S
        return sum(self._read(file)[1] for file in self._files.values()) * 1e-9

    @staticmethod
    def _read(file: int) -> tuple[int, int]:
        """Nanoseconds of a thread on a CPU and waiting for one; of one that has ended, none."""
        try:
            on_cpu, waiting, _ = os.pread(file, 80, 0).split()
        except (OSError, ValueError):
            return 0, 0
        return int(on_cpu), int(waiting)
