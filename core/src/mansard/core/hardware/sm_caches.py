"""The first-level data cache of one SM, which CUDA does not report.

Source: CUDA C++ Programming Guide, chapters on the compute capabilities. Since 7.0 one
memory serves as L1 and shared memory: what shared memory takes is missing in the cache.
Before, shared memory lies apart, and this is the unified L1 and texture cache alone.
101 is CUDA 12.9's name for 110 (Thor).
"""

from __future__ import annotations

from types import MappingProxyType

_KIB = 1024
_L1_KIB = MappingProxyType(
    {
        53: 24,
        60: 24,
        61: 48,
        62: 24,
        70: 128,
        72: 128,
        75: 96,
        80: 192,
        86: 128,
        87: 192,
        89: 128,
        90: 256,
        100: 256,
        101: 256,
        103: 256,
        110: 256,
        120: 128,
        121: 128,
    }
)


def sm_l1_bytes(sm: int) -> int | None:
    """Bytes of one SM's unified data cache, shared memory included; None: not known."""
    kib = _L1_KIB.get(sm)
    return None if kib is None else kib * _KIB
