"""Tensors and nodes with known shapes: what shape rules and costs see of a network.

Nothing here knows ONNX's file format: ``reading`` translates it into a Model, and
``shape_inference`` makes these of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TypeVar, cast

import msgspec

from mansard.core.errors import MansardError, ModelError
from mansard.core.precision import Precision
from mansard.estimator.numbers import Array, ElementType, Numbers

MAX_RANK = 64  # NumPy's own limit
_LONGEST_LIST = 4_000_000  # numbers of an attribute; a Python integer takes 32 bytes
MAX_ELEMENTS = 2**60  # beyond this a file is damaged or hostile

Shape = tuple[int, ...]


class Origin(IntEnum):
    """What a tensor depends on. The larger wins where a node mixes them."""

    FILE = 0  # stored in the file, or computed from such tensors alone
    SHAPES = 1  # computed from the shapes of other tensors: the same for all input data
    ITERATIONS = 2  # like SHAPES, but computed anew in each iteration of a loop
    DATA = 3  # depends on the data given to the network

    # They are parts of keys that are looked up for every node; an enumeration hashes its names.
    __hash__ = int.__hash__


_ITERATIONS, _DATA = Origin.ITERATIONS, Origin.DATA


class Weight(msgspec.Struct, frozen=True, gc=False):
    """A tensor stored in the file. ``is_literal``: written into the graph as a Constant node."""

    name: str
    dtype: ElementType
    shape: Shape
    is_literal: bool = False

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)


class ValueNeededError(ModelError):
    """A shape follows from a value that is not known."""


class Tensor(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One tensor of the network, every dimension a number.

    ``unknown`` holds the reason where the shape cannot be known; ``shape`` means
    nothing then. ``value`` is kept for small tensors that shapes are computed from.
    ``weights`` are the stored tensors that this one was made of. ``items`` makes it a
    sequence: its elements, in order; its own shape means nothing then.
    """

    name: str
    dtype: ElementType
    shape: Shape
    origin: Origin = Origin.DATA
    value: Numbers | None = None
    weights: tuple[Weight, ...] = ()
    unknown: str | None = None
    items: tuple[Tensor, ...] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    def n_bytes(self, precision: Precision | None) -> int:
        """Size in memory; ``precision`` replaces the width of floating elements only."""
        if self.items is not None:
            return sum(item.n_bytes(precision) for item in self.items)
        return self.dtype.size_bytes(self.n_elements, precision)

    def axis(self, axis: int) -> int:
        """``axis`` counted from the front; raises ModelError outside the rank."""
        if not -self.rank <= axis < self.rank:
            raise ModelError(
                f"axis {axis} of a tensor with {self.rank} dimensions", where=self.name
            )
        return axis % self.rank


_NO_ATTRIBUTES: Mapping[str, object] = MappingProxyType({})


