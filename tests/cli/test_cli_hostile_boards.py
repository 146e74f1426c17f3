"""--board with folders that are no boards: nothing of this machine is measured in their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.simulator import create_board
from tests.cli.in_process import mansard


@pytest.mark.parametrize("command", [("bench", "--dry-run"), ("restore",), ("doctor",)])
def test_hostile_boards_a_board_that_is_not_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = mansard(*command, "--board", str(tmp_path / "agx-orni"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "agx-orni' is not a folder; give the root folder of a board" in done.stderr


def test_hostile_boards_a_folder_that_is_no_simulated_board_is_not_benched(tmp_path: Path) -> None:
    done = mansard("bench", "--board", str(tmp_path), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert "is not a simulated board" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_hostile_boards_a_mode_that_leaves_no_cpu_on(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    configuration = root / "etc/nvpmodel.conf"
    off = "".join(f"CPU_ONLINE CORE_{number} 0\n" for number in range(12))
    text = configuration.read_text() + f"\n< POWER_MODEL ID=9 NAME=NOCPU >\n{off}\n"
    configuration.write_text(text)
    done = mansard("bench", "--dry-run", "--board", str(root), "--mode", "NOCPU")
    assert done.returncode == 2
    assert "power mode 'NOCPU' leaves no CPU on" in done.stderr
