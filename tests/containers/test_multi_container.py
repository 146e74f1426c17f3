"""``multi run`` and ``contention`` on a simulated AGX Orin in a container, here and over SSH.

In the container each stage has a process of its own: it needs shared memory, semaphores and a
folder for them, where the image is only read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mansard.core.records import ContentionPoint, MultiRun, Record
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import running, snapshot
from tests.cli.bench_process import Start
from tests.containers.image_here import Here
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.test_bench_container import containers_of
from tests.containers.test_bench_fleet import ssh_with
from tests.containers.throwaway import Daemon
from tests.inference.small_networks import perceptron
from tests.inference.test_cutting import residual
from tests.simulator.simulator_bench import small_board

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.usefixtures("as_in_a_terminal"),
    pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd())),
]
PATIENCE_S = 900  # a machine with other work needs several times as long
SECONDS_S = 3.0
R = TypeVar("R", bound=Record)


def test_processes_in_a_container_and_threads_over_ssh(
    start: Start, tmp_path: Path, daemon: Daemon, docker_client: Any, built_image: Here
) -> None:
    perceptron(tmp_path / "mlp.onnx")
    mapping = {
        str(residual(tmp_path)): {"6": "cpu:0", "13": "cpu:1"},
        str(tmp_path / "mlp.onnx"): {"9": "cpu"},
    }
    (tmp_path / "mapping.json").write_text(json.dumps(mapping))
    shared = ["--profile", "brief", "--offline", "--images", str(built_image.table)]
    shared += ["--mode", "15W", "--json"]
    multi = ["multi", "run", *shared, "--mapping", str(tmp_path / "mapping.json")]
    multi += ["--duration", str(SECONDS_S)]
    root, runs, hosts = small_board("agx-orin", tmp_path, is_metered=True), "runs", "hosts.toml"
    socket = daemon.address.removeprefix("unix://")
    (tmp_path / hosts).write_text(
        f'[boards.far]\ndocker = "orin"\nsocket = "{socket}"\nroot = "{root}"\n'
    )
    here = ["--container-engine", daemon.address, "--board", str(root)]
    far = ["--hosts-file", str(tmp_path / hosts), "--host", "far"]
    with running(root), ssh_board(tmp_path / "ssh") as ssh:
        found = snapshot(root)
        path = f"{ssh_with(tmp_path / 'bin', ssh.options)}:{os.environ['PATH']}"

        def told(*words: str, codes: tuple[int, ...] = (0,)) -> Any:
            command = [sys.executable, "-m", "mansard.cli", *words]
            process = start(command, env={**os.environ, "PATH": path})
            out, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode in codes, said
            assert snapshot(root) == found
            return json.loads(out)

        for way, order, options in (
            ("processes", "pipelined", [*here, "--processes", "--pipelined"]),
            ("threads", "in turn", far),
        ):
            folder = tmp_path / runs / way
            (printed,) = told(*multi, "--runs", str(folder), *options)["rows"]
            (row,) = rows_of(folder, "multi.jsonl", MultiRun)
            check(row, way, order)
            assert printed["row"]["trial_id"] == row.trial_id
        folder = tmp_path / runs / "contention"
        # On a busy machine too few points count, which is an exit code of 1.
        told("contention", *shared, "--runs", str(folder), *far, codes=(0, 1))
        points = rows_of(folder, "contention.jsonl", ContentionPoint)
        assert {row.victim for row in points} == {"cpu:0", "cpu:1"}
        assert {row.source for row in points} == {"simulated"}
        assert len(points) == 24
    assert containers_of(docker_client) == []


def rows_of(runs: Path, name: str, kind: type[R]) -> list[R]:
    return [row for rows in runs.glob(f"*/{name}") for row in read_rows(rows, kind, runs).rows]


def check(row: MultiRun, way: str, order: str) -> None:
    assert (row.failure, row.source, row.way, row.order) == (None, "simulated", way, order)
    assert [each.device for each in row.stages] == ["cpu:0", "cpu:1", "cpu"]
    assert all(each.n_runs > 0 for each in row.stages)
    # A thread or process for each network, or for each stage of it: each is there all the time.
    n_workers = 3 if order == "pipelined" else 2
    spent_s = sum(each.inference_s + each.transfer_s + each.wait_s for each in row.stages)
    assert spent_s == pytest.approx(n_workers * SECONDS_S, rel=1e-6)
    assert row.energy is not None
    assert row.energy.window_s == pytest.approx(SECONDS_S)
    assert row.energy.repetitions == sum(each.n_runs for each in row.networks)
