"""Which working sets belong to which level of memory."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.caches import level_windows
from mansard.core.records import MachineIdentity, Record

# STREAM's rule is arrays of four times the last caches; three are enough for one
# pass over a set that an LRU-like cache cannot keep, two are used where no larger
# set was measured.
DRAM_MARGIN = 3.0
DRAM_LEAST_MARGIN = 2.0
DRAM = "DRAM"


class Level(Record, frozen=True, kw_only=True):
    """One level of memory as one mode sees it. Bytes over all instances in use.

    Working sets w with low_bytes < w <= high_bytes run from this level; for DRAM
    there is no upper end.
    """

    name: str
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
    levels = [
        Level(
            name=f"L{window.level}",
            capacity_bytes=window.capacity_bytes,
            low_bytes=window.low_bytes,
            high_bytes=window.high_bytes,
        )
        for window in windows
    ]
    below = float(windows[-1].capacity_bytes)
    levels.append(
        Level(
            name=DRAM,
            capacity_bytes=None,
            low_bytes=DRAM_MARGIN * below,
            high_bytes=None,
            unknown={
                "capacity_bytes": "the roof does not need the size of main memory",
                "high_bytes": "main memory is the last level",
            },
        )
    )
    return tuple(levels)


def in_level(level: Level, working_set_bytes: float, least: float | None = None) -> bool:
    """Whether a working set runs from ``level``; ``least`` replaces its lower end."""
    low = level.low_bytes if least is None else least
    return low < working_set_bytes and (
        level.high_bytes is None or working_set_bytes <= level.high_bytes
    )
