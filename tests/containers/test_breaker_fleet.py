"""Several boards and one document; one board that is not there beside one that is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.simulator import create_board, running, snapshot
from tests.containers.image_here import Here
from tests.containers.throwaway import Daemon

pytestmark = [pytest.mark.docker, pytest.mark.slow]
MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 600  # a machine with other work needs several times as long


def test_one_document_for_all_boards_and_one_error_for_the_one_that_is_not_there(
    tmp_path: Path, daemon: Daemon, built_image: Here
) -> None:
    root = create_board("agx-orin", tmp_path / "board")
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(
        f'[boards.here]\ndocker = "{daemon.address}"\nroot = "{root}"\n'
        f'[boards.moved]\ndocker = "{daemon.address}"\nroot = "{tmp_path}/nowhere"\n'
    )
    files = ["--hosts-file", str(hosts), "--images", str(built_image.table)]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*MANSARD, *arguments, *files]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=tmp_path
        )

    with running(root):
        found = snapshot(root)
        planned = run("bench", "--host", "here", "--offline", "--dry-run", "--json")
        restored = run("restore", "--host", "moved,here", "--json")
        alone = run("restore", "--host", "moved")
        assert snapshot(root) == found
    assert planned.returncode == 0, planned.stderr
    (board,) = json.loads(planned.stdout)["boards"]
    assert board["board"] == "here"
    assert board["modes"][0]["mode"]["name"] == "present"
    assert list(tmp_path.glob("runs")) == []

    assert restored.returncode == 1
    assert json.loads(restored.stdout)["boards"] == [
        {"board": "here", "restored": None, "lines": []}
    ]
    assert "1 of 2 boards failed" in json.loads(restored.stdout)["error"]["what"]
    line = restored.stderr.splitlines()[-1]
    assert line.startswith("mansard: 1 of 2 boards failed: moved: ")
    assert "the others are put back" in line

    assert alone.returncode == 2
    line = alone.stderr.splitlines()[-1]
    assert line.startswith("mansard: moved: ")
    assert "the folder to be mounted is not there" in line
    assert "the others" not in line
