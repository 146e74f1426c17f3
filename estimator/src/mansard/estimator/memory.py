"""Memory: the most that activations take at once, and a decoder's keys and values.

Nodes run in the file's order, one at a time. A tensor is there from the node that makes
it to its last reader; what the network is given and what it returns, for the whole
inference. A view is its source's memory. Constants and weights come on top.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Formula
from mansard.estimator.fusion.operators import Role, find_role
from mansard.estimator.tensors import Node, Origin, Tensor

Formulas = Mapping[tuple[str, str], "Formula | None"]

# How exporters call the keys and values of earlier tokens: Hugging Face Optimum
# (past_key_values.0.key, present.0.key), ONNX Runtime GenAI (past_0, present_0),
# PyTorch's exporters (past_key_value, cache_k, kv_cache).
_PAST = re.compile(r"(^|[._/])(past|(kv_?)?cache)", re.IGNORECASE)
_PRESENT = re.compile(r"(^|[._/])(present|(updated|new)_?(kv_?)?cache|(kv_?)?cache)", re.IGNORECASE)

# Operators that keep keys and values themselves: their outputs that hold them.
_KEEPING = {
    ("", "Attention"): (1, 2),
    ("com.microsoft", "GroupQueryAttention"): (1, 2),
    ("com.microsoft", "MultiHeadAttention"): (1, 2),
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): (1, 2),
    ("com.microsoft", "Attention"): (1,),
    ("com.microsoft", "DecoderMaskedSelfAttention"): (1,),
}


class Memory(msgspec.Struct, frozen=True):
    """Bytes, or None with the reason in ``unknown``.

    ``peak_activation_bytes``: every output has memory of its own. ``in_place_peak_bytes``:
    an operator that works element by element takes over an input of the same size that
    nothing reads after it. ``kv_cache_bytes``: keys and values that are there for the
    next token; 0 for a network without such.
    """

    peak_activation_bytes: int | None
    in_place_peak_bytes: int | None
    kv_cache_bytes: int | None
    unknown: str | None = None


def memory_of(
    nodes: Sequence[Node],
    inputs: Iterable[Tensor],
    outputs: Collection[str],
    formulas: Formulas,
    precision: Precision | None,
) -> Memory:
    """The memory of one inference. ``outputs`` are the names of the graph's outputs."""
    given = tuple(inputs)
    reason = _unknown(nodes, given)
    if reason is not None:
        return Memory(None, None, None, reason)
    held = sum(tensor.n_bytes(precision) for tensor in given)
    peak, shared_peak = _peaks(nodes, outputs, formulas, precision)
    kept = kv_cache_bytes(nodes, given, outputs, precision)
    return Memory(held + peak, held + shared_peak, kept)


def kv_cache_bytes(
    nodes: Iterable[Node],
    inputs: Iterable[Tensor],
    outputs: Collection[str],
    precision: Precision | None,
) -> int:
    """Keys and values that the network returns for its next token.

    They are outputs called ``present…`` or ``…cache`` where there are inputs called
    ``past…`` or ``…cache``, and those of attention operators that keep them.
    """
    has_past = any(_PAST.search(tensor.name) for tensor in inputs)
    found: dict[str, int] = {}
    for node in nodes:
        kept = _KEEPING.get((node.domain, node.op_type), ())
        for position, output in enumerate(node.outputs):
            is_named = has_past and output.name in outputs and _PRESENT.search(output.name)
            if output.name and (is_named or position in kept):
                found[output.name] = output.n_bytes(precision)
    return sum(found.values())


class _Block:
    """The memory of one tensor and of its views; ``last`` is the place of its last reader."""

    __slots__ = ("last", "n_bytes")

    def __init__(self, n_bytes: int, last: int) -> None:
        self.n_bytes, self.last = n_bytes, last


_Blocks = tuple[_Block, ...]  # several for a sequence


