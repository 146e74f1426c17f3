"""Folders of simulated boards, a file that names them, and the engines that stand for theirs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fleets.engines import Board
from mansard.simulator import create_board


def made_boards(folder: Path, n_boards: int, trial_s: float) -> list[Board]:
    """Boards below ``folder``, each with an identity of its own."""
    boards = []
    for number in range(n_boards):
        name = f"b{number:02}"
        root = create_board("orin-nano-super", folder / name)
        serial = root / "sys/firmware/devicetree/base/serial-number"
        serial.write_text(f"{1421021000000 + number}\0", encoding="utf-8")
        socket = folder / f"{name}.sock"
        boards.append(Board(name=name, socket=str(socket), root=str(root), trial_s=trial_s))
    return boards


def hosts_file(folder: Path, boards: list[Board]) -> Path:
    """The file that ``--hosts-file`` takes."""
    path = folder / "hosts.toml"
    text = "".join(
        f'[boards.{each.name}]\ndocker = "unix://{each.socket}"\nroot = "{each.root}"\n'
        for each in boards
    )
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def engines(folder: Path, boards: list[Board]) -> Iterator[subprocess.Popen[str]]:
    """The engines of ``boards``, all in one process, until the end of this."""
    file = folder / "boards.json"
    file.write_bytes(msgspec.json.encode(boards))
    process = subprocess.Popen(
        [sys.executable, "-m", "fleets.engines", str(file)],
        cwd=Path(__file__).resolve().parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise SystemExit("the engines did not start")
            yield process
        finally:
            process.kill()
