"""A decoder's key and value caches in the graph: where they come in, grow and go out.

A cache is an input of the network that an operator extends by new tokens and that the
network returns: Concat, an attention operator with past and present, or a scatter into a
buffer of fixed length. Names differ between exporters (``past_key_values.0.key``,
``k_cache``, ``cat_7``); this structure does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from mansard.estimator.model import Model, ModelNode, Subgraph, all_nodes
from mansard.estimator.numbers import ElementType
from mansard.estimator.tensors import Tensor

CACHE_NAME = re.compile(r"(^|[._/])(past|(kv_?)?cache)", re.IGNORECASE)
# Keys and values of another text or image, which no step of the decoder changes.
CROSS_NAME = re.compile(r"(?<![a-z])(encoder|cross(_?att(n|ention))?)(?![a-z])", re.IGNORECASE)

_MS = "com.microsoft"
# "concat": into a longer tensor. "attention": by the operator that reads it. "scatter": into a
# buffer, in place by definition. "overwrite": rows of a buffer, which the file copies.
Growth = Literal["concat", "attention", "scatter", "overwrite"]
InPlaceInputs = Mapping[int, frozenset[str]]  # names of inputs by the index of a node


class AttentionPlaces(msgspec.Struct, frozen=True):
    """The positions of an attention operator's caches, and of the inputs with their lengths.

    ``pairs``: (input, output) of keys and of values, whose tokens stand along ``axis``.
    ``lengths``: inputs that say how many keys there are, by what they count.
    """

    pairs: tuple[tuple[int, int], ...]
    axis: int
    lengths: Mapping[str, int] = {}


ATTENTION: Mapping[tuple[str, str], AttentionPlaces] = {
    ("", "Attention"): AttentionPlaces(((4, 1), (5, 2)), 2, {"total of each": 6}),
    (_MS, "Attention"): AttentionPlaces(((4, 1),), 3, {"past": 6}),
    (_MS, "DecoderMaskedMultiHeadAttention"): AttentionPlaces(((5, 1), (6, 2)), 2, {"past": 7}),
    (_MS, "DecoderMaskedSelfAttention"): AttentionPlaces(((4, 1),), 3, {"past": 6}),
    (_MS, "GroupQueryAttention"): AttentionPlaces(
        ((3, 1), (4, 2)), 2, {"last of each": 5, "total": 6}
    ),
    (_MS, "MultiHeadAttention"): AttentionPlaces(((6, 1), (7, 2)), 2, {"past": 8}),
    (_MS, "QAttention"): AttentionPlaces(((8, 1),), 3),
    (_MS, "SparseAttention"): AttentionPlaces(
        ((3, 1), (4, 2)), 2, {"total": 7, "total of each": 8}
    ),
    ("mansard", "LatentAttention"): AttentionPlaces(((2, 1),), 1),
}
_SCATTERS = frozenset({"Scatter", "ScatterElements", "ScatterND", "TensorScatter"})
_VIEWS = frozenset({"Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze"})
_MOVES = _VIEWS | {"Transpose"}
_CARRIERS = _MOVES | {"Add", "Cast", "Concat", "DequantizeLinear", "Expand", "Mul", "Neg", "Tile"}
_PRODUCTS = frozenset({"Attention", "Einsum", "FlexAttention", "FusedMatMul", "MatMul"})


class DecoderCache(msgspec.Struct, frozen=True):
    """Keys or values of earlier tokens: the input ``past`` goes out as ``present``.

    ``axis`` of ``past``: along which tokens stand; None where a Reshape hides it. ``index`` is
    that of the node that extends it, ``window`` the most rows that are returned. ``rows``: where
    the network returns new rows alone, and its caller appends them, what it calls these.
    """

    past: str
    present: str
    axis: int | None
    index: int
    growth: Growth
    window: int | None = None
    rows: str = ""


class Caches(msgspec.Struct, frozen=True):
    """All caches of a network.

    ``in_place``: inputs that a node's output already contains where caches grow in place, by the
    node's index; they are neither read nor written.
    """

    caches: tuple[DecoderCache, ...] = ()
    in_place: InPlaceInputs = {}

    def of(self, past: str) -> DecoderCache | None:
        return next((cache for cache in self.caches if cache.past == past), None)


NO_CACHES = Caches()


def find_caches(model: Model, constants: Mapping[str, Tensor]) -> Caches:
    """The caches that the graph extends and returns; ``constants``: tensors independent of data."""
    walk = _Walk(model, constants)
    walk.graph(model.nodes)
    outputs = {output.name for output in model.outputs}
    ends = {number: name for name in outputs for number in walk.grown.get(name, ())}
    rows = {
        number: name
        for name in outputs
        for number in walk.rows.get(walk.roots.get(name, name), ())
        if number not in ends
    }
    returned = [*ends, *rows]
    proven = {
        number
        for number in returned
        if walk.growths[number].growth == "attention"
        or number in walk.attended
        or CACHE_NAME.search(walk.growths[number].past)
    }
    caches = tuple(
        msgspec.structs.replace(
            walk.growths[number],
            present=ends.get(number, walk.growths[number].present),
            rows=rows.get(number, ""),
        )
        for number in sorted(proven)
    )
    in_place = {
        index: frozenset(names)
        for index, (names, numbers) in walk.in_place.items()
        if numbers <= proven
    }
    return Caches(caches, in_place)


class _Source(msgspec.Struct, frozen=True):
    """The input that a tensor shows, and the order of its axes; None: not known."""

    name: str
    axes: tuple[int | None, ...] | None


class _Walk:
    """One pass over the nodes: which tensors show an input, or a cache that has grown."""

    def __init__(self, model: Model, constants: Mapping[str, Tensor]) -> None:
        self._constants = constants
        self.sources = {
            source.name: _Source(source.name, tuple(range(len(source.dimensions or ()))))
            for source in model.inputs
            if source.dtype is not None
            and may_be_cache(source.dtype, len(source.dimensions or ()))
            and not CROSS_NAME.search(source.name)
        }
        self.growths: list[DecoderCache] = []
        self.grown: dict[str, tuple[int, ...]] = {}  # numbers of growths, by the tensor
        self.rows: dict[str, tuple[int, ...]] = {}  # growths, by the tensor of new rows
        self.roots: dict[str, str] = {}  # what a name shows, with other axes
        self.in_place: dict[int, tuple[set[str], set[int]]] = {}
        self.attended: set[int] = set()  # growths that a product of computed tensors reads
        self._carried: dict[str, set[int]] = {}

    def graph(self, nodes: Iterable[ModelNode]) -> None:
        for node in nodes:
            for inside in node.subgraphs:
                self._inside(node, inside)
            if (places := ATTENTION.get((node.domain, node.op_type))) is not None:
                self._attention(node, places)
            elif node.op_type == "Concat":
                self._concat(node)
            elif node.op_type in _SCATTERS:
                self._scatter(node)
            elif node.op_type in _MOVES:
                self._move(node)
            self._carry(node)

    def _inside(self, node: ModelNode, inside: Subgraph) -> None:
        if node.op_type != "If":
            return
        self.graph(inside.nodes)
        for name, output in zip(node.outputs, inside.outputs, strict=False):
            if output.name in self.grown and name not in self.grown:
                self.grown[name] = self.grown[output.name]

    def _attention(self, node: ModelNode, places: AttentionPlaces) -> None:
        for past, present in places.pairs:
            if past < len(node.inputs) and node.inputs[past] in self.sources:
                self._grow(node, past, present, places.axis, "attention")

    def _concat(self, node: ModelNode) -> None:
        from_input = [name for name in node.inputs if name in self.sources]
        if node.inputs and all(name in self.grown for name in node.inputs):
            # Keys and values in one tensor: both parts have grown in it.
            numbers = tuple(n for name in node.inputs for n in self.grown[name])
            self.grown[node.outputs[0]] = numbers
            self.in_place[node.index] = set(node.inputs), set(numbers)
        elif len(node.inputs) > 1 and len(from_input) == 1:
            axis = node.attributes.get("axis")
            if isinstance(axis, int):
                self._grow(node, node.inputs.index(from_input[0]), 0, axis, "concat")
                for name in set(node.inputs) - set(from_input):
                    root = self.roots.get(name, name)
                    self.rows[root] = (*self.rows.get(root, ()), len(self.growths) - 1)

    def _grow(
        self, node: ModelNode, past: int, present: int, axis: int | None, growth: Growth
    ) -> None:
        """Note that an operator extends its input ``past`` along ``axis``."""
        if present >= len(node.outputs) or not node.outputs[present]:
            return
        source, number = self.sources[node.inputs[past]], len(self.growths)
        if source.axes is None or axis is None or not -len(source.axes) <= axis < len(source.axes):
            cache_axis = None
        else:
            cache_axis = source.axes[axis]
        made = node.outputs[present]
        self.growths.append(DecoderCache(source.name, made, cache_axis, node.index, growth))
        self.grown[made] = (number,)
        self._carried[node.outputs[present]] = {number}
        names, numbers = self.in_place.setdefault(node.index, (set(), set()))
        names.add(node.inputs[past])
        numbers.add(number)

    def _scatter(self, node: ModelNode) -> None:
        if node.inputs and node.inputs[0] in self.sources:
            axis = node.attributes.get("axis", -2)  # that of a ScatterND is in its indices
            growth: Growth = "scatter" if node.op_type == "TensorScatter" else "overwrite"
            self._grow(node, 0, 0, axis if isinstance(axis, int) else None, growth)

    def _move(self, node: ModelNode) -> None:
        name = node.inputs[0] if node.inputs else ""
        self.roots.update((out, self.roots.get(name, name)) for out in node.outputs if out)
        source = self.sources.get(name)
        if source is not None:
            axes = self._moved_axes(node, source.axes)
            self.sources.update((out, _Source(source.name, axes)) for out in node.outputs if out)
        if name in self.grown and node.op_type != "Gather":
            numbers = self.grown[name]
            if node.op_type == "Slice":
                self._note_window(node, numbers)
                self.in_place[node.index] = {name}, set(numbers)
            self.grown.update((out, numbers) for out in node.outputs if out)

    def _note_window(self, node: ModelNode, numbers: tuple[int, ...]) -> None:
        """Note that only the last rows of a cache are returned: a sliding window."""
        starts = self._ints(node, 1, "starts")
        if starts is None or len(starts) != 1 or starts[0] >= 0:
            return
        for number in numbers:
            self.growths[number] = msgspec.structs.replace(self.growths[number], window=-starts[0])

    def _moved_axes(
        self, node: ModelNode, axes: tuple[int | None, ...] | None
    ) -> tuple[int | None, ...] | None:
        if axes is None or node.op_type in ("Identity", "Slice", "Split"):
            return axes
        if node.op_type == "Transpose":
            order = node.attributes.get("perm", tuple(reversed(range(len(axes)))))
            if not isinstance(order, tuple) or sorted(order) != [*range(len(axes))]:
                return None
            return tuple(axes[at] for at in order)
        named = self._ints(node, 1, "axes")
        if node.op_type == "Gather":  # one of keys and values that stand in one tensor
            axis = node.attributes.get("axis", 0)
            named = (axis,) if isinstance(axis, int) else None
        rank = len(axes) + (len(named or ()) if node.op_type == "Unsqueeze" else 0)
        if named is None or node.op_type == "Reshape" or not rank:
            return None
        at_axes, rest = {at % rank for at in named}, iter(axes)
        if node.op_type == "Unsqueeze":
            return tuple(None if at in at_axes else next(rest, None) for at in range(rank))
        return tuple(axis for at, axis in enumerate(axes) if at not in at_axes)

    def _ints(self, node: ModelNode, position: int, attribute: str) -> tuple[int, ...] | None:
        stated = node.attributes.get(attribute)
        if isinstance(stated, tuple):
            return tuple(at for at in stated if isinstance(at, int))
        held = self._constants.get(node.inputs[position] if position < len(node.inputs) else "")
        if held is None or held.value is None or held.dtype.is_float:
            return None
        return tuple(map(int, held.value.flat))

    def _carry(self, node: ModelNode) -> None:
        """Mark the growths that a product of two computed tensors reads: these are attended to."""
        carried: set[int] = set()
        for name in node.inputs:
            carried |= self._carried.get(name, set())
        if not carried:
            return
        if node.op_type in _PRODUCTS or (node.domain, node.op_type) in ATTENTION:
            if not any(name in self._constants for name in node.inputs[:2]):
                self.attended |= carried
        elif node.op_type in _CARRIERS:
            for name in filter(None, node.outputs):
                self._carried[name] = self._carried.get(name, set()) | carried


_INDEXES = frozenset({"bool", "int16", "int32", "int64", "string", "uint16", "uint32", "uint64"})


def may_be_cache(dtype: ElementType, rank: int) -> bool:
    """Whether a tensor of this type and rank could be keys or values."""
    return rank >= 3 and dtype.name not in _INDEXES


def is_buffer(model: Model, cache: DecoderCache) -> bool:
    """Whether a cache has a fixed length: its output is as long as its input."""
    node = node_of(model, cache)
    if cache.growth in ("scatter", "overwrite") or node.op_type == "SparseAttention":
        return True
    if node.op_type == "GroupQueryAttention":
        return is_ring(node) or _keeps_length(model, cache)
    if node.op_type == "MultiHeadAttention":
        return len(node.inputs) > 8 and bool(node.inputs[8])
    return bool(node.attributes.get("past_present_share_buffer"))


def node_of(model: Model, cache: DecoderCache) -> ModelNode:
    """The node that extends a cache."""
    return next(node for node in all_nodes(model.nodes) if node.index == cache.index)


def is_ring(node: ModelNode) -> bool:
    """Whether an attention's cache holds only the window."""
    return bool(node.attributes.get("sliding_window_cache"))


def _keeps_length(model: Model, cache: DecoderCache) -> bool:
    """Whether a GroupQueryAttention's cache has a fixed length, or one name at both ends."""
    before = next((s.dimensions for s in model.inputs if s.name == cache.past), None) or ()
    after = next((o.dimensions for o in model.outputs if o.name == cache.present), None) or ()
    if cache.axis is None or cache.axis >= len(before):
        return False
    length = before[cache.axis]
    stated = after[cache.axis] if len(after) == len(before) else None
    is_same = stated is not None and stated == length
    return is_same or (isinstance(length, int) and not isinstance(stated, int))


_SAME_NUMBER = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def same_numbers(model: Model) -> dict[str, str]:
    """The name of the input whose numbers a tensor holds, by the tensor's name."""
    shown = {source.name: source.name for source in model.inputs}
    for node in model.nodes:
        if node.op_type in _SAME_NUMBER and node.inputs and node.inputs[0] in shown:
            shown.update((out, shown[node.inputs[0]]) for out in node.outputs[:1])
    return shown
