"""Worker processes as an executor of ``concurrent.futures``; results arrive as they complete.

``api`` makes them on this machine and on others, and gives them to who has work in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from mansard.core.processes.programs import let_interrupts_end_waits

Item = TypeVar("Item")
Value = TypeVar("Value")
_LOOK_S = 0.5  # until an interrupt is seen that came just before a wait


class WorkLost(Exception):  # noqa: N818 - no fault of the work, which can be done again
    """Each process that had a call was killed."""


@dataclass(frozen=True, eq=False)
class Shared(Generic[Value]):
    """An argument of many calls: workers on other machines get it once for all of them."""

    value: Value


class Workers(Executor):
    """An executor whose calls are lost when their process dies (``WorkLost``).

    ``n_workers``: calls that it does at once; their number may change.
    """

    n_workers: int

    def completed(
        self,
        function: Callable[..., Any],
        items: Iterable[Item],
        *args: Any,
        n_open: int | None = None,
    ) -> Iterator[tuple[Item, Any, bool]]:
        """Each item with ``function(item, *args)`` as it completes, and whether the call was lost.

        Items are taken when they are sent, ``n_open`` at a time, a few more than can be done at
        once: what is not sent yet takes no memory, and may depend on the answers so far. Raises
        what ``function`` raises. What is open when the caller leaves is cancelled.
        """
        waiting, running = iter(items), dict[Future[Any], Item]()
        try:
            while True:
                for item in islice(waiting, max(0, (n_open or 2 * self.n_workers) - len(running))):
                    running[self.submit(function, item, *args)] = item
                if not running:
                    return
                let_interrupts_end_waits()
                for future in wait(running, _LOOK_S, FIRST_COMPLETED).done:
                    item = running.pop(future)
                    is_lost = isinstance(future.exception(), WorkLost)
                    yield item, None if is_lost else future.result(), is_lost
        finally:
            for future in running:
                future.cancel()