class _Plan(msgspec.Struct):
    """The blocks of one graph: those that each place makes and those that it reads last."""

    made: list[list[_Block]]
    names: dict[str, _Blocks]


def _unknown(nodes: Iterable[Node], given: Iterable[Tensor]) -> str | None:
    for tensor in given:
        if tensor.unknown:
            return tensor.unknown
    for node in nodes:
        for tensor in node.outputs:
            if tensor.unknown:
                return tensor.unknown
        for body in node.bodies:
            for each in body.passes:
                reason = _unknown(each.nodes, ())
                if reason is not None:
                    return reason
    return None


def _peaks(
    nodes: Sequence[Node],
    outputs: Collection[str],
    formulas: Formulas,
    precision: Precision | None,
) -> tuple[int, int]:
    """The most that one graph's own tensors take, without and with reuse in place."""
    plan = _plan(nodes, outputs, formulas, precision)
    dying: list[list[_Block]] = [[] for _ in range(len(nodes) + 1)]
    live = shared = peak = shared_peak = 0
    taken: set[_Block] = set()
    for place, (node, made) in enumerate(zip(nodes, plan.made, strict=True)):
        inner, inner_shared = _inner_peaks(node, formulas, precision)
        if node.op_type == "If":
            # A branch's results become the node's.
            peak, shared_peak = max(peak, live + inner), max(shared_peak, shared + inner_shared)
            inner = inner_shared = 0
        heir = _takes_over(node, made, dying[place], formulas)
        for block in made:
            live += block.n_bytes
            shared += block.n_bytes
            dying[block.last].append(block)
        if heir is not None:
            taken.add(heir)
            shared -= heir.n_bytes
        peak, shared_peak = max(peak, live + inner), max(shared_peak, shared + inner_shared)
        for block in dying[place]:
            live -= block.n_bytes
            if block not in taken:
                shared -= block.n_bytes
    return peak, shared_peak


def _takes_over(
    node: Node, made: list[_Block], dying: list[_Block], formulas: Formulas
) -> _Block | None:
    """The input that the node's one output can overwrite."""
    if len(made) != 1 or not dying:
        return None
    if find_role(node, formulas[node.domain, node.op_type]) is not Role.POINTWISE:
        return None
    return next((block for block in dying if block.n_bytes == made[0].n_bytes), None)


def _inner_peaks(node: Node, formulas: Formulas, precision: Precision | None) -> tuple[int, int]:
    found = [
        _peaks(each.nodes, body.outputs, formulas, precision)
        for body in node.bodies
        if body.is_taken
        for each in body.passes
    ]
    return max((one for one, _ in found), default=0), max((two for _, two in found), default=0)


def _plan(
    nodes: Sequence[Node],
    outputs: Collection[str],
    formulas: Formulas,
    precision: Precision | None,
) -> _Plan:
    """Who makes which block, and who reads it last; names from outside are no blocks."""
    plan = _Plan([], {})
    names = plan.names
    for place, node in enumerate(nodes):
        made: list[_Block] = []
        plan.made.append(made)
        found: dict[_Block, None] = {}
        for name in _read_names(node):
            for block in names.get(name, ()):
                found[block] = None
                block.last = place
        formula = formulas[node.domain, node.op_type]
        is_view = formula is not None and formula.is_view and not node.bodies
        for output in node.outputs:
            if not output.name or output.origin is not Origin.DATA:
                continue
            if is_view:
                names[output.name] = tuple(found)
            else:
                block = _Block(output.n_bytes(precision), place)
                names[output.name] = (block,)
                made.append(block)
    for name in outputs:
        for block in names.get(name, ()):
            block.last = len(nodes)
    return plan


def _read_names(node: Node) -> Iterator[str]:
    for tensor in node.present:
        yield tensor.name
    for body in node.bodies:
        yield from body.outputs
        for each in body.passes:
            for inner in each.nodes:
                yield from _read_names(inner)
