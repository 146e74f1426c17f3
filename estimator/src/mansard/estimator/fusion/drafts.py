"""Groups while they grow, and the merges that need more than one node: attention, siblings."""

from __future__ import annotations

from mansard.estimator.fusion.roles import Role
from mansard.estimator.fusion.storage import Draft, Kind, Part, Storage
from mansard.estimator.fusion.wiring import Wiring
from mansard.estimator.tensors import Node

_SOFTMAX = frozenset({"BiasSoftmax", "QLinearSoftmax", "Softmax"})


def last_of(draft: Draft) -> Draft:
    """The group that ``draft`` was merged into."""
    while draft.merged_into is not None:
        draft = draft.merged_into
    return draft


class Drafts:
    """The groups of one graph so far, by the position of each node that has one."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.draft_of: list[Draft] = []
        self.planned: dict[int, Draft] = {}
        self._is_inner = wiring.outer is not None

    def maker_of(self, storage: Storage) -> Draft | None:
        """The group that writes ``storage``; None where it comes from outside this graph."""
        draft = storage.maker
        if draft is None or (self._is_inner and not self.wiring.owns(storage)):
            return None
        while draft.merged_into is not None:
            draft = draft.merged_into
        return draft

    def feeding(self, storage: Storage) -> Draft | None:
        """The group whose one result is ``storage``, if nothing but one node reads that."""
        if storage.maker is None or storage.is_kept or len(storage.readers) != 1:
            return None
        draft = self.maker_of(storage)
        return draft if draft is not None and draft.result is storage else None

    def merge(self, one: Draft, other: Draft) -> Draft:
        """Make two groups one; the smaller is moved, so that the sum of moves stays small."""
        if one is other:
            return one
        larger, smaller = (
            (one, other) if len(one.positions) >= len(other.positions) else (other, one)
        )
        larger.positions += smaller.positions
        larger.products += smaller.products
        larger.parts |= smaller.parts
        larger.kind = max(one.kind, other.kind)
        larger.span = max(one.span, other.span)
        larger.has_softmax = one.has_softmax or other.has_softmax
        smaller.merged_into = larger
        return larger

    def add(self, position: int, draft: Draft) -> None:
        """The node at ``position``, the last one so far, belongs to ``draft``."""
        wiring = self.wiring
        self.draft_of.append(draft)
        draft.positions.append(position)
        draft.position = position
        reads, writes, role = (
            wiring.reads[position],
            wiring.writes[position],
            wiring.roles[position],
        )
        draft.parts.update(reads)
        for part in writes:
            part.storage.maker = draft
        draft.result = writes[0].storage if len(writes) == 1 else None
        if role is Role.PRODUCT:
            draft.products.append(position)
        elif role is Role.ROW:
            draft.span = max(draft.span, reads[0].storage.n_elements if reads else 0)
            draft.has_softmax |= wiring.nodes[position].op_type in _SOFTMAX
        elif draft.kind is Kind.ROW and wiring.nodes[position].op_type == "Exp":
            draft.has_softmax = True

    def settle(self) -> list[Draft]:
        """All groups in the order they run; from now on nothing is merged."""
        self.draft_of = [last_of(draft) for draft in self.draft_of]
        for draft, writes in zip(self.draft_of, self.wiring.writes, strict=True):
            for part in writes:
                part.storage.maker = draft
        return sorted(dict.fromkeys(self.draft_of), key=lambda draft: draft.position)


# Attention: scores, softmax and weighted sum in one kernel that keeps the scores on chip.


_MATRIX_PRODUCTS = frozenset({"Einsum", "FusedMatMul", "MatMul", "TransposeMatMul"})
_MAX_OPERANDS = 16  # permutations, scales and copies of an attention's inputs


def close_attention(position: int, drafts: Drafts) -> Draft | None:
    """The group of scores, softmax and the product at ``position``, if that is what they are.

    Both products have to be of two computed tensors. Permutations, scales and copies
    that only these products read are part of it.
    """
    wiring = drafts.wiring
    reads = wiring.reads[position]
    if len(reads) != 2 or wiring.nodes[position].op_type not in _MATRIX_PRODUCTS:
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
            return _with_operands(whole, position, drafts)
    return None


# One operator that is an attention by itself, with its products and its softmax.
_WHOLE = frozenset({("", "Attention"), ("com.microsoft", "MultiHeadAttention")})


def attention_of(position: int, drafts: Drafts) -> Draft | None:
    """The group of an attention operator at ``position``, with the maps of its operands."""
    node = drafts.wiring.nodes[position]
    if (node.domain, node.op_type) not in _WHOLE:
        return None
    return _with_operands(
        Draft(Kind.ATTENTION, parts=set(drafts.wiring.reads[position])), position, drafts
    )


def _scores_of(softmax: Draft, weights: Storage, drafts: Drafts) -> Draft | None:
    wiring, inside = drafts.wiring, set(softmax.positions)
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


def _with_operands(whole: Draft, position: int, drafts: Drafts) -> Draft:
    """Take in the maps whose results nothing but this group reads."""
    for _ in range(_MAX_OPERANDS):
        inside = {position, *whole.positions}
        makers = (_operand(part.storage, whole, inside, drafts) for part in whole.parts)
        operand = next((maker for maker in makers if maker is not None), None)
        if operand is None:
            break
        whole = drafts.merge(whole, operand)
    return whole


def _operand(storage: Storage, whole: Draft, inside: set[int], drafts: Drafts) -> Draft | None:
    maker = drafts.maker_of(storage)
    if maker is None or maker is whole or maker.kind > Kind.MOVE or storage.is_kept:
        return None
    is_ours = maker.result is storage and inside.issuperset(storage.readers)
    return maker if is_ours else None


# Products of one tensor with several weights, done as one wider product.
#
# TensorRT merges the query, key and value projections of attention, and convolutions of
# equal geometry and activation (the 1×1 branches of an inception block).


_GEOMETRY = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


def merge_siblings(drafts: Drafts) -> None:
    """Merge products that read only the same tensor; they run with the first of them."""
    wiring = drafts.wiring
    first: dict[tuple[object, ...], Draft] = {}
    for position, role in enumerate(wiring.roles):
        if role is not Role.PRODUCT:
            continue
        reads = wiring.reads[position]
        if len(reads) != 1 or len(reads[0].storage.readers) < 2:
            continue
        draft = drafts.draft_of[position]
        if draft.merged_into is not None or draft.kind is not Kind.PRODUCT:
            continue
        geometry = _geometry(wiring.nodes[position])
        if geometry is None or not _reads_only(draft, reads[0], drafts):
            continue
        operators = tuple(wiring.nodes[member].op_type for member in draft.positions)
        key = (id(reads[0]), operators, *geometry)
        earlier = first.setdefault(key, draft)
        if earlier is not draft:
            when = min(earlier.position, draft.position)
            first[key] = merged = drafts.merge(earlier, draft)
            merged.position, merged.result = when, None


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
