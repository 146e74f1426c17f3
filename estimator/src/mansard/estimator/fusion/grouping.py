"""Which nodes of a graph become one kernel: one pass over them in the order they run.

A node joins the group that feeds it where that group's one result has no other reader.
So every group has one result, stands where its last node stands, and can never wait
for itself. Forks are joined as a whole (``regions``).
"""

from __future__ import annotations

from collections.abc import Iterable

from mansard.estimator.fusion.attention import close_attention
from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.regions import closing_region
from mansard.estimator.fusion.wiring import Storage, Wiring

_MAPS = (Kind.POINTWISE, Kind.MOVE)
_MOVING = (Role.MOVE, Role.JOIN)
_FORKING = (Kind.POINTWISE, Kind.MOVE, Kind.ROW, Kind.PRODUCT, Kind.ATTENTION)


def group_nodes(wiring: Wiring) -> Drafts:
    """The groups of all live nodes."""
    drafts = Drafts(wiring)
    for place, role in enumerate(wiring.roles):
        planned = drafts.planned.pop(place, None)
        if planned is not None:
            draft = drafts.current(planned)
        elif role is Role.POINTWISE:
            draft = _pointwise_group(place, drafts)
        elif role is Role.MOVE:
            draft = _move_group(place, drafts)
        elif role is Role.ROW:
            draft = _row_group(place, drafts)
        elif role is Role.PRODUCT:
            draft = _product_group(place, drafts)
        else:
            draft = Draft(Kind.CLOSED)
        if role is Role.POINTWISE or planned is not None:
            draft = _absorb_maps(place, draft, drafts)
        if role is Role.ROW:
            draft.kind = max(draft.kind, Kind.ROW)
        elif planned is not None and role in _MOVING:
            draft.kind = max(draft.kind, Kind.MOVE)
        drafts.add(place, draft)
        if draft.result is not None and len(draft.result.readers) > 1:
            _plan_fork(draft.result, draft, drafts)
    return drafts


def _feeding(place: int, drafts: Drafts) -> Iterable[tuple[Storage, Draft]]:
    for part in drafts.wiring.reads[place]:
        draft = drafts.feeding(part.storage)
        if draft is not None and draft.kind is not Kind.CLOSED:
            yield part.storage, draft


def _pointwise_group(place: int, drafts: Drafts) -> Draft:
    """The latest group that can go on with this node; a product or row before a map."""
    found: Draft | None = None
    for storage, draft in _feeding(place, drafts):
        if not _can_go_on(place, storage, draft, drafts):
            continue
        if found is None or _rank(draft) > _rank(found):
            found = draft
    return found if found is not None else Draft(Kind.POINTWISE)


def _rank(draft: Draft) -> tuple[bool, int]:
    return draft.kind > Kind.MOVE, draft.places[-1]


def _can_go_on(place: int, storage: Storage, draft: Draft, drafts: Drafts) -> bool:
    """Whether the kernel that makes ``storage`` can apply this node to it."""
    if draft.kind <= Kind.MOVE:
        return True
    wiring = drafts.wiring
    writes = wiring.writes[place]
    n_written = writes[0].storage.n_elements if len(writes) == 1 else -1
    if n_written == storage.n_elements:
        return True
    # A row's sum may meet the row that it was made of.
    if draft.kind is not Kind.ROW or n_written > draft.span:
        return False
    return any(
        part in draft.parts and part.storage.n_elements == n_written for part in wiring.reads[place]
    )


def _absorb_maps(place: int, draft: Draft, drafts: Drafts) -> Draft:
    """Take in what only this node reads, where it is computed element by element."""
    allowed = _MAPS[: 1 if draft.kind >= Kind.PRODUCT else 2]
    for _, other in _feeding(place, drafts):
        if other is not draft and other.kind in allowed:
            draft = drafts.merge(draft, other)
    return draft


def _move_group(place: int, drafts: Drafts) -> Draft:
    """Moves follow maps; a permutation is how a row or attention writes its result."""
    is_permuting = drafts.wiring.nodes[place].op_type == "Transpose"
    for _, draft in _feeding(place, drafts):
        if draft.kind <= Kind.MOVE:
            draft.kind = Kind.MOVE
            return draft
        if is_permuting and draft.kind in (Kind.ROW, Kind.ATTENTION):
            return draft
    return Draft(Kind.MOVE)


def _row_group(place: int, drafts: Drafts) -> Draft:
    draft = Draft(Kind.ROW)
    for _, other in _feeding(place, drafts):
        if other.kind in _MAPS:
            draft = drafts.merge(draft, other)
    return draft


def _product_group(place: int, drafts: Drafts) -> Draft:
    """A product reads its operands permuted, broadcast or padded; or it closes an attention."""
    attention = close_attention(place, drafts)
    if attention is not None:
        return attention
    draft = Draft(Kind.PRODUCT)
    wiring = drafts.wiring
    node = wiring.nodes[place]
    names = {tensor.name for tensor in node.present}
    taken = ("Pad",) if "Conv" in node.op_type else ("Transpose", "Expand")
    for _, other in _feeding(place, drafts):
        if other.kind is not Kind.MOVE or len(other.places) != 1:
            continue
        maker = wiring.nodes[other.places[0]]
        if maker.op_type in taken and maker.outputs[0].name in names:
            draft = drafts.merge(draft, other)
    draft.kind = Kind.PRODUCT
    return draft


def _plan_fork(start: Storage, draft: Draft, drafts: Drafts) -> None:
    """If all that reads ``start`` meets again, let all of it join ``draft``."""
    if draft.kind not in _FORKING or start.is_output:
        return
    planned = drafts.planned
    if all(place in planned for place in start.readers):
        return
    wiring = drafts.wiring
    roles, writes = wiring.roles, wiring.writes
    is_strict = draft.kind >= Kind.PRODUCT
    size = start.n_elements

    def is_fusible(place: int) -> bool:
        if place in planned or len(writes[place]) != 1:
            return False
        n_elements, role = writes[place][0].storage.n_elements, roles[place]
        if is_strict:
            return role is Role.POINTWISE and n_elements == size
        return n_elements <= size and (role <= Role.ROW or role is Role.JOIN)

    region = closing_region(start, wiring, is_fusible)
    if region is None:
        return
    planned.update(dict.fromkeys(region, draft))
    if any(roles[place] is Role.ROW for place in region):
        draft.kind = max(draft.kind, Kind.ROW)

