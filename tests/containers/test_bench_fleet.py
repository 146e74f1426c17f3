"""``mansard bench --host a,b,c``: one board is measured, one cannot be, one loses its controller.

The controller behind ssh is stopped in the middle. Then it puts its board back; the measuring
container knows nothing of that and goes on. What it measures then is in another mode, and must
not be kept.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.board_controller import CONTROLLER_LABEL
from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.simulator import running, set_fault, snapshot
from tests.cli.bench_process import Start, finished_trials, wait_for_trials
from tests.containers.image_here import Here
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.throwaway import Daemon
from tests.simulator.simulator_bench import small_board, text

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.usefixtures("as_in_a_terminal"),
    pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd())),
]
MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 1500  # a machine with other work needs several times as long
BOARDS = {"near": "orin-nano-super", "far": "agx-orin", "bad": "xavier-nx"}
FAR = "AGX Orin"
N_TRIALS = 10


def ssh_with(folder: Path, options: tuple[str, ...]) -> Path:
    """A folder with an ``ssh`` that has these options, which the command does not take."""
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {" ".join(options)} "$@"\n')
    program.chmod(0o755)
    return folder


def controllers(client: Any, root: Path) -> list[str]:
    """The controllers of the board whose folder is ``root``."""
    found = client.api.containers(filters={"label": CONTROLLER_LABEL})
    return [one["Id"] for one in found if str(root) in str(one["Mounts"])]


def test_a_fleet_of_a_good_board_a_bad_one_and_one_that_loses_its_controller(
    network: Path, start: Start, tmp_path: Path, daemon: Daemon, docker_client: Any,
    built_image: Here,
) -> None:  # fmt: skip
    roots = {name: small_board(BOARDS[name], tmp_path / name) for name in BOARDS}
    socket = daemon.address.removeprefix("unix://")
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(
        f'[boards.near]\ndocker = "{daemon.address}"\nroot = "{roots["near"]}"\n'
        f'[boards.far]\ndocker = "orin"\nsocket = "{socket}"\nroot = "{roots["far"]}"\n'
        f'[boards.bad]\ndocker = "{daemon.address}"\nroot = "{roots["bad"]}"\n'
    )
    runs, far = tmp_path / "runs", roots["far"]
    command = [*MANSARD, "bench", "--hosts-file", str(hosts), "--images", str(built_image.table)]
    command += ["--offline", "--runs", str(runs), "--profile", "brief", "--mode", "15W"]
    command += [str(network), "--host"]
    with ExitStack() as stack:
        for root in roots.values():
            stack.enter_context(running(root))
        ssh = stack.enter_context(ssh_board(tmp_path / "ssh"))
        path = f"{ssh_with(tmp_path / 'bin', ssh.options)}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        set_fault(roots["bad"], "junk_conf", True)
        found = {name: snapshot(root) for name, root in roots.items()}
        process = start([*command, "near,far,bad"], env=environment)
        wait_for_trials(runs, 1, process, FAR)
        (controller,) = controllers(docker_client, far)
        docker_client.api.stop(controller, timeout=60)
        assert "0002" in text(far, "var/lib/nvpmodel/status")  # 30W, as it was found
        kept = finished_trials(runs, FAR)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1, said
        assert "near: Measuring 15W: " in said
        # Whichever is seen first: that it has ended, or that it has put the board back.
        lost = r"far: (its board controller has ended|the machine has left power mode)"
        ends = "the others are measured; the same command resumes the rest"
        failed = f"mansard: 2 of 3 boards failed: {lost}.*; bad: .*; {ends}"
        assert re.fullmatch(failed, said.splitlines()[-1]), said
        assert finished_trials(runs, FAR) == kept
        assert len(kept) < N_TRIALS
        assert {name: snapshot(root) for name, root in roots.items()} == found
        # The good board was not held up by the others: its kernels, and then the network.
        manifests = [read_document(path, Manifest) for path in runs.glob("*/manifest.json")]
        done = {each.kind: each for each in manifests if each.finished_utc is not None}
        assert done.keys() == {"kernels", "networks"}
        near = done["kernels"]
        assert near.mode_read_back.name == "15W"
        assert near.machine.board is not None
        assert near.machine.board.soc == "tegra234"
        assert near.image_digest == built_image.built.digest
        assert len(finished_trials(runs)) == len(kept) + N_TRIALS
        assert (runs / "report.html").exists()

        process = start([*command, "near,far"], env=environment)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
        assert re.search("near: 15W: (already measured, nothing to do|.* measured again)", said)
        assert re.search(rf"far: 15W: resumed, {len(kept)} trials? w(as|ere) already there", said)
        trials = finished_trials(runs, FAR)
        assert trials[: len(kept)] == kept
        assert len(trials) == N_TRIALS
        assert {name: snapshot(root) for name, root in roots.items()} == found
