"""``mansard bench --host a,b``: the controller of one, behind ssh, is stopped in the middle.

Stopped, it puts the board back; the measuring container knows nothing of that and goes on. What
it measures then is in another mode, and must not be kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.board_controller import CONTROLLER_LABEL
from mansard.core.documents import read_document
from mansard.core.jsonl import read_rows
from mansard.core.records import Manifest, Trial
from mansard.simulator import create_board, running, snapshot
from tests.cli.bench_process import wait_for_trials
from tests.containers.image_here import Here
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.throwaway import Daemon
from tests.simulator.simulator_bench import text

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.usefixtures("as_in_a_terminal"),
    pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd())),
]
MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 1500  # a machine with other work needs several times as long
BOARDS = {"far": "agx-orin", "near": "orin-nano-super"}


def ssh_with(folder: Path, options: tuple[str, ...]) -> Path:
    """A folder with an ``ssh`` that has these options, which the command does not take."""
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {" ".join(options)} "$@"\n')
    program.chmod(0o755)
    return folder


def trials_of(runs: Path, module: str) -> list[Trial]:
    """The rows of the one run on boards of that module."""
    (path,) = (
        path
        for path in runs.glob("*/manifest.json")
        if str(read_document(path, Manifest).machine.board).find(module) >= 0
    )
    return list(read_rows(path.parent / "trials.jsonl", Trial).rows)


def controllers(client: Any, root: Path) -> list[str]:
    """The controllers of the board whose folder is ``root``."""
    found = client.api.containers(filters={"label": CONTROLLER_LABEL})
    return [one["Id"] for one in found if str(root) in str(one["Mounts"])]


def test_what_is_measured_after_the_controller_was_stopped_is_measured_again(
    tmp_path: Path, daemon: Daemon, docker_client: Any, built_image: Here
) -> None:
    roots = {name: create_board(BOARDS[name], tmp_path / name) for name in BOARDS}
    socket = daemon.address.removeprefix("unix://")
    (tmp_path / "hosts.toml").write_text(
        f'[boards.near]\ndocker = "{daemon.address}"\nroot = "{roots["near"]}"\n'
        f'[boards.far]\ndocker = "orin"\nsocket = "{socket}"\nroot = "{roots["far"]}"\n'
    )
    network = [*MANSARD, "zoo", "write", str(tmp_path), "resnet18"]
    subprocess.run(network, check=True, capture_output=True)
    runs, far = tmp_path / "runs", roots["far"]
    command = [*MANSARD, "bench", "--host", "near,far", "--runs", str(runs)]
    command += ["--hosts-file", str(tmp_path / "hosts.toml"), "--images", str(built_image.table)]
    command += ["--offline", "--profile", "brief", "--mode", "15W", str(tmp_path / "resnet18.onnx")]
    with running(roots["near"]), running(far), ssh_board(tmp_path / "ssh") as ssh:
        path = f"{ssh_with(tmp_path / 'bin', ssh.options)}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        found = {name: snapshot(root) for name, root in roots.items()}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        wait_for_trials(runs, 4, process)
        (controller,) = controllers(docker_client, far)
        docker_client.api.stop(controller, timeout=60)
        assert "0002" in text(far, "var/lib/nvpmodel/status")  # 30W, as it was found
        kept = trials_of(runs, "AGX Orin")
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1, said
        # Whichever is seen first: that it has ended, or that it has put the board back.
        lost = r"far: (its board controller has ended|the machine has left power mode).*resumes"
        assert re.search(lost, said.splitlines()[-1])
        assert trials_of(runs, "AGX Orin") == kept
        assert len(kept) < 14
        assert {name: snapshot(root) for name, root in roots.items()} == found

        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
            env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"far: 15W: resumed, {len(kept)} trials were already there" in done.stderr
        trials = trials_of(runs, "AGX Orin")
        assert trials[: len(kept)] == kept
        assert len(trials) == 14
        # The other board was not held up by it.
        assert "near: 15W: already measured, nothing to do" in done.stderr
        assert {name: snapshot(root) for name, root in roots.items()} == found
