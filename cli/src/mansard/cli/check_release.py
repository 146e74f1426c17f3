"""Checks of what a Jetson says of itself: module, L4T and JetPack."""

from __future__ import annotations

from collections.abc import Iterator

from mansard.cli.check import Check, missing, ok
from mansard.core.records import MachineIdentity


def check_release(machine: MachineIdentity) -> Iterator[Check]:
    """Whether the module and its release are known; without them numbers are missing."""
    board = machine.board
    if board is None:
        return
    if board.module is None:
        yield missing(
            "module",
            board.unknown["module"],
            "rails, peaks and gating are not known for it; report its part number "
            "('cat /proc/device-tree/chosen/ids')",
        )
    else:
        yield ok("module", f"{board.module}, {board.part_number}, {board.soc}")
    if board.l4t is None:
        yield missing(
            "L4T",
            board.unknown["l4t"],
            "in a container, mount /etc/nv_tegra_release; on the board install nvidia-l4t-core",
        )
    elif board.jetpack is None:
        yield missing(
            "L4T", board.unknown["jetpack"], "results are marked with L4T alone; update Mansard"
        )
    else:
        yield ok("L4T", f"{board.l4t}, JetPack {board.jetpack}")
