"""Which working sets run from which level of a cache, on CPUs and GPUs.

The plan of a sweep and the analysis of its trials share these rules: a sweep makes sure that
every level has a working set of its own, and the roofline takes each level's bandwidth from
just those. Every SM of a GPU has an L1 of its own, all share the L2. A working set of the scope
``sm`` is dealt out, and each SM sweeps its slice again and again: it runs from the L1s together.
One of the scope ``gpu`` is swept by every SM as a whole: what one L1 cannot hold comes from the
L2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from mansard.core.records import Cache, Scope

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


# Of the L2's size. A GPU's L2 does not evict the oldest line first: of a set of three times
# its size a good part still hits.
DRAM_MARGIN = 8.0


def gpu_level_windows(
    l1_bytes: int | None, l2_bytes: int | None, n_sms: int
) -> tuple[LevelWindow, ...]:
    """The windows of L1 (scope ``sm``) and L2 (scope ``gpu``), as far as the sizes are known.

    ``l1_bytes``: of one SM. With ``n_sms`` 1 they are those of a single thread's accesses.
    """
    windows = []
    if l1_bytes is not None:
        capacity = l1_bytes * n_sms
        windows.append(_window(1, capacity, 0.0))
    if l2_bytes is not None:
        windows.append(_window(2, l2_bytes, LOWER_MARGIN * (l1_bytes or 0)))
    return tuple(windows)


def scope_of(level: int) -> Scope:
    """The scope of the trials that show cache level ``level`` of a GPU."""
    return "sm" if level == 1 else "gpu"


def dram_low_bytes(l2_bytes: int) -> float:
    """Working sets above this many bytes, scope ``gpu``, run from main memory."""
    return DRAM_MARGIN * l2_bytes


def _window(level: int, capacity_bytes: int, low_bytes: float) -> LevelWindow:
    return LevelWindow(
        level=level,
        capacity_bytes=capacity_bytes,
        low_bytes=low_bytes,
        high_bytes=UPPER_MARGIN * capacity_bytes,
    )
