"""Which working sets on a GPU run from which level of its memory.

The plan of a sweep and the analysis of its trials share these rules. Every SM has an L1 of
its own, all share the L2. A working set of the scope ``sm`` is dealt out, and each SM sweeps
its slice again and again: it runs from the L1s together. One of the scope ``gpu`` is swept
by every SM as a whole: what one L1 cannot hold comes from the L2.
"""

from __future__ import annotations

from mansard.core.caches import LOWER_MARGIN, UPPER_MARGIN, LevelWindow
from mansard.core.records import Scope

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
