"""Which modes need the board to be started anew: guessed beforehand, or tried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mansard.core.errors import DeviceError
from mansard.device.nvpmodel.gating import gating_masks, parse_integer
from mansard.device.nvpmodel.masks import present_masks
from mansard.device.nvpmodel.modes import BoardMode, BoardModes
from mansard.device.nvpmodel.tool import Outcome, query, set_mode

SetMode = Callable[[Path, int], Outcome]


def reboot_modes(root: Path, modes: BoardModes, present: str | None) -> Mapping[str, str]:
    """The modes that may need a reboot: name -> why. Nothing is set to find out.

    Units of the GPU are gated when it is powered up. Once it has run, another mask holds
    after the next start only (the tool's "Golden image context is already created"), so a
    mode whose masks differ from the present ones may need it. Whether one does is certain
    only after ``probe``. The present masks are read from the kernel, or where it does not
    tell taken from the present mode.
    """
    now = _as_integers(present_masks(root, modes.config))
    found = modes.find(present) if present is not None else None
    if found is not None:
        now = {**_as_integers(gating_masks(found.table)), **now}
    reasons = {}
    for one in modes.modes:
        changes = [
            f"{argument} {now.get(argument, 'unknown')} → {mask}"
            for argument, mask in _as_integers(gating_masks(one.table)).items()
            if now.get(argument) != mask
        ]
        if changes and one is not found:
            reasons[one.mode.name] = f"changes the GPU's gating: {', '.join(changes)}"
    return reasons


def probe(
    root: Path, modes: Iterable[BoardMode], *, set_one: SetMode = set_mode
) -> Mapping[str, Outcome]:
    """Try each mode, a reboot declined, and put the present one back; raises DeviceError.

    The sure way to know which modes need a reboot. It changes the board: use it inside
    ``hold_machine``, which brings the clocks back too.
    """
    wanted = tuple(modes)
    if not wanted:
        return {}  # even putting the present mode back would set its clocks anew
    present = query(root)
    if present.id is None:
        raise DeviceError(
            f"the number of the present mode {present.name} is not known",
            where=str(root),
            fix="without it the mode could not be put back, so none is tried",
        )
    outcomes: dict[str, Outcome] = {}
    try:
        for one in wanted:
            outcomes[one.mode.name] = set_one(root, one.id)
    finally:
        back = set_one(root, present.id)
    if back.kind != "set":
        raise DeviceError(
            f"mode {present.name} could not be put back: {back.text}",
            where=str(root),
            fix=f"set it by hand: sudo nvpmodel -m {present.id}",
        )
    return outcomes


def _as_integers(masks: Mapping[str, str | None]) -> dict[str, int]:
    return {
        argument: mask
        for argument, text in masks.items()
        if (mask := parse_integer(text or "")) is not None
    }
