"""Stretches of memory, and what a tensor's name stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.tensors import Node, Tensor

if TYPE_CHECKING:
    from mansard.estimator.fusion.drafts import Draft


class Storage(msgspec.Struct, eq=False):
    """A stretch of memory. ``readers`` are places among the live nodes of its graph.

    ``maker`` is the group of nodes that writes it, None where it comes from outside the
    graph. ``is_kept``: it is needed as it is, whoever reads it in this graph; an output of
    the graph (``is_output``) is, and it stays to the end. ``home`` is where it stands if it
    is a part of another one: an input of a Concat that is written in place. ``n_bytes`` is
    None where it is not known.
    """

    n_bytes: int | None
    n_elements: int
    readers: list[int] = []
    maker: Draft | None = None
    is_kept: bool = False
    is_output: bool = False
    home: Storage | None = None
    beyond: Storage | None = None  # a home of its home, known from an earlier walk


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


# What leaves dequantised weights the integers that they are in the file.
_CARRYING = frozenset(
    {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
_MAX_SETTINGS = 16  # integers that an operator takes as its axes, pads, sizes, …


class Constants:
    """What is stored with the network; one for all graphs, so that equal tensors are one.

    It also holds what is the same for all graphs: ``precision`` and ``buffer_bytes``, see
    ``fuse``.
    """

    def __init__(self, precision: Precision | None, buffer_bytes: int | None = None) -> None:
        self.precision, self.buffer_bytes = precision, buffer_bytes
        self._by_tensor: dict[int, Part | None] = {}
        self._by_name: dict[tuple[str, str], Part | None] = {}
        self._narrow_bytes: dict[str, int] = {}

    def part(self, tensor: Tensor) -> Part | None:
        """A stored tensor; None for numbers that are compiled into the kernel."""
        key = id(tensor)  # its node keeps it
        if key in self._by_tensor:
            return self._by_tensor[key]
        name = tensor.name, tensor.weights[0].name if tensor.weights else ""
        if name not in self._by_name:
            self._by_name[name] = self._new(tensor)
        found = self._by_tensor[key] = self._by_name[name]
        return found

    def _new(self, tensor: Tensor) -> Part | None:
        n_bytes = self._narrow_bytes.get(tensor.name)
        if tensor.unknown:
            return Part(Storage(None, 0), None)
        n_elements = tensor.n_elements
        is_setting = n_elements <= _MAX_SETTINGS and tensor.dtype.name in ("int64", "int32")
        if n_elements == 1 or (is_setting and n_bytes is None):
            return None
        if n_bytes is None:
            n_bytes = tensor.n_bytes(self.precision)
        return Part(Storage(n_bytes, n_elements), n_bytes)

    def note(self, node: Node) -> None:
        """Remember dequantised weights: kernels read the integers and their scales."""
        if node.op_type == "DequantizeLinear" and node.outputs:
            total = sum(tensor.n_bytes(self.precision) for tensor in node.present)
            self._narrow_bytes[node.outputs[0].name] = total
        elif self._narrow_bytes and node.op_type in _CARRYING and node.inputs and node.outputs:
            first = node.inputs[0]
            if first is not None and first.name in self._narrow_bytes:
                self._narrow_bytes[node.outputs[0].name] = self._narrow_bytes[first.name]
