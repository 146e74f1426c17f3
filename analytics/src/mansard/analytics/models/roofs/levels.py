"""Which working sets belong to which level of memory."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.caches import DRAM_MARGIN as GPU_DRAM_MARGIN
from mansard.core.caches import (
    LevelWindow,
    gpu_level_windows,
    latency_windows,
    level_windows,
    scope_of,
)
from mansard.core.records import Gpu, MachineIdentity, Record, Scope

# STREAM's rule is arrays of four times the last caches; three are enough for one
# pass over a set that an LRU-like cache cannot keep, two are used where no larger
# set was measured. On a GPU both are larger by the same factor (core/caches.py).
DRAM_MARGIN = 3.0
DRAM_LEAST_MARGIN = 2.0
DRAM = "DRAM"


class Level(Record, frozen=True, kw_only=True):
    """One level of memory as one mode sees it. Bytes over all instances in use.

    Working sets w with low_bytes < w <= high_bytes run from this level; for DRAM
    there is no upper end.
    """

    name: str
    scope: Scope  # of the trials that show it
    capacity_bytes: int | None
    low_bytes: float
    high_bytes: float | None


def memory_levels(machine: MachineIdentity, cpus: Sequence[int]) -> tuple[Level, ...]:
    """The caches in use, from the nearest, and DRAM; capacities in bytes.

    Empty where the system reports no caches: nothing then says which working set
    runs from where.
    """
    if not machine.caches:
        return ()
    windows = level_windows(machine.caches, cpus)
    below = float(windows[-1].capacity_bytes)
    return (*(_cache(window, "core") for window in windows), _dram(DRAM_MARGIN * below, "core"))


def gpu_levels(gpu: Gpu, n_sms: int) -> tuple[Level, ...]:
    """The levels of a GPU with ``n_sms`` SMs on: L1 of all SMs together, L2, DRAM.

    Empty where the size of the L2 is not known.
    """
    if gpu.l2_bytes is None:
        return ()
    return _of_windows(gpu_level_windows(gpu, n_sms), gpu.l2_bytes)


def latency_levels(gpu: Gpu) -> tuple[Level, ...]:
    """The levels that a single thread's loads go through; empty as those of ``gpu_levels``.

    The L2 of a card may be two of them, near and far (core/caches.py).
    """
    if gpu.l2_bytes is None:
        return ()
    return _of_windows(latency_windows(gpu), gpu.l2_bytes)


def _of_windows(windows: Sequence[LevelWindow], l2_bytes: int) -> tuple[Level, ...]:
    caches = (_cache(window, scope_of(window.level)) for window in windows)
    return (*caches, _dram(GPU_DRAM_MARGIN * l2_bytes, "gpu"))


def _cache(window: LevelWindow, scope: Scope) -> Level:
    return Level(
        name=window.name,
        scope=scope,
        capacity_bytes=window.capacity_bytes,
        low_bytes=window.low_bytes,
        high_bytes=window.high_bytes,
    )


def _dram(low_bytes: float, scope: Scope) -> Level:
    return Level(
        name=DRAM,
        scope=scope,
        capacity_bytes=None,
        low_bytes=low_bytes,
        high_bytes=None,
        unknown={
            "capacity_bytes": "the roof does not need the size of main memory",
            "high_bytes": "main memory is the last level",
        },
    )


def in_level(level: Level, working_set_bytes: float, least: float | None = None) -> bool:
    """Whether a working set runs from ``level``; ``least`` replaces its lower end."""
    low = level.low_bytes if least is None else least
    return low < working_set_bytes and (
        level.high_bytes is None or working_set_bytes <= level.high_bytes
    )
