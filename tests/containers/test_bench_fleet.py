"""``mansard bench --host a,b``: two simulated boards at once, one of them failing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mansard.core.documents import read_document
from mansard.core.records import Manifest
from mansard.simulator import create_board, running, set_fault, snapshot
from tests.containers.image_here import Here
from tests.containers.throwaway import Daemon

pytestmark = [pytest.mark.docker, pytest.mark.slow]
MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 1500  # a machine with other work needs several times as long


def test_two_boards_at_once_one_of_them_failing(
    tmp_path: Path, daemon: Daemon, built_image: Here
) -> None:
    good = create_board("agx-orin", tmp_path / "good")
    bad = create_board("xavier-nx", tmp_path / "bad")
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(
        "".join(
            f'[boards.{name}]\ndocker = "{daemon.address}"\nroot = "{root}"\n'
            for name, root in (("good", good), ("bad", bad))
        )
    )
    subprocess.run(
        [*MANSARD, "zoo", "write", str(tmp_path), "resnet18"], check=True, capture_output=True
    )
    runs = tmp_path / "runs"
    command = [*MANSARD, "bench", "--host", "good,bad", "--hosts-file", str(hosts)]
    command += ["--images", str(built_image.table), "--offline", "--runs", str(runs)]
    command += ["--profile", "brief", "--mode", "15W", str(tmp_path / "resnet18.onnx")]
    with running(good), running(bad):
        found = snapshot(good)
        set_fault(bad, "junk_conf", True)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert snapshot(good) == found
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mansard: 1 of 2 boards failed: bad: ")
    assert last.endswith("the others are measured; the same command resumes the rest")
    assert "good: Measuring 15W: " in done.stderr
    (path,) = runs.glob("*/manifest.json")
    manifest = read_document(path, Manifest)
    assert manifest.finished_utc is not None
    assert manifest.mode_read_back.name == "15W"
    assert manifest.machine.board is not None
    assert manifest.machine.board.soc == "tegra234"
    assert manifest.image_digest == built_image.built.digest
    assert (runs / "report.html").exists()
