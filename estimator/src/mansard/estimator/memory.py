"""Memory: the most that activations take at once, and a decoder's keys and values.

Nodes run one at a time. A tensor exists from the node that makes it to its last
reader; what the network is given and what it returns, for the whole inference. A view
is its source's memory, and so are a Split, a Slice without steps and a dequantised
tensor. Constants and weights come on top.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.fusion import BodyGroups, Fusion
from mansard.estimator.fusion.roles import Role
from mansard.estimator.fusion.storage import Storage
from mansard.estimator.tensors import Node, Tensor

# How exporters call the keys and values of earlier tokens: Hugging Face Optimum
# (past_key_values.0.key, present.0.key), ONNX Runtime GenAI (past_0, present_0),
# PyTorch's exporters (past_key_value, cache_k, kv_cache).
_PAST = re.compile(r"(^|[._/])(past|(kv_?)?cache)", re.IGNORECASE)
_PRESENT = re.compile(r"(^|[._/])(present|(updated|new)_?(kv_?)?cache|(kv_?)?cache)", re.IGNORECASE)

# Operators that keep keys and values themselves: treused outputs that hold them.
_KEEPING = {
    ("", "Attention"): (1, 2),
    ("com.microsoft", "Attention"): (1,),
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): (1, 2),
    ("com.microsoft", "DecoderMaskedSelfAttention"): (1,),
    ("com.microsoft", "GroupQueryAttention"): (1, 2),
    ("com.microsoft", "MultiHeadAttention"): (1, 2),
}


class Memory(msgspec.Struct, frozen=True):
    """Bytes, or None with the reason in ``unknown``.

    ``peak_activation_bytes``: every operator writes an output of its own.
    ``in_place_peak_bytes``: one that works element by element takes over an input of
    the same size that nothing reads after it. ``fused_peak_bytes``: only what fused
    groups of operators read and write exists. ``kv_cache_bytes``: keys and values
    for the next token; 0 for a network without such.
    """

    peak_activation_bytes: int | None
    in_place_peak_bytes: int | None
    fused_peak_bytes: int | None
    kv_cache_bytes: int | None
    unknown: str | None = None


def memory_of(
    nodes: Sequence[Node],
    inputs: Iterable[Tensor],
    outputs: Collection[str],
    fusion: Fusion,
    precision: Precision | None,
) -> Memory:
    """The memory of one inference; ``fusion`` is that of ``nodes`` and ``outputs``."""
    given = tuple(inputs)
    reason = _unknown(nodes, given) if _may_be_unknown(fusion, given) else None
    if reason is not None:
        return Memory(None, None, None, None, reason)
    held = sum(tensor.n_bytes(precision) for tensor in given)
    peak, shared = _peaks(fusion)
    kept = kv_cache_bytes(nodes, given, outputs, precision)
    return Memory(held + peak, held + shared, held + _fused_peak(fusion), kept)


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
        if not has_past and "Attention" not in node.op_type:
            continue
        kept = _KEEPING.get((node.domain, node.op_type), ())
        for position, output in enumerate(node.outputs):
            is_named = has_past and output.name in outputs and _PRESENT.search(output.name)
            if output.name and (is_named or position in kept):
                found[output.name] = output.n_bytes(precision)
    return sum(found.values())


def _may_be_unknown(fusion: Fusion, given: Iterable[Tensor]) -> bool:
    return any(tensor.unknown for tensor in given) or _is_partly_unknown(fusion)


def _is_partly_unknown(fusion: Fusion) -> bool:
    if fusion.wiring.unknown:
        return True
    passes = (each for group in fusion.groups for body in group.bodies for each in body.passes)
    return any(_is_partly_unknown(each.fusion) for each in passes)


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


def _peaks(fusion: Fusion) -> tuple[int, int]:
    """The most that one graph's own tensors take, without and with reuse in place."""
    wiring = fusion.wiring
    n_nodes = len(wiring.nodes)
    inside = {group.indexes[0]: group.bodies for group in fusion.groups if group.bodies}
    dying: list[list[Storage]] = [[] for _ in range(n_nodes + 1)]
    live = shared = peak = shared_peak = 0
    taken: set[Storage] = set()
    for i, node in enumerate(wiring.nodes):
        inner = inner_shared = 0
        if inside:
            inner, inner_shared = _inner_peaks(inside.get(node.index, ()))
            if node.op_type == "If":
                # A branch's results become the node's.
                peak = max(peak, live + inner)
                shared_peak = max(shared_peak, shared + inner_shared)
                inner = inner_shared = 0
        gone = dying[i]
        if gone and wiring.roles[i] is Role.POINTWISE:
            reused = _overwritten(gone, [part.storage for part in wiring.writes[i]])
            if reused is not None:
                taken.add(reused)
                shared -= reused.n_bytes or 0
        for part in wiring.writes[i]:
            storage = part.storage
            live += storage.n_bytes or 0
            shared += storage.n_bytes or 0
            last = storage.readers[-1] if storage.readers else i
            dying[n_nodes if storage.is_output else last].append(storage)
        peak = max(peak, live + inner)
        shared_peak = max(shared_peak, shared + inner_shared)
        for storage in gone:
            live -= storage.n_bytes or 0
            if storage not in taken:
                shared -= storage.n_bytes or 0
    return peak, shared_peak


def _overwritten(dying: list[Storage], made: list[Storage]) -> Storage | None:
    """The input that the node's one output can overwrite."""
    if len(made) != 1:
        return None
    return next((storage for storage in dying if storage.n_bytes == made[0].n_bytes), None)


def _inner_peaks(bodies: Iterable[BodyGroups]) -> tuple[int, int]:
    found = [_peaks(each.fusion) for body in bodies if body.is_taken for each in body.passes]
    return max((one for one, _ in found), default=0), max((two for _, two in found), default=0)


def _fused_peak(fusion: Fusion) -> int:
    """As ``_peaks``, of what groups write."""
    born: dict[Storage, int] = {}
    last: dict[Storage, int] = {}
    for step, group in enumerate(fusion.groups):
        for storage, _ in group.writes:
            born.setdefault(storage, step)
            last[storage] = step
        for storage, _ in group.reads:
            last[storage] = step
    ends: list[int] = [0] * (len(fusion.groups) + 1)
    begins: list[int] = [0] * len(fusion.groups)
    for storage, step in born.items():
        size = storage.n_bytes or 0
        begins[step] += size
        if not storage.is_output:
            ends[last[storage] + 1] += size
    live = peak = 0
    for step, group in enumerate(fusion.groups):
        live += begins[step] - ends[step]
        passes = [each for body in group.bodies if body.is_taken for each in body.passes]
        inner = max((_fused_peak(each.fusion) for each in passes), default=0)
        peak = max(peak, live + inner)
    return peak
