"""A network as in the file, independent of the file format, and what a user states about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from mansard.estimator.numbers import ElementType, Numbers
from mansard.estimator.tensors import Shape

Dimension = int | str | None  # a number, a name, or unknown
Kind = Literal["tensor", "sequence", "optional", "optional sequence", "map"]


def normal_domain(domain: str) -> str:
    """ONNX's own domain has two spellings; the empty one is used here."""
    return "" if domain == "ai.onnx" else domain


class StoredTensor(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A tensor in the file. ``value`` is kept only where it is small (``may_keep``)."""

    name: str
    dtype: ElementType
    shape: Shape
    value: Numbers | None


class ModelInput(msgspec.Struct, frozen=True):
    """An input of the network; ``dimensions`` is None where the file has no shape.

    Of a sequence or an optional, ``dtype`` and ``dimensions`` are those of the tensors
    in it, of a map those of its values.
    """

    name: str
    dtype: ElementType | None  # None: the file gives no type, or one that does not exist
    dimensions: tuple[Dimension, ...] | None
    kind: Kind = "tensor"


class ModelNode(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One node of the file, by names. Omitted inputs are empty names.

    ``index`` is unique over all graphs of a model: the main graph's nodes have their
    positions in the file as theirs, those of subgraphs follow.
    """

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    opset: int = 1  # of its domain; a node out of a function has that of the function

    @property
    def label(self) -> str:
        """How messages call this node."""
        return f"node {self.name!r} ({self.op_type})"

    @property
    def subgraphs(self) -> Iterator[Subgraph]:
        """The graphs inside this node, not those inside them."""
        for value in self.attributes.values():
            if isinstance(value, Subgraph):
                yield value
            elif isinstance(value, tuple) and value and isinstance(value[0], Subgraph):
                yield from value

    @property
    def reads(self) -> Iterator[str]:
        """The tensors that this node needs, inside its graphs too."""
        yield from filter(None, self.inputs)
        for graph in self.subgraphs:
            yield from graph.captured


class Subgraph(msgspec.Struct, frozen=True, eq=False):
    """A graph inside a node: a branch of an If, the body of a Loop or Scan.

    ``captured`` are the tensors that it, or a graph inside it, reads from outside.
    """

    nodes: tuple[ModelNode, ...]  # sorted, as those of the whole network
    inputs: tuple[ModelInput, ...]
    outputs: tuple[ModelInput, ...]
    stored: Mapping[str, StoredTensor]
    captured: tuple[str, ...]


def all_nodes(nodes: Iterable[ModelNode]) -> Iterator[ModelNode]:
    """The nodes and, after each, those of the graphs inside it."""
    for node in nodes:
        yield node
        for graph in node.subgraphs:
            yield from all_nodes(graph.nodes)


def always_run(nodes: Iterable[ModelNode]) -> Iterator[ModelNode]:
    """As ``all_nodes``, without the nodes inside the branches of an If: one is not taken."""
    for node in nodes:
        yield node
        for graph in node.subgraphs if node.op_type != "If" else ():
            yield from always_run(graph.nodes)


# What the file notes of a tensor: its type and its dimensions; None where it does not say.
StatedType = tuple[ElementType | None, tuple[Dimension, ...] | None]


class Model(msgspec.Struct, frozen=True, eq=False):
    """Everything the estimator needs of a file; weights are names and shapes.

    ``stated``: what ``value_info`` says of tensors that nodes write. It holds for the
    dimensions of one export, and for nothing where the file was edited afterwards. ``notes``:
    what may be wrong with the versions that the file says it has.
    """

    nodes: tuple[ModelNode, ...]  # sorted: a node follows those it reads from
    inputs: tuple[ModelInput, ...]  # without those that are initialisers
    outputs: tuple[ModelInput, ...]
    stored: Mapping[str, StoredTensor]
    opsets: Mapping[str, int]
    stated: Mapping[str, StatedType] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()


Value = int | float | bool | tuple[int | float | bool, ...]


class Given(msgspec.Struct, frozen=True):
    """Sizes, counts and values that the file does not fix.

    ``dims``: dimensions by name, or by position as ``tensor[axis]``; of a sequence that is
    an input, ``name.length``; of an optional one, ``name.present`` (1 or 0).
    ``trips``: how often a loop runs, by the name of its node or of one of its outputs.
    ``values``: small integers and numbers held by inputs (or written by nodes) that
    shapes and branches depend on. ``shapes``: whole shapes by tensor, and ``types`` the names
    of their element types; of inputs, and of what operators without a shape rule write.

    A name of ``dims`` with ``*`` in it is a pattern over the dimensions that depend on data,
    each called ``tensor[axis]`` or ``OPERATOR:tensor[axis]``. ``upper``: those that are not
    given take their upper bound where there is one, and so do numbers of trips.
    ``batch_names``: dimensions that are the batch, whatever they are called.
    """

    batch: int | None = None
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)
    trips: Mapping[str, int] = msgspec.field(default_factory=dict)
    values: Mapping[str, Value] = msgspec.field(default_factory=dict)
    shapes: Mapping[str, Shape] = msgspec.field(default_factory=dict)
    types: Mapping[str, str] = msgspec.field(default_factory=dict)
    upper: bool = False
    batch_names: frozenset[str] = frozenset()


NOTHING_GIVEN = Given()
