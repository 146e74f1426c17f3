"""Tensors that are written where another one stands: inputs of a Concat, scatters in place."""

from __future__ import annotations

from mansard.estimator.fusion.drafts import Drafts, Kind
from mansard.estimator.fusion.operators import Role
from mansard.estimator.fusion.wiring import Part, Storage


def settle(drafts: Drafts) -> None:
    """Give every storage that can be a part of another one its home there.

    TensorRT's builder says it for each input of a concatenation: it is retargeted, or
    copied because it has another reader, comes from outside or is a view itself.
    """
    wiring = drafts.wiring
    for place, role in enumerate(wiring.roles):
        if role is Role.JOIN and drafts.of_place[place].kind is Kind.CLOSED:
            node, (joined,) = wiring.nodes[place], wiring.writes[place]
            names = [tensor.name for tensor in node.present]
            for part in wiring.reads[place]:
                if _is_movable(part, place, drafts) and _count(part, names, drafts) == 1:
                    part.storage.home = joined.storage
        elif role is Role.PLACE and wiring.reads[place] and wiring.writes[place]:
            data, tensor = wiring.reads[place][0], wiring.nodes[place].inputs[0]
            is_first = tensor is not None and wiring.parts.get(tensor.name) is data
            if is_first and _is_movable(data, place, drafts):
                wiring.writes[place][0].storage.home = data.storage


def home_of(storage: Storage) -> Storage:
    """The storage that ``storage`` is a part of in the end."""
    while storage.home is not None:
        storage = storage.home
    return storage


def _is_movable(part: Part, place: int, drafts: Drafts) -> bool:
    storage, wiring = part.storage, drafts.wiring
    return (
        part.is_whole
        and storage.owner is wiring
        and storage.maker >= 0
        and wiring.roles[storage.maker] is not Role.FREE
        and storage.readers == [place]
        and not storage.is_output
        and storage.home is None
    )


def _count(part: Part, names: list[str], drafts: Drafts) -> int:
    return sum(drafts.wiring.parts.get(name) is part for name in names)
