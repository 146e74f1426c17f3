"""Setting a graphics card within a hold: each setting is announced, and put back afterwards."""

from __future__ import annotations

from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode
from mansard.device.cards.card import CardState, read_card
from mansard.device.cards.setting import (
    CardWrite,
    card_writes,
    differences,
    read_back,
    restoring_writes,
    write_card,
)
from mansard.device.holding.acting import Actor, Step


def planned_card_steps(mode: PowerMode) -> tuple[Step, ...]:
    """What setting ``mode`` would do now; raises DeviceError."""
    found = read_card()
    return tuple(_step(write, found) for write in card_writes(mode, found))


def set_card(actor: Actor, mode: PowerMode, found: CardState) -> PowerMode:
    """Bring the card to ``mode``, ``found`` being in the journal; returns what it is in.

    Raises DeviceError for what is refused or does not stay.
    """
    for write in card_writes(mode, found):
        _act(actor, write, found)
    return read_back(mode, found)


def restore_card(actor: Actor, found: CardState) -> tuple[list[str], list[str]]:
    """Put the card back to how it was found: what was done, and what is still otherwise."""
    done, left = [], []
    for write in restoring_writes(found):
        try:
            _act(actor, write, found)
            done.append(f"GPU {found.index}: {write}")
        except DeviceError as error:
            left.append(str(error))
    return done, [*left, *differences(found)]


def _act(actor: Actor, write: CardWrite, found: CardState) -> None:
    actor.announce(_step(write, found))
    write_card(write, found)


def _step(write: CardWrite, found: CardState) -> Step:
    return Step("card", f"GPU {found.index}", str(write), write.why)
