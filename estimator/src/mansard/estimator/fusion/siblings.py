"""Products of one tensor with several weights, done as one wider product.

TensorRT merges the query, key and value projections of attention, and convolutions of
equal geometry and activation (the 1×1 branches of an inception block).
"""

from __future__ import annotations

from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.storage import Part
from mansard.estimator.tensors import Node

_GEOMETRY = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


def merge_siblings(drafts: Drafts) -> None:
    """Merge them; the whole runs when the first of them did, as all needs only one tensor."""
    wiring = drafts.wiring
    first: dict[tuple[object, ...], Draft] = {}
    for place, role in enumerate(wiring.roles):
        if role is not Role.PRODUCT:
            continue
        reads = wiring.reads[place]
        if len(reads) != 1 or len(reads[0].storage.readers) < 2:
            continue
        draft = drafts.of_place[place]
        if draft.merged_into is not None or draft.kind is not Kind.PRODUCT:
            continue
        geometry = _geometry(wiring.nodes[place])
        if geometry is None or not _reads_only(draft, reads[0], drafts):
            continue
        operators = tuple(wiring.nodes[member].op_type for member in draft.places)
        key = (id(reads[0]), operators, *geometry)
        earlier = first.setdefault(key, draft)
        if earlier is not draft:
            when = min(earlier.place, draft.place)
            first[key] = merged = drafts.merge(earlier, draft)
            merged.place, merged.result = when, None


def _reads_only(draft: Draft, source: Part, drafts: Drafts) -> bool:
    return all(part is source or drafts.maker_of(part.storage) is draft for part in draft.parts)


def _geometry(node: Node) -> tuple[object, ...] | None:
    """What has to be equal; None where products of this kind are not merged."""
    weights = node.optional(1)
    if weights is None or weights.rank < 2:
        return None
    if node.op_type == "Conv" and node.integer("group", 1) == 1:
        return weights.shape[1:], *(repr(node.attributes.get(name)) for name in _GEOMETRY)
    if node.op_type == "MatMul":
        return weights.shape[:-1]
    if node.op_type == "Gemm" and not node.integer("transA", 0):
        return (weights.shape[1 if node.integer("transB", 0) else 0],)
    return None
