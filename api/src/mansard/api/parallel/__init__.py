"""Many items, each worked on by itself: here, or by workers (``core/workers.py``).

``--jobs`` makes them processes of this machine, ``--dask`` those of a cluster. Items are worked on
in any order, and results are in theirs. What is left because a process was killed is worked on once
more, one item at a time, so that the one which kills its process is known by name.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from mansard.core.errors import ClusterError, UsageError
from mansard.core.workers import Shared, Workers, WorkLost
from mansard.sweeps.reporter import SILENT, Reporter

# Processes are started anew: a forked one would share whatever threads hold.
_CONTEXT = multiprocessing.get_context("spawn")


class Processes(Workers):
    """``n_workers`` processes, each with a pipe of its own; one that is killed is started again.

    In a ``ProcessPoolExecutor`` all processes share one pipe and its lock. If one is killed while
    it writes, the other processes and the reader block forever.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._calls = SimpleQueue[Any]()
        self._started = threading.Lock()
        self._processes: list[Any] = []
        self._is_shut = False
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(n_workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of ``function(*args, **kwargs)``, all of which can be pickled."""
        future = Future[Any]()
        self._calls.put((future, (function, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes, also those that work."""
        del cancel_futures  # they are
        with self._started:
            self._is_shut = True
            for process in self._processes:
                process.terminate()
        for _ in self._threads:
            self._calls.put(None)
        for worker in (*self._processes, *self._threads) if wait else ():
            worker.join()

    def _work(self) -> None:
        """One thread: gives calls to one process after the other."""
        pipe = None
        while (task := self._calls.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                pipe = pipe or self._start()
                pipe.send(call)
                result, error = pipe.recv()
            except (EOFError, OSError):  # the process was killed
                pipe, result, error = None, None, WorkLost()
            except Exception as refused:  # what cannot be pickled
                result, error = None, refused
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _start(self) -> Connection[Any, Any]:
        pipe, its_pipe = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(its_pipe,), daemon=True)
        with self._started:
            if self._is_shut:
                raise EOFError
            process.start()
            self._processes.append(process)
        its_pipe.close()  # the end of the process is then the end of the pipe
        return pipe


def _serve(pipe: Connection[Any, Any]) -> None:
    """Do calls until the pipe ends."""
    # Ctrl-C reaches the whole group; the first process alone acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the first process is gone
        while True:
            function, args, kwargs = pipe.recv()
            result, error = None, None
            try:
                result = function(*args, **kwargs)
            except Exception as raised:  # the first process raises it
                error = raised
            pipe.send((result, error))


def _leave_with_parent() -> None:
    """End when the first process is gone, for example killed: nothing else would end this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


Item = TypeVar("Item")
Result = TypeVar("Result")
_Part = tuple[list[int], list[Any]]  # items by number
_TOGETHER = 16  # items sent to another machine at a time, at most


@dataclass(frozen=True, kw_only=True)
class Work(Generic[Item, Result]):
    """What is done with each item.

    ``function`` gets the item, or what ``prepare`` makes of it where files can be read, and
    ``shared``. ``name``: of an item; ``lost``: the result of one that kills each process which
    works on it. ``title``: of all of it.
    """

    function: Callable[[Any, Any], Result]
    title: str
    name: Callable[[Item], str]
    lost: Callable[[Item], Result]
    shared: Any = None
    prepare: Callable[[Item], Any] | None = None


def do_work(
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    jobs: int | None = None,
    dask: str | None = None,
    reporter: Reporter = SILENT,
) -> list[Result]:
    """The result of each of ``items``, in their order.

    ``jobs``: items at a time, in processes of this machine; None: as many as CPUs; one item, or
    one at a time, needs none. ``dask``: address of a scheduler of Dask, whose workers do the work.
    Raises what the function raises, and as ``cluster.connected`` does.
    """
    if dask is not None and jobs is not None:
        raise UsageError("--jobs and --dask exclude each other", fix="leave one of them out")
    if len(items) == 1 and dask is None:
        reporter = SILENT  # nothing to wait for
    results: dict[int, Result] = {}
    with _workers(len(items), jobs, dask) as workers, reporter.progress(work.title) as shown:
        for number, result in _results(work, items, workers, dask):
            results[number] = result
            shown.update(len(results), len(items), None, work.name(items[number]))
    return [results[number] for number in range(len(items))]


@contextlib.contextmanager
def _workers(n_items: int, jobs: int | None, dask: str | None) -> Iterator[Workers | None]:
    """The workers; None: this process."""
    n_jobs = min(jobs or os.cpu_count() or 1, n_items)
    if dask is not None:
        from mansard.api.parallel.cluster import connected

        with connected(dask) as cluster:
            yield cluster
    elif n_jobs > 1:
        with Processes(n_jobs) as processes:
            yield processes
    else:
        yield None


def _results(
    work: Work[Item, Result], items: Sequence[Item], workers: Workers | None, dask: str | None
) -> Iterator[tuple[int, Result]]:
    """Results by number as they come."""
    # Workers on other machines do not have the files.
    read = work.prepare if dask is not None else None
    call = (work.function, work.prepare if dask is None else None, Shared(work.shared))

    def parts(numbers: Iterable[int], n_each: int) -> Iterator[_Part]:
        waiting = iter(numbers)
        while some := list(islice(waiting, n_each)):
            yield some, [items[n] if read is None else read(items[n]) for n in some]

    if workers is None:
        for part in parts(range(len(items)), 1):
            yield part[0][0], _work_on(part, *call)[0]
        return
    n_each = len(items) // (8 * workers.n_workers) if dask is not None else 1
    every = parts(range(len(items)), max(1, min(_TOGETHER, n_each)))
    lost: list[int] = []
    for (numbers, _), results, is_lost in workers.completed(_work_on, every, *call):
        if is_lost:
            lost += numbers
            continue
        if not isinstance(results, list) or len(results) != len(numbers):
            raise ClusterError(
                "a worker sent results of other work",
                where=dask,
                fix="check who runs workers there, and use TLS",
            )
        yield from zip(numbers, results, strict=True)
    again = parts(sorted(lost), 1)
    for ((number,), _), results, is_lost in workers.completed(_work_on, again, *call, n_open=1):
        yield number, work.lost(items[number]) if is_lost else results[0]


def _work_on(
    part: _Part,
    function: Callable[[Any, Any], Result],
    prepare: Callable[[Any], Any] | None,
    shared: Shared[Any],
) -> list[Result]:
    _, items = part
    return [function(item if prepare is None else prepare(item), shared.value) for item in items]
