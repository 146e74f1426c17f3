"""Modes that need a reboot: found out before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mansard.core.records import PowerMode
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.reboot import probe, reboot_modes
from mansard.device.nvpmodel.tool import query


def modes_that_need_a_reboot(root: Path, modes: Sequence[PowerMode]) -> Mapping[str, str]:
    """Of the board's own ``modes`` those that its tool does not set now: name -> its words.

    Only modes that change the GPU's gating can need one, and only trying tells: each of these
    is tried with the reboot declined. To be called inside ``hold_machine``.
    """
    names = {mode.name for mode in modes if mode.kind == "nvpmodel"}
    if not names:
        return {}
    board = read_modes(root)
    doubtful = names & reboot_modes(root, board, query(root).name).keys()
    outcomes = probe(root, [one for one in board.modes if one.mode.name in doubtful])
    return {name: found.text for name, found in outcomes.items() if found.kind == "reboot"}
