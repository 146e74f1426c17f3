"""What each group reads and writes: what comes from outside it, and what leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mansard.core.precision import Precision
from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.groups import Access, Group
from mansard.estimator.fusion.homes import home_of
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.rereads import rereads
from mansard.estimator.fusion.storage import Part, Storage
from mansard.estimator.malformed import guarded
from mansard.estimator.tensors import Node, Tensor

_WEIGHT_OF = {Role.PRODUCT: 3, Role.SOLID: 2, Role.ROW: 1}
_BIAS = 2  # the input that holds it, of Conv, ConvTranspose and Gemm

Amounts = dict[Part, int]


def account(draft: Draft, drafts: Drafts) -> Group:
    """The finished group of ``draft``, once nothing is merged any more."""
    wiring = drafts.wiring
    precision, buffer_bytes = wiring.constants.precision, wiring.constants.buffer_bytes
    nodes, roles = wiring.nodes, wiring.roles
    places = sorted(draft.places)
    head = places[0]
    if len(places) > 1:
        head = max(places, key=lambda place: (_WEIGHT_OF.get(roles[place], 0), -place))
    indexes = tuple([nodes[place].index for place in places])
    if not wiring.unknown.isdisjoint(places):
        return Group(nodes[head].index, indexes, is_known=False)
    if roles[head] is Role.FREE:
        return Group(nodes[head].index, indexes)
    reads: Amounts = {}
    writes: Amounts = {}
    for place in places:
        if place in wiring.special:
            reads.update(_read_amounts(place, draft, drafts, precision))
            writes.update(_written_amounts(place, draft, drafts, precision))
        else:
            _add_plain(place, draft, drafts, reads, writes)
    again = (0, 0)
    if buffer_bytes is not None:
        again = rereads(draft, drafts, buffer_bytes, precision)
    return Group(nodes[head].index, indexes, _accesses(reads), _accesses(writes), *again)


def _add_plain(place: int, draft: Draft, drafts: Drafts, reads: Amounts, writes: Amounts) -> None:
    """All that an ordinary operator reads from outside, and what leaves the group."""
    wiring = drafts.wiring
    for parts in (wiring.reads[place], wiring.weights[place]):
        for part in parts:
            if part.storage.maker is not draft:
                reads[part] = part.n_bytes or 0
    for part in wiring.writes[place]:
        if _leaves(part.storage, draft, drafts):
            writes[part] = part.n_bytes or 0


def _read_amounts(
    place: int, draft: Draft, drafts: Drafts, precision: Precision | None
) -> Iterable[tuple[Part, int]]:
    wiring = drafts.wiring
    formula, role, node = wiring.formulas[place], wiring.roles[place], wiring.nodes[place]
    stored = wiring.weights[place]
    amounts = {part: part.n_bytes or 0 for part in wiring.reads[place]}
    if formula is not None and formula.reads is not None:
        amounts.update((part, part.n_bytes or 0) for part in stored)
        _touch_less(amounts, _untouched(formula.reads, node, precision, node.distinct))
    elif role is Role.JOIN or role is Role.PLACE:
        amounts = {
            part: n_bytes
            for part, n_bytes in amounts.items()
            if not _stands_with(part.storage, place, drafts)
        }
        amounts.update((part, part.n_bytes or 0) for part in stored)
    else:
        if node.op_type == "BatchNormalization":
            stored = stored[: _vectors_left(draft, drafts)]
        amounts.update((part, part.n_bytes or 0) for part in stored)
    return [(part, n) for part, n in amounts.items() if part.storage.maker is not draft]


def _stands_with(storage: Storage, place: int, drafts: Drafts) -> bool:
    """Whether a Concat's or scatter's input is in the memory of its output already."""
    writes = drafts.wiring.writes[place]
    made = writes[0].storage if writes else None
    return made is not None and (storage.home is made or made.home is storage)


def _vectors_left(draft: Draft, drafts: Drafts) -> int:
    """Of a batch normalisation's four: a factor and a summand; behind a product the summand.

    The factor is in the product's weights then, and the summand in its bias if it has one.
    """
    if draft.kind is not Kind.PRODUCT:
        return 2
    return 0 if drafts.wiring.nodes[draft.products[0]].has(_BIAS) else 1


def _written_amounts(
    place: int, draft: Draft, drafts: Drafts, precision: Precision | None
) -> Iterable[tuple[Part, int]]:
    wiring = drafts.wiring
    made = {
        part: part.n_bytes or 0
        for part in wiring.writes[place]
        if _leaves(part.storage, draft, drafts)
    }
    formula, role, node = wiring.formulas[place], wiring.roles[place], wiring.nodes[place]
    if formula is not None and formula.writes is not None:
        _touch_less(made, _untouched(formula.writes, node, precision, node.outputs))
    elif role is Role.JOIN:
        there = (p for p in wiring.reads[place] if _stands_with(p.storage, place, drafts))
        _touch_less(made, sum(part.n_bytes or 0 for part in there))
    elif role is Role.PLACE:
        for part, n_bytes in made.items():
            if part.storage.home is not None:
                made[part] = min(node.input(2).n_bytes(precision), n_bytes)
    return made.items()


def _leaves(storage: Storage, draft: Draft, drafts: Drafts) -> bool:
    """Whether anything but ``draft`` needs ``storage``; what nobody reads is written too."""
    readers = storage.readers
    if storage.is_kept or not readers:
        return True
    of_place = drafts.of_place
    if len(readers) == 1:
        return of_place[readers[0]] is not draft
    return any(of_place[reader] is not draft for reader in readers)


def _untouched(
    touched: Callable[[Node, Precision | None], int],
    node: Node,
    precision: Precision | None,
    tensors: Iterable[Tensor],
) -> int:
    """Bytes of ``tensors`` that the operator leaves alone."""
    whole = sum(tensor.n_bytes(precision) for tensor in tensors if tensor.name)
    return max(whole - guarded(touched, node, precision), 0)


def _touch_less(amounts: Amounts, n_bytes: int) -> None:
    """Take ``n_bytes`` off the largest amounts."""
    for part in sorted(amounts, key=amounts.__getitem__, reverse=True):
        taken = min(amounts[part], n_bytes)
        amounts[part] -= taken
        n_bytes -= taken


def _accesses(amounts: Amounts) -> tuple[Access, ...]:
    """Parts of one storage together; no more of it than it has, as they may overlap."""
    found: dict[Storage, int] = {}
    for part, n_bytes in amounts.items():
        storage = part.storage
        if storage.home is not None:
            storage = home_of(storage)
        if storage in found:
            found[storage] = min(found[storage] + n_bytes, storage.n_bytes or 0)
        elif n_bytes:
            found[storage] = n_bytes
    return tuple(found.items())
