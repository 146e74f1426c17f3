"""Caches: one SM's L1 by compute capability, and a board's last level by its short name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mansard.core.errors import UsageError
from mansard.core.hardware.module import MIB
from mansard.core.hardware.table import MODULES
from mansard.core.units import parse_bytes

# The first-level data cache of one SM, which CUDA does not report.
#
# Source: CUDA C++ Programming Guide, chapters on the compute capabilities. Since 7.0 one
# memory serves as L1 and shared memory: what shared memory takes is missing in the cache.
# Before, shared memory lies apart, and this is the unified L1 and texture cache alone.
# 101 is CUDA 12.9's name for 110 (Thor).

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


# The L2's partitions, each of which caches for the SMs beside it. Source: NVIDIA A100 Tensor Core
# GPU Architecture, "A100 L2 Cache"; NVIDIA H100 Tensor Core GPU Architecture, whose L2 has the same
# structure; of 10.0 and 10.3 the two dies (NVIDIA Blackwell Architecture Technical Brief).
_L2_PARTITIONS = MappingProxyType({80: 2, 90: 2, 100: 2, 103: 2})


def l2_partitions(sm: int) -> int:
    """In how many partitions the L2 lies; 1 where nothing else is published."""
    return _L2_PARTITIONS.get(sm, 1)


def sm_l1_bytes(sm: int) -> int | None:
    """Bytes of one SM's unified data cache, shared memory included; None: not known."""
    kib = _L1_KIB.get(sm)
    return None if kib is None else kib * _KIB


# Not a Jetson: kept for models that were measured there.
# Source: NVIDIA A100 Tensor Core GPU Architecture, whitepaper: 40 MB.
_CARDS = {"a100": 40 * MIB}


def _last_level_caches() -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for module in MODULES.values():
        if module.l2_bytes is not None:
            sizes.setdefault(module.family, module.l2_bytes)
    return MappingProxyType(sizes | _CARDS)


BOARD_CACHES = _last_level_caches()


def cache_bytes(text: str) -> int:
    """The last-level cache of a board by name, or a size such as ``4MiB``; raises UsageError."""
    size_bytes = BOARD_CACHES.get(text.lower())
    if size_bytes is not None:
        return size_bytes
    try:
        return parse_bytes(text)
    except UsageError:
        raise UsageError(
            f"{text!r} is neither a board nor a size in bytes",
            fix=f"write 4MiB, or one of {', '.join(BOARD_CACHES)}",
        ) from None
