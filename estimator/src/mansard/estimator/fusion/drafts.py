"""Groups while they grow: nodes that will be one kernel."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.storage import Part, Storage
from mansard.estimator.fusion.wiring import Wiring


class Kind(IntEnum):
    """What a group is built around, the greater one where two are merged."""

    POINTWISE = 0
    MOVE = 1  # with or without pointwise operators
    ROW = 2  # around a reduction over rows
    PRODUCT = 3  # a product with what is applied to its result
    ATTENTION = 4
    CLOSED = 5  # nothing joins


class Draft(msgspec.Struct, eq=False):
    """A group that grows.

    ``places`` are those of its nodes, ``place`` is when it runs. ``parts`` are what its
    nodes read, ``result`` is what it writes, if that is one tensor, ``span`` the
    elements of the largest tensor that is reduced in it. ``products`` are the places
    of its matrix products and convolutions.
    """

    kind: Kind
    place: int = -1
    places: list[int] = []
    products: list[int] = []
    parts: set[Part] = set()
    result: Storage | None = None
    span: int = 0
    has_softmax: bool = False
    merged_into: Draft | None = None


def last_of(draft: Draft) -> Draft:
    """The group that ``draft`` has become a part of."""
    while draft.merged_into is not None:
        draft = draft.merged_into
    return draft


_SOFTMAX = frozenset({"BiasSoftmax", "QLinearSoftmax", "Softmax"})


class Drafts:
    """The groups of one graph so far, by the place of each node that has one."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.of_place: list[Draft] = []
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
        kept, lost = (one, other) if len(one.places) >= len(other.places) else (other, one)
        kept.places += lost.places
        kept.products += lost.products
        kept.parts |= lost.parts
        kept.kind = max(one.kind, other.kind)
        kept.span = max(one.span, other.span)
        kept.has_softmax = one.has_softmax or other.has_softmax
        lost.merged_into = kept
        return kept

    def add(self, place: int, draft: Draft) -> None:
        """The node at ``place``, the last one so far, belongs to ``draft``."""
        wiring = self.wiring
        self.of_place.append(draft)
        draft.places.append(place)
        draft.place = place
        reads, writes, role = wiring.reads[place], wiring.writes[place], wiring.roles[place]
        draft.parts.update(reads)
        for part in writes:
            part.storage.maker = draft
        draft.result = writes[0].storage if len(writes) == 1 else None
        if role is Role.PRODUCT:
            draft.products.append(place)
        elif role is Role.ROW:
            draft.span = max(draft.span, reads[0].storage.n_elements if reads else 0)
            draft.has_softmax |= wiring.nodes[place].op_type in _SOFTMAX
        elif draft.kind is Kind.ROW and wiring.nodes[place].op_type == "Exp":
            draft.has_softmax = True

    def settle(self) -> list[Draft]:
        """All groups in the order they run; from now on nothing is merged."""
        self.of_place = [last_of(draft) for draft in self.of_place]
        for draft, writes in zip(self.of_place, self.wiring.writes, strict=True):
            for part in writes:
                part.storage.maker = draft
        return sorted(dict.fromkeys(self.of_place), key=_when)


def _when(draft: Draft) -> int:
    return draft.place