class Pass(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A subgraph with its shapes, as it runs ``times`` times over."""

    nodes: tuple[Node, ...]
    times: int


class Body(msgspec.Struct, frozen=True, eq=False):
    """A subgraph of a node: a branch of an If, the body of a Loop or Scan.

    ``name`` is the attribute that holds it, ``inputs`` and ``outputs`` are its tensors'
    names. Iterations of equal shapes are one pass. ``is_taken`` is False for the branch
    of an If that is shown, but not counted.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    passes: tuple[Pass, ...]
    is_taken: bool = True


class Node(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One operator with its tensors. Inputs that are left out are None.

    ``outputs`` is empty while the shapes of the outputs are being worked out.
    ``bodies`` are the graphs inside it; their nodes have indexes of their own. Nodes of
    one network with the same ``alike``, if it is not negative, have the same operator,
    attributes, types and shapes: what one costs, so does the other. Names differ, and
    which of the inputs are weights.
    """

    index: int
    name: str
    op_type: str
    domain: str = ""
    opset: int = 21
    attributes: Mapping[str, object] = msgspec.field(default_factory=lambda: _NO_ATTRIBUTES)
    inputs: tuple[Tensor | None, ...] = ()
    output_names: tuple[str, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    bodies: tuple[Body, ...] = ()
    alike: int = -1

    @property
    def label(self) -> str:
        """How messages call this node."""
        return f"node {self.name!r} ({self.op_type})"

    @property
    def is_constant(self) -> bool:
        """Whether the node can be computed before any data is there, and so costs nothing."""
        for output in self.outputs:
            if output.origin is _DATA or output.origin is _ITERATIONS:
                return False
        return True

    def error(self, what: str, fix: str | None = None) -> ModelError:
        return ModelError(what, where=self.label, fix=fix)

    def has(self, position: int) -> bool:
        return position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int) -> Tensor:
        """The input at ``position``; raises ModelError where it is omitted."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise self.error(f"input {position} is missing")
        return tensor

    def optional(self, position: int) -> Tensor | None:
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def present(self) -> tuple[Tensor, ...]:
        """All inputs that are given."""
        if None not in self.inputs:
            return cast("tuple[Tensor, ...]", self.inputs)
        return tuple(tensor for tensor in self.inputs if tensor is not None)

    @property
    def distinct(self) -> tuple[Tensor, ...]:
        """All inputs that are given, without duplicates."""
        present = self.present
        if len(present) < 2:
            return present
        return tuple({tensor.name: tensor for tensor in present}.values())

    @property
    def unknown_input(self) -> str | None:
        """Why one of its inputs has no known shape; None where all have one."""
        return next((tensor.unknown for tensor in self.present if tensor.unknown), None)

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    def value(self, position: int) -> Numbers:
        """The known value of an input; raises ModelError where it depends on data."""
        tensor = self.input(position)
        if tensor.value is None:
            raise ValueNeededError(
                f"input {tensor.name!r} must be known to tell the shape of the output, "
                "but it depends on data or is too large",
                where=self.label,
            )
        return tensor.value

    def array(self, position: int) -> Array:
        """As ``value``, for NumPy."""
        return self.value(position).array

    @property
    def values(self) -> tuple[Numbers, ...]:
        """The values of all given inputs, where they are known."""
        return tuple(tensor.value for tensor in self.present if tensor.value is not None)

    def value_ints(self, position: int) -> tuple[int, ...]:
        """The known value of an input as integers."""
        value = self.value(position)
        if value.dtype.is_float:
            raise self.error(f"input {position} must hold integers, not {value.dtype.name}")
        return tuple(map(int, value.flat))

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.error(f"attribute {name!r} must be an integer")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)):
            raise self.error(f"attribute {name!r} must be a number")
        return float(value)

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self.error(f"attribute {name!r} must be a string")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        value = self.attributes.get(name)
        if value is None:
            return None
        held = getattr(value, "value", None)
        if isinstance(held, Numbers):  # a long list, which is a stored tensor
            if held.n_elements > _LONGEST_LIST:
                raise self.error(f"attribute {name!r} has more than {_LONGEST_LIST} numbers")
            return tuple(map(int, held.flat))
        if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
            raise self.error(f"attribute {name!r} must be a list of integers")
        return value


def is_sane(shape: Shape) -> bool:
    """Whether the shape is possible; a dimension of 0 must not hide huge ones."""
    if len(shape) > MAX_RANK or min(shape, default=0) < 0:
        return False
    return (math.prod(shape) or math.prod(size or 1 for size in shape)) <= MAX_ELEMENTS


T = TypeVar("T")

# Errors that a malformed node causes in a shape rule or cost: attributes that are missing or
# of another type, too few inputs, shapes of another rank, absurd sizes.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


def raising_model_error(run: Callable[..., T], node: Node, *rest: object) -> T:
    """``run(node, *rest)``; an error of a broken node becomes a ModelError that names it."""
    try:
        return run(node, *rest)
    except MansardError:
        raise
    except _MALFORMED as error:
        raise node.error(
            f"does not fit its operator's definition ({type(error).__name__}: {error})",
            "the file is broken or was edited; export it again",
        ) from error


class NodeInstance(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A node in the graph called ``scope``, which runs ``runs`` times in one inference.

    ``is_taken`` is False in the branch of an If that is not counted.
    """

    node: Node
    scope: str
    runs: int
    is_taken: bool


def walk(
    nodes: Iterable[Node], scope: str = "", runs: int = 1, is_taken: bool = True
) -> Iterator[NodeInstance]:
    """``nodes`` and, after each, those of its bodies; a body of several passes repeats."""
    for node in nodes:
        yield NodeInstance(node, scope, runs, is_taken)
        for body in node.bodies:
            inner = f"{scope}/{node.name}:{body.name}" if scope else f"{node.name}:{body.name}"
            for pass_ in body.passes:
                yield from walk(pass_.nodes, inner, runs * pass_.times, is_taken and body.is_taken)
