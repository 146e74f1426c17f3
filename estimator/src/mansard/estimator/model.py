"""A network as the file states it, free of the file format: names, attributes, dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.estimator.element_types import ElementType
from mansard.estimator.tensors import Array, Shape

Dimension = int | str | None  # a number, a name, or nothing at all


class StoredTensor(msgspec.Struct, frozen=True, eq=False):
    """A tensor in the file. ``value`` is kept only where it is small enough to steer shapes."""

    name: str
    dtype: ElementType
    shape: Shape
    value: Array | None


class Subgraph(msgspec.Struct, frozen=True):
    """A graph inside a node. Only what it reads from outside is kept."""

    captured: tuple[str, ...]


class ModelInput(msgspec.Struct, frozen=True):
    """An input of the network; ``dimensions`` is None where the file gives no shape."""

    name: str
    dtype: ElementType | None  # None: a sequence, map or optional
    dimensions: tuple[Dimension, ...] | None


class ModelNode(msgspec.Struct, frozen=True, eq=False):
    """One operator as written, by names. Left-out inputs are empty names."""

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]

    @property
    def label(self) -> str:
        return f"node {self.name!r} ({self.op_type})"


class Model(msgspec.Struct, frozen=True, eq=False):
    """Everything the estimator needs of a file; weights are names and shapes."""

    nodes: tuple[ModelNode, ...]  # sorted: a node stands after those it reads from
    inputs: tuple[ModelInput, ...]  # without those that are initialisers
    outputs: tuple[ModelInput, ...]
    stored: Mapping[str, StoredTensor]
    opsets: Mapping[str, int]
