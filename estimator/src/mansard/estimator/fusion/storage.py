"""Memory of tensors (storages and parts of them), and groups of nodes while they grow."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Storage(msgspec.Struct, eq=False):
    """A stretch of memory. ``readers`` are positions among the live nodes of its graph.

    ``maker`` is the group of nodes that writes it, None where it comes from outside the
    graph. ``is_kept``: it is needed as it is, whatever reads it in this graph; an output of
    the graph (``is_output``) is, and it stays to the end. ``parent`` is where it stands if it
    is a part of another one: an input of a Concat that is written in position. ``n_bytes`` is
    None where it is not known.
    """

    n_bytes: int | None
    n_elements: int
    readers: list[int] = []
    maker: Draft | None = None
    is_kept: bool = False
    is_output: bool = False
    parent: Storage | None = None
    known_root: Storage | None = None  # the root, known from an earlier walk


class Part(msgspec.Struct, eq=False):
    """All or a part of a storage, as a name refers to it. ``n_bytes`` None: not known.

    ``n_bits`` is the width of an element of a dequantised tensor, which stays quantised.
    """

    storage: Storage
    n_bytes: int | None
    n_bits: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.n_bytes == self.storage.n_bytes


class Kind(IntEnum):
    """What a group is built around; a merged group has the greater one."""

    POINTWISE = 0
    MOVE = 1  # with or without pointwise operators
    ROW = 2  # around a reduction over rows
    PRODUCT = 3  # a product with what is applied to its result
    ATTENTION = 4
    CLOSED = 5  # nothing joins


class Draft(msgspec.Struct, eq=False):
    """A group that grows.

    ``positions`` are those of its nodes, ``position`` is when it runs. ``parts`` are what its
    nodes read, ``result`` is what it writes, if that is one tensor, ``span`` the
    elements of the largest tensor that is reduced in it. ``products`` are the positions
    of its matrix products and convolutions.
    """

    kind: Kind
    position: int = -1
    positions: list[int] = []
    products: list[int] = []
    parts: set[Part] = set()
    result: Storage | None = None
    span: int = 0
    has_softmax: bool = False
    merged_into: Draft | None = None
