"""A network as plain values: nodes, small integers, and weights known by shape alone.

Nothing here imports onnx, so that the catalogue can be listed quickly;
``serialise`` turns a finished ``Graph`` into a model.

Weights are ``ConstantOfShape`` nodes fed by a small int64 shape, the way the
``light_*`` models inside the onnx package keep theirs: the file stays small and
every tool can read, check and run it as it is. Fixed numbers that are no
parameters (scales, limits) are ``Constant`` nodes. Float initialisers are
parameters with values of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mansard.core.errors import ModelError

Dimension: TypeAlias = int | str
Shape: TypeAlias = tuple[Dimension, ...]
ElementType: TypeAlias = Literal["float32", "int64", "bool"]
Array: TypeAlias = npt.NDArray[np.generic]
Attribute: TypeAlias = int | float | str | tuple[int, ...] | tuple[str, ...] | Array


@dataclass(frozen=True)
class Tensor:
    """One value of the graph; a dimension is a number or the name of a free one."""

    name: str
    shape: Shape
    element: ElementType = "float32"

    @property
    def channels(self) -> int:
        """Length of axis 1 of an image tensor ``[batch, channels, height, width]``."""
        return fixed(self, 1)


@dataclass(frozen=True)
class Node:
    """One operator: ``inputs`` and ``outputs`` are tensor names; weights' nodes have no name."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass
class Graph:
    """A network being drawn, layer after layer, in execution order."""

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, Array] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _constants: dict[str, Tensor] = field(default_factory=dict)

    def input(self, name: str, shape: Shape, element: ElementType = "float32") -> Tensor:
        """Declare an input of the network."""
        tensor = Tensor(self._claim(name), shape, element)
        self.inputs.append(tensor)
        return tensor

    def output(self, tensor: Tensor, name: str | None = None) -> None:
        """Declare ``tensor`` an output, under a name for users where its own is not one."""
        if name is not None:
            tensor = self.node("Identity", name, [tensor], tensor.shape, element=tensor.element)
        self.outputs.append(tensor)

    def node(
        self,
        operator: str,
        name: str,
        inputs: Iterable[Tensor],
        shape: Shape,
        *,
        element: ElementType = "float32",
        **attributes: Attribute,
    ) -> Tensor:
        """Append a node with one output, which bears the node's name."""
        self._append(operator, name, inputs, (self._claim(name),), attributes)
        return Tensor(name, shape, element)

    def split(self, name: str, x: Tensor, axis: int, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
        """Cut ``x`` along ``axis`` into parts of the given lengths."""
        names = tuple(self._claim(f"{name}.{index}") for index in range(len(sizes)))
        self._append("Split", name, [x, self.integers(sizes)], names, {"axis": axis})
        shapes = ((*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes)
        return tuple(
            Tensor(part, shape, x.element) for part, shape in zip(names, shapes, strict=True)
        )

    def weight(self, name: str, shape: tuple[int, ...], value: float) -> Tensor:
        """A parameter of which only the shape is kept; all its elements are ``value``.

        Layers give matrices and filters 1 / (inputs of one output), so that a
        constant signal keeps its size from layer to layer.
        """
        filling = {"value": np.array([value], dtype=np.float32)} if value else {}
        # Without a name for the node, and zeros as the operator's default: small files.
        self.nodes.append(
            Node("ConstantOfShape", "", (self.integers(shape).name,), (self._claim(name),), filling)
        )
        return Tensor(name, shape)

    def parameter(self, name: str, values: Array) -> Tensor:
        """A parameter whose values matter and are kept in the file."""
        self.initializers[self._claim(name)] = values
        return Tensor(name, values.shape)

    def integers(self, values: Iterable[int]) -> Tensor:
        """A vector of int64 for shapes, axes and indices; equal ones are one tensor."""
        values = tuple(values)
        return self._integer("i" + "x".join(map(str, values)), np.array(values, dtype=np.int64))

    def integer(self, value: int) -> Tensor:
        """An int64 without dimensions, the index with which Gather takes one element."""
        return self._integer(f"scalar_{value}", np.array(value, dtype=np.int64))

    def number(self, value: float) -> Tensor:
        """A float32 without dimensions that is no parameter; equal ones are one tensor."""
        return self.constant(f"float32_{value:g}", np.array(value, dtype=np.float32))

    def constant(self, name: str, values: Array) -> Tensor:
        """A fixed tensor that is no parameter, kept in a ``Constant`` node."""
        if name not in self._constants:
            element: ElementType = "int64" if values.dtype == np.int64 else "float32"
            self._constants[name] = self.node(
                "Constant", name, [], values.shape, element=element, value=values
            )
        return self._constants[name]

    def _integer(self, name: str, values: Array) -> Tensor:
        if name not in self.initializers:
            self.initializers[self._claim(name)] = values
        return Tensor(name, values.shape, "int64")

    def _append(
        self,
        operator: str,
        name: str,
        inputs: Iterable[Tensor],
        outputs: tuple[str, ...],
        attributes: Mapping[str, Attribute],
    ) -> None:
        names = tuple(tensor.name for tensor in inputs)
        self.nodes.append(Node(operator, name, names, outputs, attributes))

    def _claim(self, name: str) -> str:
        if name in self._names:
            raise ModelError(
                f"two tensors are named {name}",
                where=f"zoo network {self.name}",
                fix="give every layer a name of its own",
            )
        self._names.add(name)
        return name


def fixed(tensor: Tensor, axis: int) -> int:
    """The length of an axis that must be a number; raises ModelError where it is free."""
    length = tensor.shape[axis]
    if isinstance(length, str):
        raise ModelError(
            f"dimension {axis} is free ({length}) where a layer needs a number",
            where=tensor.name,
            fix="declare the network's input with this dimension fixed",
        )
    return length


def n_elements(lengths: Iterable[Dimension]) -> int | None:
    """The product of the lengths; None as soon as one of them is free."""
    lengths = tuple(lengths)
    known = [length for length in lengths if isinstance(length, int)]
    return prod(known) if len(known) == len(lengths) else None
