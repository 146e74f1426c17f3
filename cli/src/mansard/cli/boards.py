"""The option --board: the root folder of a board."""

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
