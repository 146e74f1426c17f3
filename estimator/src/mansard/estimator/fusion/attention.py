"""Attention: scores, softmax and weighted sum in one kernel that keeps the scores on chip."""

from __future__ import annotations

from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.wiring import Storage

_MAX_STEPS = 16


def close_attention(place: int, drafts: Drafts) -> Draft | None:
    """The group of scores, softmax and the product at ``place``, if that is what they are.

    Both products have to be of two computed tensors. Permutations, scales and copies
    that only these products read are part of it.
    """
    wiring = drafts.wiring
    reads = wiring.reads[place]
    if len(reads) != 2 or wiring.nodes[place].op_type != "MatMul":
        return None
    softmax = drafts.feeding(reads[0].storage)
    if softmax is None or softmax.kind is not Kind.ROW or not softmax.has_softmax:
        return None
    scores = _scores_of(softmax, reads[0].storage, drafts)
    if scores is None:
        return None
    whole = drafts.merge(softmax, scores)
    whole.parts.update(reads)
    whole.kind = Kind.ATTENTION
    return _with_operands(whole, place, drafts)


def _scores_of(softmax: Draft, weights: Storage, drafts: Drafts) -> Draft | None:
    wiring, inside = drafts.wiring, set(softmax.places)
    for part in softmax.parts:
        storage = part.storage
        if storage.is_output or storage.n_elements != weights.n_elements:
            continue
        maker = drafts.maker_of(storage)
        if maker is None or maker.kind is not Kind.PRODUCT or maker.result is not storage:
            continue
        products = [place for place in maker.places if wiring.roles[place] is Role.PRODUCT]
        is_computed = len(wiring.reads[products[0]]) == 2 and not wiring.weights[products[0]]
        if is_computed and inside.issuperset(storage.readers):
            return maker
    return None


def _with_operands(whole: Draft, place: int, drafts: Drafts) -> Draft:
    """Take in the maps whose results nothing but this group reads."""
    for _ in range(_MAX_STEPS):
        inside = {place, *whole.places}
        found = next(
            (maker for part in whole.parts if (maker := _operand(part.storage, inside, drafts))),
            None,
        )
        if found is None:
            break
        whole = drafts.merge(whole, found)
    return whole


def _operand(storage: Storage, inside: set[int], drafts: Drafts) -> Draft | None:
    if storage.is_output or storage.maker in inside:
        return None
    maker = drafts.maker_of(storage)
    if maker is None or maker.kind > Kind.MOVE or maker.result is not storage:
        return None
    return maker if inside.issuperset(storage.readers) else None
