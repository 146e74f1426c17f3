"""Attention: scores, softmax and weighted sum in one kernel that keeps the scores on chip."""

from __future__ import annotations

from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.storage import Storage

_MATRIX_PRODUCTS = frozenset({"Einsum", "FusedMatMul", "MatMul", "TransposeMatMul"})
_MAX_OPERANDS = 16  # permutations, scales and copies of an attention's inputs


def close_attention(place: int, drafts: Drafts) -> Draft | None:
    """The group of scores, softmax and the product at ``place``, if that is what they are.

    Both products have to be of two computed tensors. Permutations, scales and copies
    that only these products read are part of it.
    """
    wiring = drafts.wiring
    reads = wiring.reads[place]
    if len(reads) != 2 or wiring.nodes[place].op_type not in _MATRIX_PRODUCTS:
        return None
    for part in reads:
        softmax = drafts.feeding(part.storage)
        if softmax is None or softmax.kind is not Kind.ROW or not softmax.has_softmax:
            continue
        scores = _scores_of(softmax, part.storage, drafts)
        if scores is not None:
            whole = drafts.merge(softmax, scores)
            whole.parts.update(reads)
            whole.kind = Kind.ATTENTION
            return _with_operands(whole, place, drafts)
    return None


def _scores_of(softmax: Draft, weights: Storage, drafts: Drafts) -> Draft | None:
    wiring, inside = drafts.wiring, set(softmax.places)
    for part in softmax.parts:
        storage = part.storage
        if storage.is_kept or storage.n_elements != weights.n_elements:
            continue
        maker = drafts.maker_of(storage)
        if maker is None or maker.kind is not Kind.PRODUCT or maker.result is not storage:
            continue
        product = maker.products[0]
        is_computed = len(wiring.reads[product]) == 2 and not wiring.weights[product]
        if is_computed and inside.issuperset(storage.readers):
            return maker
    return None


def _with_operands(whole: Draft, place: int, drafts: Drafts) -> Draft:
    """Take in the maps whose results nothing but this group reads."""
    for _ in range(_MAX_OPERANDS):
        inside = {place, *whole.places}
        makers = (_operand(part.storage, whole, inside, drafts) for part in whole.parts)
        found = next((maker for maker in makers if maker is not None), None)
        if found is None:
            break
        whole = drafts.merge(whole, found)
    return whole


def _operand(storage: Storage, whole: Draft, inside: set[int], drafts: Drafts) -> Draft | None:
    maker = drafts.maker_of(storage)
    if maker is None or maker is whole or maker.kind > Kind.MOVE or storage.is_kept:
        return None
    is_ours = maker.result is storage and inside.issuperset(storage.readers)
    return maker if is_ours else None
