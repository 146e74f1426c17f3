"""What is known of boards beforehand: the size of their last-level cache.

A cache that the system reports wins over this table.
"""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.core.errors import UsageError
from mansard.core.sizes import parse_bytes

_KIB, _MIB = 1 << 10, 1 << 20


class Board(msgspec.Struct, frozen=True):
    """A board's GPU. ``l2_bytes``: its level-two cache, which all its cores share."""

    name: str
    l2_bytes: int
    source: str


_ORIN = "published by NVIDIA for the module, not measured here"
_ORIN_NANO = "device attribute in profiles of an Orin Nano: 2,097,152 bytes"
_ORIN_NX = "taken to be the Orin Nano's, whose chip it shares; not read on a board"
_XAVIER = _ORIN
_TX2 = _ORIN
_THOR = _ORIN
_A100 = "NVIDIA A100 Tensor Core GPU architecture, whitepaper: 40 MB"

BOARDS = MappingProxyType(
    {
        board.name: board
        for board in (
            Board("agx-orin", 4 * _MIB, _ORIN),
            Board("orin-nx", 2 * _MIB, _ORIN_NX),
            Board("orin-nano", 2 * _MIB, _ORIN_NANO),
            Board("agx-xavier", 512 * _KIB, _XAVIER),
            Board("xavier-nx", 512 * _KIB, _XAVIER),
            Board("tx2", 512 * _KIB, _TX2),
            Board("thor", 32 * _MIB, _THOR),
            Board("a100", 40 * _MIB, _A100),
        )
    }
)


def cache_bytes(text: str) -> int:
    """The last-level cache of a board by name, or a size such as ``4MiB``; raises UsageError."""
    board = BOARDS.get(text.lower())
    if board is not None:
        return board.l2_bytes
    try:
        return parse_bytes(text)
    except UsageError:
        raise UsageError(
            f"{text!r} is neither a board nor a size in bytes",
            fix=f"write 4MiB, or one of {', '.join(BOARDS)}",
        ) from None
