"""A made-up GPU: memory in the host's, streams that run when waited for, graphs that replay calls.

The environment says which machine it is: STAND_IN_DEVICE is one of MACHINES, STAND_IN_MEMORY_BYTES
the memory that it has.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass, field

_ALIGNMENT = 256


@dataclass(frozen=True)
class Machine:
    """What the runtime and the builder say of a device."""

    name: str
    capability: tuple[int, int]
    n_dla_cores: int
    is_integrated: bool
    memory_bytes: int
    n_devices: int = 1


MACHINES = {
    "orin": Machine("Orin", (8, 7), 2, True, 32 << 30),
    "thor": Machine("NVIDIA Thor", (11, 0), 0, True, 128 << 30),
    "rtx": Machine("NVIDIA GeForce RTX 3060", (8, 6), 0, False, 12 << 30),
    "none": Machine("", (0, 0), 0, False, 0, n_devices=0),
}


def machine() -> Machine:
    """The machine that the environment names."""
    return MACHINES[os.environ.get("STAND_IN_DEVICE", "orin")]


def memory_bytes() -> int:
    """The memory of the device."""
    return int(os.environ.get("STAND_IN_MEMORY_BYTES", machine().memory_bytes))


@dataclass
class Block:
    """A piece of memory; ``kind`` is "device", "managed" or "pinned"."""

    kind: str
    size: int
    buffer: ctypes.Array[ctypes.c_char]
    attached: list[int] = field(default_factory=list)  # flags of each attachment to a stream


class CaptureError(Exception):
    """A call that is not permitted while its stream is captured."""


class AddressError(Exception):
    """Work at an address that is not the device's."""


@dataclass
class Stream:
    """Work runs when the stream is waited for; while it is captured it is kept for the graph."""

    handle: int
    flags: int = 0
    captured: list[Callable[[], None]] | None = None
    is_broken: bool = False  # the capture
    n_waits: int = 0
    enqueued: list[Callable[[], None]] = field(default_factory=list)

    def flush(self) -> None:
        """Run what is enqueued; raises AddressError."""
        work, self.enqueued = self.enqueued, []
        for each in work:
            each()

    def put(self, work: Callable[[], None], *, can_be_captured: bool = True) -> None:
        """Enqueue ``work``, or keep it for the graph; raises CaptureError where it cannot be."""
        if self.captured is None:
            self.enqueued.append(work)
        elif can_be_captured and not self.is_broken:
            self.captured.append(work)
        else:
            self.is_broken = True
            raise CaptureError


BLOCKS: dict[int, Block] = {}
STREAMS: dict[int, Stream] = {0: Stream(0)}
HANDLES = iter(range(0x5000, 1 << 30))
CALLS: list[str] = []  # of the runtime, by name
DEVICE_FLAGS: list[int] = []  # each that was set


def allocate(kind: str, size: int) -> int:
    """The address of a new block; 0 where the device has too little memory."""
    used = sum(block.size for block in BLOCKS.values() if block.kind != "pinned")
    if kind != "pinned" and used + size > memory_bytes():
        return 0
    buffer = ctypes.create_string_buffer(size + _ALIGNMENT)
    address = -(-ctypes.addressof(buffer) // _ALIGNMENT) * _ALIGNMENT
    BLOCKS[address] = Block(kind, size, buffer)
    return address


def holds(address: int, size: int) -> bool:
    """Whether ``size`` bytes from ``address`` on are in one block."""
    return any(
        start <= address and address + size <= start + block.size for start, block in BLOCKS.items()
    )


def is_capturing() -> bool:
    """Whether any stream is captured."""
    return any(stream.captured is not None for stream in STREAMS.values())
