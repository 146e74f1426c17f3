"""Tensors that are written where another one stands: inputs of a Concat, scatters in place."""

from __future__ import annotations

from collections import Counter

from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.storage import Part, Storage

_PLACING = (Role.JOIN, Role.PLACE)


def find_homes(drafts: Drafts) -> None:
    """Give every storage that can be a part of another one its home there.

    TensorRT's builder says it for each input of a concatenation: it is retargeted, or
    copied because it has another reader, comes from outside or is a view itself.
    """
    wiring = drafts.wiring
    for place, role in enumerate(wiring.roles):
        if role not in _PLACING or not wiring.writes[place]:
            continue
        node, made = wiring.nodes[place], wiring.writes[place][0].storage
        if role is Role.PLACE:
            tensor = node.optional(0)
            data = wiring.parts.get(tensor.name) if tensor is not None else None
            if data is not None and _is_movable(data, place, drafts):
                made.home = data.storage
        elif drafts.of_place[place].kind is Kind.CLOSED:
            times = Counter([wiring.parts.get(tensor.name) for tensor in node.present])
            for part in wiring.reads[place]:
                if times[part] == 1 and _is_movable(part, place, drafts):
                    part.storage.home = made


def home_of(storage: Storage) -> Storage:
    """The storage that ``storage`` is a part of in the end."""
    passed = []
    while storage.home is not None:
        passed.append(storage)
        storage = storage.beyond or storage.home
    for each in passed:  # so that a long chain of Concats is not walked for each of them
        each.beyond = storage
    return storage


def _is_movable(part: Part, place: int, drafts: Drafts) -> bool:
    storage = part.storage
    maker = drafts.maker_of(storage)
    return (
        maker is not None
        and part.is_whole
        and storage.readers == [place]
        and not storage.is_kept
        and storage.home is None
        and not _is_bound(maker, drafts)
    )


def _is_bound(maker: Draft, drafts: Drafts) -> bool:
    """Whether its results are where others have put them.

    Merged products write one tensor; what a loop or a branch returns is written inside.
    """
    if maker.kind is Kind.PRODUCT:
        return maker.result is None
    return drafts.wiring.roles[maker.places[0]] is Role.FREE
