"""Groups as they are counted: one kernel with the memory that it reads and writes."""

from __future__ import annotations

import msgspec

from mansard.estimator.fusion.storage import Storage
from mansard.estimator.fusion.wiring import Wiring

Access = tuple[Storage, int]  # and how many bytes of it


class Group(msgspec.Struct, frozen=True, eq=False):
    """Nodes that run as one kernel.

    ``head`` is the index of the heaviest. Each storage is read and written once, save
    ``again_bytes``: what an attention reads of its keys and values over and over, of
    ``again_span_bytes`` in all. ``bodies`` are the graphs inside its one node.
    ``is_known`` is False where a size or what the operator touches is not known.
    """

    head: int
    indexes: tuple[int, ...]
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    again_bytes: int = 0
    again_span_bytes: int = 0
    bodies: tuple[BodyGroups, ...] = ()
    is_known: bool = True

    @property
    def read_bytes(self) -> int:
        return sum(n_bytes for _, n_bytes in self.reads) + self.again_bytes

    @property
    def write_bytes(self) -> int:
        return sum(n_bytes for _, n_bytes in self.writes)


class Fusion(msgspec.Struct, frozen=True, eq=False):
    """The groups of one graph in the order they run, and the ``wiring`` they come from.

    ``idle``: nodes that move nothing, by index, with the head of the group whose result
    they show; constants with their own.
    """

    groups: tuple[Group, ...]
    idle: dict[int, int]
    wiring: Wiring


class PassGroups(msgspec.Struct, frozen=True, eq=False):
    """One pass of a body and what is handed in and on.

    ``enter``, ``again`` and ``leave`` are pairs of storages (from, to): at the first
    iteration, between two, and after the last.
    """

    fusion: Fusion
    times: int
    enter: tuple[tuple[Storage, Storage], ...]
    again: tuple[tuple[Storage, Storage], ...]
    leave: tuple[tuple[Storage, Storage], ...]


class BodyGroups(msgspec.Struct, frozen=True, eq=False):
    """A graph inside a node."""

    passes: tuple[PassGroups, ...]
    is_taken: bool
