"""Many items, each worked on by itself: here, in processes of this machine, or by Dask (``--on``).

One way through all of it: items are worked on in any order, and results are in theirs. What is left
because a process was killed is worked on once more, one item at a time, so that the one which
kills its process is known by name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mansard.core.errors import UsageError
from mansard.core.processes.signals import let_interrupts_end_waits
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from mansard.api.cluster import Cluster

Item = TypeVar("Item")
Result = TypeVar("Result")
_TOGETHER = 16  # items sent to another machine at a time, at most


class _Executor(Protocol):
    """Works on items somewhere."""

    def results(
        self, items: Sequence[tuple[int, Any]], *, is_alone: bool
    ) -> Iterator[tuple[int, Any]]:
        """Results by number as they come; none of those whose process was killed.

        ``is_alone``: one item after the other, and no further than to one that is lost.
        """
        ...


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

    def of(self, item: Item) -> Any:
        """What the function gets."""
        return item if self.prepare is None else self.prepare(item)


def do_work(
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    jobs: int | None = None,
    on: str | None = None,
    reporter: Reporter = SILENT,
) -> list[Result]:
    """The result of each of ``items``, in their order.

    ``jobs``: items at a time, in processes of this machine; None: as many as CPUs; one item, or
    one at a time, needs none. ``on``: address of a scheduler of Dask, whose workers do the work.
    Raises what the function raises, and as ``cluster.connected`` does.
    """
    if on is not None and jobs is not None:
        raise UsageError("--jobs is of this machine, --on of others", fix="leave one of them out")
    if len(items) == 1 and on is None:
        reporter = SILENT  # nothing to wait for
    numbered, found = list(enumerate(items)), dict[int, Result]()
    with _executor(work, len(items), jobs, on) as executor, reporter.progress(work.title) as shown:

        def take(number: int, result: Result) -> None:
            found[number] = result
            shown.update(len(found), len(items), None, work.name(items[number]))

        is_alone = False
        while open_ones := [each for each in numbered if each[0] not in found]:
            for number, result in executor.results(open_ones, is_alone=is_alone):
                take(number, result)
            lost = next((each for each in open_ones if each[0] not in found), None)
            if is_alone and lost is not None:
                take(lost[0], work.lost(lost[1]))
            is_alone = True
    return [found[number] for number, _ in numbered]


@contextlib.contextmanager
def _executor(
    work: Work[Any, Any], n_items: int, jobs: int | None, on: str | None
) -> Iterator[_Executor]:
    if on is not None:
        from mansard.api.cluster import connected

        with connected(on) as cluster:
            yield _Elsewhere(cluster, work)
        return
    n_jobs = min(jobs or os.cpu_count() or 1, n_items)
    yield _Here(work) if n_jobs <= 1 else _Processes(work, n_jobs)


class _Whole:
    """All that is done with an item by a process that reads files itself; it can be pickled."""

    def __init__(self, work: Work[Any, Any]) -> None:
        self._function, self._shared, self._prepare = work.function, work.shared, work.prepare

    def __call__(self, item: Any) -> Any:
        return self._function(item if self._prepare is None else self._prepare(item), self._shared)


class _Here:
    """This process."""

    def __init__(self, work: Work[Any, Any]) -> None:
        self._whole = _Whole(work)

    def results(
        self, items: Sequence[tuple[int, Any]], *, is_alone: bool
    ) -> Iterator[tuple[int, Any]]:
        del is_alone
        yield from ((number, self._whole(item)) for number, item in items)


class _Processes:
    """Processes of this machine, each with a pipe of its own.

    In a ``ProcessPoolExecutor`` all processes share one pipe and its lock. If one is killed while
    it writes, the other processes and the reader block forever.
    """

    def __init__(self, work: Work[Any, Any], n_jobs: int) -> None:
        self._whole, self._n_jobs = _Whole(work), n_jobs

    def results(
        self, items: Sequence[tuple[int, Any]], *, is_alone: bool
    ) -> Iterator[tuple[int, Any]]:
        # A single file, the usual case, needs none of this.
        from multiprocessing.connection import wait

        waiting = deque(items)
        workers = [self._started() for _ in range(min(len(items), 1 if is_alone else self._n_jobs))]
        busy = [worker for worker in workers if worker.begin(waiting)]
        try:
            while busy:
                let_interrupts_end_waits()
                ready = wait([worker.pipe for worker in busy])
                for worker in [each for each in busy if each.pipe in ready]:
                    busy.remove(worker)
                    try:
                        number, result, error = worker.pipe.recv()
                    except (EOFError, OSError):  # it was killed, and its item is lost
                        if is_alone:
                            return
                        continue
                    if error is not None:
                        raise error
                    if worker.begin(waiting):
                        busy.append(worker)
                    yield number, result
        finally:
            for worker in workers:
                worker.end()

    def _started(self) -> _Worker:
        import multiprocessing

        # Processes are started anew: a forked one would share whatever threads hold.
        context = multiprocessing.get_context("spawn")
        pipe, its_pipe = context.Pipe()
        process = context.Process(target=_serve, args=(its_pipe, self._whole), daemon=True)
        process.start()
        its_pipe.close()  # the end of the process is then the end of the pipe
        return _Worker(process, pipe)


@dataclass(frozen=True)
class _Worker:
    """A process, and this end of its pipe."""

    process: BaseProcess
    pipe: Connection[Any, Any]

    def begin(self, waiting: deque[tuple[int, Any]]) -> bool:
        """Send it the first of the items that wait; whether there was one."""
        if not waiting:
            return False
        # What was sent to a process that is gone is lost, as its pipe says when it is read.
        with contextlib.suppress(OSError):
            self.pipe.send(waiting.popleft())
        return True

    def end(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection[Any, Any], whole: _Whole) -> None:
    """Work on items until the pipe ends."""
    # Ctrl-C reaches the whole group; the first process alone acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the first process is gone
        while True:
            number, item = pipe.recv()
            result, error = None, None
            try:
                result = whole(item)
            except Exception as raised:  # the first process raises it
                error = raised
            pipe.send((number, result, error))


class _Elsewhere:
    """Workers of Dask: files are read here, and several items are sent at a time."""

    def __init__(self, cluster: Cluster, work: Work[Any, Any]) -> None:
        self._cluster, self._work = cluster, work

    def results(
        self, items: Sequence[tuple[int, Any]], *, is_alone: bool
    ) -> Iterator[tuple[int, Any]]:
        n_each = len(items) // (8 * max(1, self._cluster.n_at_once))
        n_together = 1 if is_alone else max(1, min(_TOGETHER, n_each))
        for group in [[each] for each in items] if is_alone else [items]:
            for (number, _), result, is_lost in self._cluster.unordered(
                self._work.function,
                group,
                shared=self._work.shared,
                prepare=lambda each: self._work.of(each[1]),
                n_together=n_together,
            ):
                if not is_lost:
                    yield number, result
                elif is_alone:
                    return


def _leave_with_parent() -> None:
    """End when the first process is gone, for example killed: nothing else would end this one."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
