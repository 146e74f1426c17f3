"""The option --board, and which folders it may name: else results would be this machine's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mansard.core.errors import UsageError

BoardOption = Annotated[
    Path | None,
    typer.Option(
        help="Root folder of a board, such as a simulated one; this machine's by default.",
        readable=False,
    ),
]


def board_root(board: Path | None) -> Path:
    """The root that --board names, this machine's by default; raises UsageError."""
    from mansard.device.system import SYSTEM_ROOT

    root = SYSTEM_ROOT if board is None else board
    if not root.is_dir():
        raise UsageError(f"{str(root)!r} is no folder", fix="give the root folder of a board")
    return root


def check_measurable(root: Path) -> None:
    """Raises UsageError unless it is this machine's root, or a simulated board's.

    Any other folder would be measured as the machine that we run on, under its name.
    """
    from mansard.device.identity import SIMULATED_MARK, is_simulated
    from mansard.device.system import SYSTEM_ROOT

    if root.resolve() != SYSTEM_ROOT and not is_simulated(root):
        raise UsageError(
            f"{str(root)!r} is no simulated board: it has no {SIMULATED_MARK}",
            fix="'mansard demo' makes one; without --board this machine is measured",
        )
