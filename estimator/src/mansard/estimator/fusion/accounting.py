"""What each group reads and writes: what comes from outside it, and what leaves it."""

from __future__ import annotations

from collections.abc import Callable

from mansard.core.precision import Precision
from mansard.estimator.cost import Formula
from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.groups import Access, Group
from mansard.estimator.fusion.homes import home_of
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.wiring import Part, Storage, Wiring
from mansard.estimator.tensors import Node

_WEIGHT_OF = {Role.PRODUCT: 3, Role.SOLID: 2, Role.ROW: 1}
_BIAS = 2  # the input that holds it, of Conv, ConvTranspose and Gemm

Amounts = dict[Part, int]


def account(draft: Draft, drafts: Drafts, precision: Precision | None) -> Group:
    """The finished group of ``draft``."""
    wiring = drafts.wiring
    places = sorted(draft.places)
    nodes = [wiring.nodes[place] for place in places]
    head = nodes[0]
    if len(places) > 1:
        best = max(places, key=lambda place: (_WEIGHT_OF.get(wiring.roles[place], 0), -place))
        head = wiring.nodes[best]
    indexes = tuple(node.index for node in nodes)
    if not all(_is_known(place, wiring) for place in places):
        return Group(head.index, indexes, is_known=False)
    if wiring.roles[places[0]] is Role.FREE:
        return Group(head.index, indexes)
    reads: dict[Storage, int] = {}
    writes: dict[Storage, int] = {}
    seen: set[Part] = set()
    for place in places:
        _add_reads(place, draft, drafts, seen, reads, precision)
        _add_writes(place, draft, drafts, writes, precision)
    return Group(head.index, indexes, _capped(reads), _capped(writes))


def _is_known(place: int, wiring: Wiring) -> bool:
    node = wiring.nodes[place]
    if wiring.formulas[place] is None:
        return False
    return all(part.n_bytes is not None for part in wiring.reads[place]) and not any(
        tensor.unknown for tensor in (*node.outputs, *node.present)
    )


def _add_reads(
    place: int,
    draft: Draft,
    drafts: Drafts,
    seen: set[Part],
    reads: dict[Storage, int],
    precision: Precision | None,
) -> None:
    wiring = drafts.wiring
    amounts: Amounts = {}
    for part in wiring.reads[place]:
        amounts[part] = part.n_bytes or 0
    for part in wiring.weights[place]:
        amounts[part] = part.n_bytes or 0
    node, formula, role = wiring.nodes[place], wiring.formulas[place], wiring.roles[place]
    if formula is not None and formula.reads is not None:
        _touch_less(amounts, _untouched(formula.reads, node, precision, node.distinct))
    if node.op_type == "BatchNormalization":
        _fold(node, draft, drafts, amounts, wiring.weights[place])
    elif role is Role.JOIN or role is Role.PLACE:
        for part in wiring.reads[place]:
            if _stands_with(part.storage, place, wiring):
                del amounts[part]
    for part, n_bytes in amounts.items():
        storage = part.storage
        if part in seen or drafts.maker_of(storage) is draft:
            continue
        seen.add(part)
        home = home_of(storage)
        reads[home] = reads.get(home, 0) + n_bytes


def _stands_with(storage: Storage, place: int, wiring: Wiring) -> bool:
    """Whether a Concat's or scatter's input is in the memory of its output already."""
    made = wiring.writes[place][0].storage if wiring.writes[place] else None
    return made is not None and (storage.home is made or made.home is storage)


def _add_writes(
    place: int,
    draft: Draft,
    drafts: Drafts,
    writes: dict[Storage, int],
    precision: Precision | None,
) -> None:
    wiring = drafts.wiring
    node, formula = wiring.nodes[place], wiring.formulas[place]
    made: Amounts = {}
    for part in wiring.writes[place]:
        storage = part.storage
        if storage.is_output or not storage.readers or _leaves(storage, draft, drafts):
            made[part] = part.n_bytes or 0
    if formula is not None and formula.writes is not None:
        _touch_less(made, _untouched(formula.writes, node, precision, node.outputs))
    elif wiring.roles[place] is Role.JOIN:
        for part in wiring.reads[place]:
            if made and _stands_with(part.storage, place, wiring):
                _touch_less(made, part.n_bytes or 0)
    elif wiring.roles[place] is Role.PLACE and made:
        storage = wiring.writes[place][0].storage
        if storage.home is not None:
            updates = node.input(2).n_bytes(precision)
            made[wiring.writes[place][0]] = min(updates, storage.n_bytes or 0)
    for part, n_bytes in made.items():
        home = home_of(part.storage)
        writes[home] = writes.get(home, 0) + n_bytes


def _leaves(storage: Storage, draft: Draft, drafts: Drafts) -> bool:
    return any(drafts.current(drafts.of_place[place]) is not draft for place in storage.readers)


def _untouched(
    touched: Callable[[Node, Precision | None], int],
    node: Node,
    precision: Precision | None,
    tensors: tuple[object, ...],
) -> int:
    """Bytes of ``tensors`` that the operator leaves alone."""
    whole = sum(tensor.n_bytes(precision) for tensor in tensors if tensor.name)  # type: ignore[attr-defined]
    return max(whole - touched(node, precision), 0)


def _touch_less(amounts: Amounts, n_bytes: int) -> None:
    """Take ``n_bytes`` off the largest amounts."""
    for part in sorted(amounts, key=amounts.__getitem__, reverse=True):
        taken = min(amounts[part], n_bytes)
        amounts[part] -= taken
        n_bytes -= taken


def _fold(
    node: Node, draft: Draft, drafts: Drafts, amounts: Amounts, vectors: list[Part]
) -> None:
    """A batch normalisation's four vectors become a bias of the product, or two vectors."""
    wiring = drafts.wiring
    kept = 2
    if draft.kind is Kind.PRODUCT:
        products = [p for p in draft.places if wiring.roles[p] is Role.PRODUCT]
        kept = 0 if wiring.nodes[products[0]].has(_BIAS) else 1
    for part in vectors[kept:]:
        del amounts[part]


def _capped(amounts: dict[Storage, int]) -> tuple[Access, ...]:
    return tuple(
        (storage, min(n_bytes, storage.n_bytes or 0)) for storage, n_bytes in amounts.items()
    )



