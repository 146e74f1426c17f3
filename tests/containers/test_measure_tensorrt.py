"""``mansard measure --engine tensorrt`` on a simulated AGX Orin, in real containers.

TensorRT is a stand-in of its bindings in the image, which runs networks on the CPU. Engine files
are built in one container, which may write to one volume; they are measured in another, which may
write to none. The command is killed while it builds, and run again; then the same over SSH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mansard.core.records import EngineBuild, Manifest, Measurement
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import snapshot
from tests.cli.bench_process import Start
from tests.containers.image_here import Here, build_here
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.test_bench_container import check_confined, containers_of
from tests.containers.test_bench_fleet import ssh_with
from tests.containers.test_measure_container import check_files_are_only_read, volumes_of
from tests.containers.throwaway import Daemon
from tests.waiting import awaited

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.board(is_small=True, is_metered=False),
    pytest.mark.usefixtures("as_in_a_terminal"),
]
NETWORKS = ("squeezenet1_1", "mobilenet_v3_small")
PATIENCE_S = 1500  # a machine with other work needs several times as long
VERSION = "10.3.0+stand-in"


@pytest.fixture(scope="session")
def image(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Here:
    try:
        folder = tmp_path_factory.mktemp("image")
        return build_here(daemon.address, folder, with_tensorrt=True)
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture
def command(image: Here, tmp_path: Path) -> list[str]:
    options = ["--images", str(image.table), "--offline", "--profile", "brief"]
    options += ["--runs", str(tmp_path / "runs"), "--engine", "tensorrt"]
    return [sys.executable, "-m", "mansard.cli", "measure", *options]


def wait_until(is_so: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.02)


def built(runs: Path) -> dict[str, EngineBuild]:
    rows = [read_document(path, EngineBuild) for path in (runs / "engines").glob("*.engine.json")]
    return {row.model: row for row in rows}


def n_rows(runs: Path) -> int:
    (path,) = runs.glob("engines/*/builds.jsonl")
    return len(read_rows(path, EngineBuild).rows)


def finished(runs: Path) -> list[Measurement]:
    paths = sorted(runs.glob("*/measurements.jsonl"))
    return [row for path in paths for row in read_rows(path, Measurement).rows]


def check_it_may_write_its_outputs_alone(container: Any) -> None:
    writable = {one["Destination"] for one in container.attrs["Mounts"] if one["RW"]}
    assert writable == {"/outputs"}
    assert container.attrs["HostConfig"]["ReadonlyRootfs"]
    assert container.attrs["HostConfig"]["NetworkMode"] == "none"
    assert container.attrs["HostConfig"]["CapDrop"] == ["ALL"]


def check_rows(rows: list[Measurement], names: tuple[str, ...], n_modes: int) -> None:
    assert sorted(row.model for row in rows) == sorted(names * n_modes)
    for row in rows:
        assert row.failure is None
        assert (row.engine, row.engine_version) == ("tensorrt", VERSION)
        assert (row.provider, row.processor, row.source) == ("tensorrt", "cpu", "simulated")
        assert row.seconds_s or row.rejected_s
        assert row.call_seconds_s


def test_two_networks_killed_while_building_and_resumed(
    board: Path, command: list[str], start: Start, tmp_path: Path, daemon: Daemon,
    docker_client: Any,
) -> None:  # fmt: skip
    runs, found = tmp_path / "runs", snapshot(board)
    command += ["--container-engine", daemon.address, "--board", str(board)]
    command += ["--mode", "15W,MAXN", *NETWORKS]
    process = start(command)
    wait_until(lambda: [*runs.glob("engines/*/builds.jsonl")] and n_rows(runs) == 1, process)
    (container,) = containers_of(docker_client)
    check_it_may_write_its_outputs_alone(container)
    assert len(volumes_of(docker_client)) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert awaited(lambda: not containers_of(docker_client))
    assert not finished(runs)
    ((_, first),) = built(runs).items()
    # Of the other one nothing is there, not even a part.
    assert [path.name for path in (runs / "engines").glob("*.engine")] == [first.engine_file]

    process = start(command)
    wait_until(lambda: finished(runs), process)
    (container,) = containers_of(docker_client)
    check_confined(container)  # nothing that is mounted can be written
    (volume,) = volumes_of(docker_client)
    check_files_are_only_read(container, volume["Name"])
    out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "MAXN, engine files: resumed" in said
    assert snapshot(board) == found
    assert volumes_of(docker_client) == containers_of(docker_client) == []
    assert built(runs)[first.model] == first  # it was not built again
    (manifest,) = [
        read_document(path, Manifest) for path in (runs / "engines").glob("*/manifest.json")
    ]
    assert (manifest.kind, manifest.mode_read_back.name) == ("builds", "MAXN")
    rows = {row.model: row for row in built(runs).values()}
    assert rows.keys() == set(NETWORKS)
    assert {row.source for row in rows.values()} == {"simulated"}
    check_rows(finished(runs), NETWORKS, n_modes=2)
    assert all(name in out for name in (*NETWORKS, "15W", "MAXN"))

    process = start(command)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert "Building" not in said
    assert "engine files" not in said


@pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd()))
def test_over_ssh_the_same(
    board: Path, command: list[str], start: Start, tmp_path: Path, daemon: Daemon,
    docker_client: Any,
) -> None:  # fmt: skip
    runs, found, hosts = tmp_path / "runs", snapshot(board), tmp_path / "hosts.toml"
    socket = daemon.address.removeprefix("unix://")
    hosts.write_text(f'[boards.far]\ndocker = "orin"\nsocket = "{socket}"\nroot = "{board}"\n')
    command += ["--hosts-file", str(hosts), "--host", "far", "--mode", "15W", NETWORKS[0]]
    with ssh_board(tmp_path / "ssh") as ssh:
        path = f"{ssh_with(tmp_path / 'bin', ssh.options)}:{os.environ['PATH']}"
        process = start(command, env={**os.environ, "PATH": path})
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert f"far: {NETWORKS[0]} × 1 fp32: built" in said
    check_rows(finished(runs), NETWORKS[:1], n_modes=1)
    assert snapshot(board) == found
    assert volumes_of(docker_client) == containers_of(docker_client) == []
