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

from mansard.core.hardware import l2_partitions
from mansard.core.records import Cache, Gpu, Scope

# A set that fills a level to the brim already misses (other data, the stack and the
# page tables live there too); one just above the previous level still hits in it.
UPPER_MARGIN = 0.75
LOWER_MARGIN = 1.5
# Of a level less than twice the caches below it only the middle is left, this far around.
NARROW_MARGIN = 1.1


class LevelWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Working sets w with low_bytes < w <= high_bytes run from this level; bytes in all.

    Where ``high_bytes`` is not above ``low_bytes`` the level has no window: it is hardly
    larger than the caches below it together. ``part``: of a cache in two partitions, as one SM
    sees them.
    """

    level: int
    capacity_bytes: int
    low_bytes: float
    high_bytes: float
    part: str = ""

    @property
    def name(self) -> str:
        """L1, L2, L2 near."""
        return f"L{self.level} {self.part}".strip()


def instances_used(cache: Cache, cpus: Sequence[int]) -> int:
    """The number of instances of ``cache`` that threads pinned to ``cpus`` use.

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
        if high < NARROW_MARGIN * low:
            low, high = _narrowed(below, capacity) or (low, high)
        windows.append(
            LevelWindow(level=cache.level, capacity_bytes=capacity, low_bytes=low, high_bytes=high)
        )
        below = capacity
    return tuple(windows)


def _narrowed(below: int, capacity: int) -> tuple[float, float] | None:
    """The middle of a level that is less than twice the caches below it; None: nothing is left."""
    if NARROW_MARGIN**2 * below > capacity:
        return None
    middle = math.sqrt(below * capacity)
    return middle / NARROW_MARGIN, middle * NARROW_MARGIN


# Of the L2's size. A GPU's L2 does not evict the oldest line first: of a set of three times
# its size a good part still hits.
DRAM_MARGIN = 8.0


def gpu_level_windows(gpu: Gpu, n_sms: int) -> tuple[LevelWindow, ...]:
    """The windows of L1 (scope ``sm``) and L2 (scope ``gpu``), as far as the sizes are known.

    With ``n_sms`` 1 they are those of a single thread's accesses. Of an L2 in two partitions the
    window ends with what one of them holds: each then has a copy for the SMs beside it. Of larger
    sets a part crosses between them.
    """
    windows = []
    if gpu.l1_bytes is not None:
        windows.append(_window(1, gpu.l1_bytes * n_sms, 0.0))
    near_bytes = near_l2_bytes(gpu)
    if gpu.l2_bytes is not None and near_bytes is not None:
        held = _window(2, near_bytes, LOWER_MARGIN * (gpu.l1_bytes or 0))
        windows.append(msgspec.structs.replace(held, capacity_bytes=gpu.l2_bytes))
    return tuple(windows)


NEAR, FAR = "near", "far"


def latency_windows(gpu: Gpu) -> tuple[LevelWindow, ...]:
    """The windows of the levels that one thread's loads pass, as far as the sizes are known.

    An L2 of two partitions is two levels. Each caches for the SMs beside it ("near"), so that a set
    that one partition holds comes from there. Of one that only both hold, a part comes from the
    other ("far"). A set of just half the L2 is at the edge, and in neither window.
    """
    windows, near_bytes = gpu_level_windows(gpu, 1), near_l2_bytes(gpu)
    if gpu.l2_bytes is None or near_bytes is None or near_bytes == gpu.l2_bytes:
        return windows
    *first, whole = windows
    near = msgspec.structs.replace(whole, capacity_bytes=near_bytes, part=NEAR)
    low, high = _narrowed(near_bytes, gpu.l2_bytes) or (gpu.l2_bytes, gpu.l2_bytes)
    far = LevelWindow(
        level=2, capacity_bytes=gpu.l2_bytes, low_bytes=low, high_bytes=high, part=FAR
    )
    return (*first, near, far)


def near_l2_bytes(gpu: Gpu) -> int | None:
    """Capacity of one L2 partition; the whole L2 where it has one partition, None if unknown.

    A MIG slice lies within a partition.
    """
    if gpu.l2_bytes is None or gpu.mig is not None:
        return gpu.l2_bytes
    return gpu.l2_bytes // l2_partitions(gpu.sm)


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
