"""Many items, each worked on by itself: here, or by workers (``core/workers.py``).

``--jobs`` makes them processes of this machine, ``--on`` those of a cluster. Items are worked on in
any order, and results are in theirs. What is left because a process was killed is worked on once
more, one item at a time, so that the one which kills its process is known by name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from mansard.core.errors import ClusterError, UsageError
from mansard.core.workers import Shared, Workers
from mansard.sweeps.reporter import SILENT, Reporter

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
    results: dict[int, Result] = {}
    with _workers(len(items), jobs, on) as workers, reporter.progress(work.title) as shown:
        for number, result in _results(work, items, workers, on):
            results[number] = result
            shown.update(len(results), len(items), None, work.name(items[number]))
    return [results[number] for number in range(len(items))]


@contextlib.contextmanager
def _workers(n_items: int, jobs: int | None, on: str | None) -> Iterator[Workers | None]:
    """Who works on items; None: this process."""
    n_jobs = min(jobs or os.cpu_count() or 1, n_items)
    if on is not None:
        from mansard.api.cluster import connected

        with connected(on) as cluster:
            yield cluster
    elif n_jobs > 1:
        from mansard.api.processes import Processes

        with Processes(n_jobs) as processes:
            yield processes
    else:
        yield None


def _results(
    work: Work[Item, Result], items: Sequence[Item], workers: Workers | None, on: str | None
) -> Iterator[tuple[int, Result]]:
    """Results by number as they come."""
    # Workers ``on`` other machines do not have the files.
    read = work.prepare if on is not None else None
    call = (work.function, work.prepare if on is None else None, Shared(work.shared))

    def parts(numbers: Iterable[int], n_each: int) -> Iterator[_Part]:
        waiting = iter(numbers)
        while some := list(islice(waiting, n_each)):
            yield some, [items[n] if read is None else read(items[n]) for n in some]

    if workers is None:
        for part in parts(range(len(items)), 1):
            yield part[0][0], _work_on(part, *call)[0]
        return
    n_each = len(items) // (8 * workers.n_workers) if on is not None else 1
    every = parts(range(len(items)), max(1, min(_TOGETHER, n_each)))
    lost: list[int] = []
    for (numbers, _), results, is_lost in workers.completed(_work_on, every, *call):
        if is_lost:
            lost += numbers
            continue
        if not isinstance(results, list) or len(results) != len(numbers):
            raise ClusterError(
                "a worker sent results of other work",
                where=on,
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
