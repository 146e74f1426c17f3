"""Programs of a board that print without end, and without an end of line."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from mansard.simulator import create_board
from memory_cases.case import Case, Run

# 64 KiB at once, as fast as it is taken: 6 GB in 7 s where nothing bounds it.
_FLOOD = """#!{python}
import os
while True:
    os.write({stream}, b"{what}" * 8192)
"""


def _prepare(
    tool: str, command: tuple[str, ...], stream: int, what: str, folder: Path, is_attack: bool
) -> Run:
    root = create_board("agx-orin", folder)
    path = root / tool
    if is_attack:
        path.write_text(_FLOOD.format(python=sys.executable, stream=stream, what=what))
    return Run(("mansard", *command, "--board", str(root)))


def _flood(name: str, tool: str, command: tuple[str, ...], stream: int, what: str) -> Case:
    return Case(name, partial(_prepare, tool, command, stream, what))


_NVPMODEL, _TEGRASTATS = "usr/sbin/nvpmodel", "usr/bin/tegrastats"
_TELEMETRY = ("telemetry", "--live", "--duration", "2")

CASES = (
    _flood("nvpmodel without an end of line", _NVPMODEL, ("modes",), 1, "NVPM VER"),
    _flood("nvpmodel's complaints without end", _NVPMODEL, ("modes",), 2, "NVPM ER\\n"),
    _flood("tegrastats without an end of line", _TEGRASTATS, _TELEMETRY, 1, "RAM 1234"),
    _flood("tegrastats' empty lines without end", _TEGRASTATS, _TELEMETRY, 1, "\\n\\n\\n\\n"),
)
