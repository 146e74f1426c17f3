"""The last-level cache of a board by its short name, for estimates without the board."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mansard.core.errors import UsageError
from mansard.core.hardware.module import MIB
from mansard.core.hardware.table import MODULES
from mansard.core.sizes import parse_bytes

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
