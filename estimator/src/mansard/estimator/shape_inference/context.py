"""What one pass of shape inference shares: cached outputs, options, the budget, and notes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.model import Dimension, Given, ModelNode, StatedType
from mansard.estimator.numbers import FLOAT32, ElementType, Numbers
from mansard.estimator.tensors import Body, Node, Origin, Shape, Tensor

# Nodes of graphs inside others that may be followed: bounds time (seconds) and memory
# (some hundred megabytes) where the shapes of a loop change from iteration to iteration.
MAX_INNER_NODES = 150_000
_NODES_A_GRAPH = 4  # entering a graph takes as long as so many nodes
_MAX_CACHED = 200_000  # a model may be scored with any number of sizes

Key = tuple[Hashable, ...]
Outputs = tuple[tuple[Tensor, ...], tuple[Body, ...]]  # of a node with graphs inside
InferNodes = Callable[
    [Sequence[ModelNode], dict[str, Tensor], "InferenceContext"], tuple[Node, ...]
]


def unknown_outputs(node: Node, reason: str) -> tuple[Tensor, ...]:
    """The node's outputs where their shapes cannot be known."""
    return tuple([Tensor(name, FLOAT32, (), unknown=reason) for name in node.output_names])


class InferredOutputs(msgspec.Struct, frozen=True, eq=False):
    """Types and shapes of a node's outputs, and the value of each where it is known.

    Nodes with the same ``number`` differ in names only, those of weights included.
    It is -1 where the outputs hold for one node alone.
    """

    specs: tuple[tuple[ElementType, Shape], ...]
    origin: Origin
    values: tuple[Numbers | None, ...]
    number: int = -1


class CachedOutputs:
    """Outputs inferred so far, once for all nodes that differ in names only.

    The layers of a network repeat: the same operator, with the same attributes, on tensors
    of the same types and shapes. Outputs depend on nothing but their key, so those of one
    score serve the next one of the same model, with other dimensions.
    """

    def __init__(self) -> None:
        self._signature_of: dict[int, int] = {}  # by the node's index
        self._signatures: dict[Key, int] = {}
        self._found: dict[Key, InferredOutputs] = {}
        self._numbers = itertools.count()  # never gives two threads the same number

    def key(self, node: ModelNode, inputs: tuple[Tensor | None, ...]) -> Key | None:
        """All that the outputs depend on; None where an input is no tensor with a shape."""
        signature = self._signature_of.get(node.index)
        if signature is None:
            number = self._signatures.setdefault(_signature(node), next(self._numbers))
            signature = self._signature_of[node.index] = number
        parts: list[Hashable] = [signature]
        for tensor in inputs:
            if tensor is None:
                parts.append(None)
                continue
            if tensor.unknown is not None or tensor.items is not None:
                return None
            value = tensor.value
            held = None if value is None else value.data
            parts += (tensor.dtype.code, tensor.shape, tensor.origin, held)
        return tuple(parts)

    def find(self, key: Key) -> InferredOutputs | None:
        """The outputs of nodes with this key."""
        return self._found.get(key)

    def keep(self, key: Key, outputs: InferredOutputs) -> InferredOutputs:
        """``outputs`` with a number, for all nodes with this key."""
        kept = msgspec.structs.replace(outputs, number=next(self._numbers))
        if len(self._found) >= _MAX_CACHED:
            self._found.clear()
        self._found[key] = kept
        return kept


def _signature(node: ModelNode) -> Key:
    # An input that is given twice is read once, so it matters which names are equal.
    positions = {name: i for i, name in reversed([*enumerate(node.inputs)])}
    given = tuple([positions[name] if name else None for name in node.inputs])
    written = tuple([bool(name) for name in node.outputs])
    attributes = tuple(
        [(name, type(value), value) for name, value in sorted(node.attributes.items())]
    )
    signature = (node.op_type, node.domain, node.opset, given, written, attributes)
    try:
        hash(signature)
    except TypeError:
        return (node.index,)  # an attribute is a graph or a list: shared with no other node
    return signature


class NodeBudget:
    """How many more nodes inside loops may be followed."""

    def __init__(self, left: int) -> None:
        self.left = left

    def enter(self, n_nodes: int, node: Node) -> None:
        """Pay for a graph of ``n_nodes``; see ``spend``."""
        self.spend(n_nodes + _NODES_A_GRAPH, node)

    def spend(self, n_nodes: int, node: Node) -> None:
        """Raises ModelError, which names the loop, where too little is left."""
        self.left -= n_nodes
        if self.left < 0:
            raise node.error(
                "runs too often to follow it iteration by iteration, and has to be followed "
                "because shapes, or what ends it, change from one to the next",
                "score its body as a network of its own, or fewer iterations",
            )


class InferenceContext(msgspec.Struct, frozen=True, eq=False):
    """The context of one pass through a network, or through a graph inside it.

    ``infer_nodes`` gives shapes to the nodes of a graph and adds their outputs to the
    tensors. ``declared`` are the dimensions that the file states for the network's
    outputs, ``inputs`` the names of its inputs. ``stated`` is what the file notes of any
    tensor, by names of dimensions with the ``sizes``, or ``computed`` from them, unless the network
    ``is_resized``.
    ``missing`` are dimensions that depend on data and are not given, with the operator that leaves
    them open and their upper bound, ``behind`` the tensors of which the file states a shape, but
    whose values follow from what is unknown, for a reason.
    ``notes`` are choices that the score reports, ``used`` the data-dependent dimensions that
    were filled in, ``patterns`` the given names that are patterns. ``bounds`` are sizes and
    numbers of trips that were taken as their upper bound, ``bounded`` the tensors whose shape
    or value follows from one. ``states`` are the inputs of nodes, by index and position, that
    are initial states (``first_steps``). ``scope`` is put before the names of stored tensors
    inside; ``loop`` is the innermost one. ``is_proof``: values that change from iteration to
    iteration are left out, and whatever would depend on them is a ModelError.
    """

    infer_nodes: InferNodes
    given: Given
    declared: Mapping[str, tuple[Dimension, ...]]
    inputs: frozenset[str]
    budget: NodeBudget
    cache: CachedOutputs
    behind: dict[str, str] = msgspec.field(default_factory=dict)
    missing: dict[str, tuple[str, int | None]] = msgspec.field(default_factory=dict)
    notes: dict[str, None] = msgspec.field(default_factory=dict)
    used: set[str] = msgspec.field(default_factory=set)
    bounds: dict[str, int] = msgspec.field(default_factory=dict)
    bounded: set[str] = msgspec.field(default_factory=set)
    stated: Mapping[str, StatedType] = {}
    sizes: Mapping[str, int] = {}
    computed: dict[str, int | None] = msgspec.field(default_factory=dict)
    is_resized: bool = False
    patterns: tuple[str, ...] = ()
    states: frozenset[tuple[int, int]] = frozenset()
    scope: str = ""
    loop: Node | None = None
    is_proof: bool = False


class UndecidedError(ModelError):
    """A proof needs a value that it left out."""


class UnknownTripsError(ModelError):
    """How often a loop runs depends on data and is not given."""
