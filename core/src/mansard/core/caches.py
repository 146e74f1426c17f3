"""How much of each cache pinned threads can use, and which working sets show it.

Measuring and analysing share these rules: a sweep makes sure that every level has a
working set of its own, and the roofline takes each level's bandwidth from just those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from mansard.core.records import Cache

# A set that fills a level to the brim already misses (other data, the stack and the
# page tables live there too); one just above the previous level still hits in it.
UPPER_MARGIN = 0.75
LOWER_MARGIN = 1.5
# Of a level less than twice the caches below it only the middle is left, this far around.
NARROW_MARGIN = 1.1


class LevelWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Working sets w with low_bytes < w <= high_bytes run from this level; bytes in all.

    Where ``high_bytes`` is not above ``low_bytes`` the level has no window: it is hardly
    larger than the caches below it together.
    """

    level: int
    capacity_bytes: int
    low_bytes: float
    high_bytes: float


def instances_used(cache: Cache, cpus: Sequence[int]) -> int:
    """How many instances of ``cache`` threads pinned to ``cpus`` use.

    The record names the CPUs of one instance; others are taken to hold as many of
    our CPUs as that one does.
    """
    n_in_first = sum(cpu in cache.shared_cpus for cpu in cpus)
    return min(cache.n_instances, math.ceil(len(cpus) / max(1, n_in_first)))


def capacity_bytes(cache: Cache, cpus: Sequence[int]) -> int:
    """Capacity of ``cache`` over the instances that ``cpus`` use, in bytes."""
    return cache.size_bytes * instances_used(cache, cpus)


def level_windows(caches: Sequence[Cache], cpus: Sequence[int]) -> tuple[LevelWindow, ...]:
    """The window of each cache level, nearest first."""
    windows: list[LevelWindow] = []
    below = 0
    for cache in sorted(caches, key=lambda cache: cache.level):
        capacity = capacity_bytes(cache, cpus)
        low, high = LOWER_MARGIN * below, UPPER_MARGIN * capacity
        if high < NARROW_MARGIN * low and NARROW_MARGIN**2 * below <= capacity:
            middle = math.sqrt(below * capacity)
            low, high = middle / NARROW_MARGIN, middle * NARROW_MARGIN
        windows.append(
            LevelWindow(level=cache.level, capacity_bytes=capacity, low_bytes=low, high_bytes=high)
        )
        below = capacity
    return tuple(windows)
