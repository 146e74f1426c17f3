"""A live view of one machine: its activity now, what limits it, and how that develops.

``samples`` looks at it on a fixed schedule, by a clock that tests can replace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from mansard.device.meters.sampler import next_tick
from mansard.device.watching.board import BoardWatch

SHORTEST_INTERVAL_S = 0.1  # below it a look would cost more than 2 % of a small board's core
FIRST_S = 0.5  # shares and counters need two looks: the first record comes after so long at most
_SLACK_S = 1e-6
Found = TypeVar("Found")
Wait = Callable[[float], bool]
"""Waits for a number of seconds; True ends the watch, as when a key was pressed."""


def sleep(seconds: float) -> bool:
    """A wait that never ends the watch."""
    time.sleep(seconds)
    return False


def samples(
    look: Callable[[], Found],
    *,
    interval_s: float,
    duration_s: float | None = None,
    n_samples: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    wait: Wait = sleep,
) -> Iterator[Found]:
    """The results of ``look``, one per interval, until the first of the given ends.

    A first look is taken at once and not returned: it is what changes are counted from. Looks
    that are late do not move those after them; those that were missed are left out.
    """
    look()
    start_s, n_taken, tick = clock(), 0, 0
    due_s = min(interval_s, FIRST_S)
    # The slack is for the last digit: three times 0.1 s are more than 0.3 s.
    while duration_s is None or due_s <= duration_s + _SLACK_S or not n_taken:
        while (left_s := start_s + due_s - clock()) > 0:
            if wait(left_s):
                return
        yield look()
        n_taken += 1
        if n_taken == n_samples:
            return
        tick = next_tick(clock() - start_s, interval_s, tick)
        due_s = tick * interval_s


__all__ = ["SHORTEST_INTERVAL_S", "BoardWatch", "Wait", "samples", "sleep"]
