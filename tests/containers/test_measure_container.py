"""``mansard measure`` of two networks on a simulated AGX Orin, in a real container, with energy.

The networks are prepared here, sent to the engine, and read there from a volume that all modes
share. The command is killed in the middle, and run again; then the same over SSH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.settings import OWNER_LABEL
from mansard.core.records import Manifest, Measurement, doubts
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import snapshot
from tests.cli.bench_process import Start, check_read_back
from tests.containers.image_here import Here
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.test_bench_container import check_confined, containers_of
from tests.containers.test_bench_fleet import ssh_with
from tests.containers.throwaway import Daemon
from tests.measuring.metered_windows import windows_read
from tests.waiting import awaited

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.board(is_small=True),
    pytest.mark.usefixtures("as_in_a_terminal"),
]
NETWORKS = ("squeezenet1_1", "mobilenet_v3_small")
PATIENCE_S = 1500  # a machine with other work needs several times as long
# Tried inside the running container, once as its user and once as root.
WRITE = "open('/files/x', 'w')"


@pytest.fixture
def command(built_image: Here, tmp_path: Path) -> list[str]:
    options = ["--images", str(built_image.table), "--offline", "--profile", "brief"]
    options += ["--runs", str(tmp_path / "runs")]
    return [sys.executable, "-m", "mansard.cli", "measure", *options]


def finished(runs: Path) -> list[Measurement]:
    paths = sorted(runs.glob("*/measurements.jsonl"))
    return [row for path in paths for row in read_rows(path, Measurement).rows]


def wait_for_row(runs: Path, process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not finished(runs):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, "no network was finished in time"
        time.sleep(0.05)


def volumes_of(client: Any) -> list[Any]:
    return list(client.api.volumes(filters={"label": OWNER_LABEL})["Volumes"] or ())


def check_files_are_only_read(container: Any, volume: str) -> None:
    (mount,) = [one for one in container.attrs["Mounts"] if one["Destination"] == "/files"]
    assert (mount["Type"], mount["Name"], mount["RW"]) == ("volume", volume, False)
    for user in ("", "0"):
        python = ["/opt/mansard/bin/python3", "-c", WRITE]
        done = container.exec_run(python, user=user)
        assert done.exit_code == 1
        assert b"Read-only file system" in done.output


def check_rows(rows: list[Measurement], n_modes: int) -> None:
    # Beside them are the chains of tiny nodes, which tell what a node takes.
    rows = [row for row in rows if row.model in NETWORKS]
    assert sorted(row.model for row in rows) == sorted(NETWORKS * n_modes)
    for row in rows:
        assert row.failure is None
        assert (row.engine, row.provider, row.source) == ("ort", "cpu", "simulated")
        assert row.seconds_s or row.rejected_s
        assert row.call_seconds_s
        assert row.layers
        assert row.energy
    windows_read(window for row in rows for window in row.energy or ())


def test_two_networks_in_two_modes_killed_and_resumed(
    board: Path, command: list[str], start: Start, tmp_path: Path, daemon: Daemon,
    docker_client: Any,
) -> None:  # fmt: skip
    runs, found, begun_s = tmp_path / "runs", snapshot(board), int(time.time())
    command += ["--container-engine", daemon.address, "--board", str(board), "--mode", "50W,MAXN"]
    process = start([*command, *NETWORKS])
    wait_for_row(runs, process)
    (container,) = containers_of(docker_client)
    check_confined(container)
    (volume,) = volumes_of(docker_client)
    check_files_are_only_read(container, volume["Name"])
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert awaited(lambda: not containers_of(docker_client))
    assert volumes_of(docker_client) == [volume]
    kept = finished(runs)

    process = start([*command, *NETWORKS])
    out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "Sending files, in MB: 15 of 15" in said
    assert all(name in out for name in (*NETWORKS, "50W", "MAXN"))
    assert snapshot(board) == found
    assert volumes_of(docker_client) == containers_of(docker_client) == []
    rows = finished(runs)
    check_rows(rows, n_modes=2)
    # Where other programs took the CPUs, a row has no time, and its network is measured again.
    assert all(row in rows for row in kept if row.seconds_s)
    manifests = [read_document(path, Manifest) for path in runs.glob("*/manifest.json")]
    assert {manifest.kind for manifest in manifests} == {"networks"}
    assert len({manifest.image_digest for manifest in manifests}) == 1
    check_read_back(manifests, {"50W", "MAXN"})
    # Each of the two processes made one volume, for all modes that it measured.
    told = docker_client.events(
        since=begun_s, until=int(time.time()) + 1, filters={"type": "volume"}, decode=True
    )
    assert len({event["Actor"]["ID"] for event in told}) == 2

    process = start([*command, *NETWORKS])
    _, said = process.communicate(timeout=PATIENCE_S)
    again = {row.run_id for row in rows if not row.seconds_s or doubts(row)}
    assert said.count("already measured, nothing to do") == 2 - len(again)
    assert ("Sending files" in said) == bool(again)


@pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd()))
def test_over_ssh_the_same(
    board: Path, command: list[str], start: Start, tmp_path: Path, daemon: Daemon,
    docker_client: Any,
) -> None:  # fmt: skip
    found, hosts = snapshot(board), tmp_path / "hosts.toml"
    socket = daemon.address.removeprefix("unix://")
    hosts.write_text(f'[boards.far]\ndocker = "orin"\nsocket = "{socket}"\nroot = "{board}"\n')
    command += ["--hosts-file", str(hosts), "--host", "far", "--mode", "15W"]
    with ssh_board(tmp_path / "ssh") as ssh:
        path = f"{ssh_with(tmp_path / 'bin', ssh.options)}:{os.environ['PATH']}"
        process = start([*command, *NETWORKS], env={**os.environ, "PATH": path})
        out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "far: Sending files, in MB: 15 of 15" in said
    assert all(name in out for name in NETWORKS)
    check_rows(finished(tmp_path / "runs"), n_modes=1)
    assert snapshot(board) == found
    assert volumes_of(docker_client) == containers_of(docker_client) == []
