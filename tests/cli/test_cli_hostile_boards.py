"""--board with folders that are no boards: nothing of this machine is measured in their name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mansard.simulator import create_board

MANSARD = [sys.executable, "-m", "mansard.cli"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MANSARD, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("command", [("bench", "--dry-run"), ("restore",), ("doctor",)])
def test_hostile_boards_a_board_that_is_not_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = _run(*command, "--board", str(tmp_path / "agx-orni"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "agx-orni' is no folder; give the root folder of a board" in done.stderr


def test_hostile_boards_a_folder_that_is_no_simulated_board_is_not_benched(tmp_path: Path) -> None:
    done = _run("bench", "--board", str(tmp_path), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert "is no simulated board" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_hostile_boards_a_mode_that_leaves_no_cpu_on(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    configuration = root / "etc/nvpmodel.conf"
    off = "".join(f"CPU_ONLINE CORE_{number} 0\n" for number in range(12))
    text = configuration.read_text() + f"\n< POWER_MODEL ID=9 NAME=NOCPU >\n{off}\n"
    configuration.write_text(text)
    done = _run("bench", "--dry-run", "--board", str(root), "--mode", "NOCPU")
    assert done.returncode == 2
    assert "power mode 'NOCPU' leaves no CPU on" in done.stderr
