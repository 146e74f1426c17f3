"""Memory of the process that measures: a limit, so that an allocation fails in time; its peak."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
from collections.abc import Iterator
from pathlib import Path

from mansard.device.system import SYSTEM_ROOT
from mansard.device.topology import available_memory_bytes, status_bytes

_SHARE = 0.9  # of what is available: the rest stays free for other processes
_PROCESS = Path("proc/self")


@contextlib.contextmanager
def limited_to_available(root: Path = SYSTEM_ROOT) -> Iterator[None]:
    """A block in which an allocation fails if the machine has no memory for it.

    Linux overcommits: without a limit the allocation would succeed, and the kernel would kill this
    process, or another one, when the memory is used. The limit is on private writable memory
    (``RLIMIT_DATA``), which does not include address space that a driver only reserves.
    """
    available = available_memory_bytes(root)
    data = status_bytes(root, "VmData")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if available is None or data is None:
        yield
        return
    limit = data + int(available * _SHARE)
    for other in (soft, hard):
        limit = limit if other == resource.RLIM_INFINITY else min(limit, other)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class PeakMemory:
    """The peak memory of this process since the object was made, above the memory then."""

    def __init__(self, root: Path = SYSTEM_ROOT) -> None:
        self._root = root
        gc.collect()
        # Freed memory that the allocator keeps would be reused without raising the peak.
        with contextlib.suppress(OSError, AttributeError):  # a C library without it
            ctypes.CDLL(None).malloc_trim(0)
        with contextlib.suppress(OSError):
            (root / _PROCESS / "clear_refs").write_text("5")  # proc(5): the peak begins anew
        self._before_bytes = status_bytes(root, "VmRSS")
        self._peak_before_bytes = status_bytes(root, "VmHWM")

    def bytes(self) -> int | None:
        """The peak; None where the kernel has no count, or an earlier peak hides it."""
        peak = status_bytes(self._root, "VmHWM")
        before, peak_before = self._before_bytes, self._peak_before_bytes
        if peak is None or before is None or peak_before is None or peak <= peak_before:
            return None
        return peak - before
