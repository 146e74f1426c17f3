"""Files for containers: sent once, mounted read-only, removed with the process that sent them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.hosts import Host
from mansard.containers.launch import remove_leftovers
from mansard.containers.measurer import ContainerMeasurer
from mansard.containers.settings import OWNER_LABEL
from mansard.containers.tunnel import open_tunnel
from mansard.containers.volumes import FilesVolume, files_volume
from mansard.core.errors import InputError, StorageError
from mansard.core.hashing import file_hash
from mansard.core.power_mode import core_count_mode
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.measuring.events import Measurer
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.runner import run_plan
from tests.cli.bench_process import Start
from tests.containers.launching import all_containers, launch
from tests.containers.reading_room import Reading, ReadingPlan, ReadingRow
from tests.containers.ssh_board import ssh_board, why_no_sshd
from tests.containers.throwaway import (
    REPOSITORY,
    Daemon,
    import_bare_image,
    throwaway_daemon,
)
from tests.waiting import awaited

docker = pytest.mark.docker
NETWORK = b"network" * 300_000  # 2.1 MB: three pieces
WEIGHTS = b"weights"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with two files, one of which nobody else may read here."""
    folder = tmp_path / "files"
    (folder / "weights").mkdir(parents=True)
    (folder / "a network ü.onnx").write_bytes(NETWORK)
    (folder / "weights/data").write_bytes(WEIGHTS)
    (folder / "weights/data").chmod(0o600)
    return folder


def reading_plan(n_cpus: int = 1) -> ReadingPlan:
    machine = identify()
    return ReadingPlan(
        profile="brief",
        machine=machine,
        processor="cpu",
        gpu=None,
        seed=1,
        mode=core_count_mode(n_cpus),
        cpus=machine.cpus[:1],
        versions={"mansard": "0.1.0"},
        trials=(Reading(file="a network ü.onnx"), Reading(file="weights/data")),
        protocol=PROTOCOLS["brief"],
        unknown={"gpu": "reading needs none"},
    )


def read_with(measurer: Measurer, runs: Path, plan: ReadingPlan) -> dict[str, ReadingRow]:
    outcome = run_plan(plan, runs, measurer=measurer)
    rows = read_rows(outcome.folder / "readings.jsonl", ReadingRow).rows
    return {row.file: row for row in rows}


def measurer_of(engine: ContainerEngine, image: str, volume: str) -> ContainerMeasurer:
    environment = {"PYTHONPATH": str(REPOSITORY)}
    return ContainerMeasurer(engine, launch(image, environment=environment, files=volume))


def volumes(engine: ContainerEngine) -> list[dict[str, Any]]:
    found = engine.client.api.volumes(filters={"label": OWNER_LABEL})
    return list(found["Volumes"] or ())


@pytest.fixture(autouse=True)
def volumes_of_one_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a volume on the daemon, nor one without a label."""
    yield
    if "daemon" in request.fixturenames:
        client = request.getfixturevalue("docker_client")
        assert not client.api.volumes()["Volumes"]


def test_in_this_process_the_folder_itself_is_read(files: Path, tmp_path: Path) -> None:
    rows = read_with(LocalMeasurer(files=files), tmp_path / "runs", reading_plan())
    assert rows["weights/data"].file_hash == file_hash(WEIGHTS)
    assert set(rows["weights/data"].refusals.values()) == {""}  # here nothing is refused


@docker
def test_two_modes_share_one_volume_which_they_only_read(
    engine: ContainerEngine, bare_image: str, files: Path, tmp_path: Path
) -> None:
    sent: list[tuple[int, int]] = []
    with files_volume(engine) as volume:
        for n_cpus in (1, 2):
            name = volume.fill(bare_image, files, lambda *now: sent.append(now))
            assert [each["Name"] for each in volumes(engine)] == [name]
            assert all_containers(engine.client) == []  # what served to fill it is gone
            measurer = measurer_of(engine, bare_image, name)
            rows = read_with(measurer, tmp_path / "runs", reading_plan(n_cpus))
            check_rows(rows)
    # Of two modes one has sent: pieces of 1 MiB, 2.1 MB and 7 bytes in all.
    n_all = len(NETWORK) + len(WEIGHTS)
    assert sent == [(n, n_all) for n in (1 << 20, 2 << 20, len(NETWORK), n_all)]
    assert volumes(engine) == []


def check_rows(rows: dict[str, ReadingRow]) -> None:
    network, weights = rows["a network ü.onnx"], rows["weights/data"]
    assert (network.file_hash, network.n_bytes) == (file_hash(NETWORK), len(NETWORK))
    assert (weights.file_hash, weights.n_bytes) == (file_hash(WEIGHTS), len(WEIGHTS))
    assert network.there == ("a network ü.onnx", "weights", "weights/data")
    for row in rows.values():
        assert row.mount_options.split(",")[0] == "ro"
        assert set(row.refusals.values()) == {"Read-only file system"}
        assert len(row.refusals) == 4
        assert set(row.capabilities.values()) == {0}
        assert len(row.capabilities) == 5


@docker
@pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd()))
def test_over_ssh(daemon: Daemon, bare_image: str, files: Path, tmp_path: Path) -> None:
    there = Host(name="orin", ssh="orin", socket=daemon.address.removeprefix("unix://"))
    with (
        ssh_board(tmp_path / "board") as board,
        open_tunnel(there, board.options) as tunnel,
        connect(tunnel.address) as connected,
    ):
        with files_volume(connected) as volume:
            name = volume.fill(bare_image, files)
            measurer = measurer_of(connected, bare_image, name)
            check_rows(read_with(measurer, tmp_path / "runs", reading_plan()))
        assert volumes(connected) == []


@docker
def test_only_what_has_changed_is_sent_again(
    engine: ContainerEngine, bare_image: str, files: Path, tmp_path: Path
) -> None:
    sent: list[tuple[int, int]] = []
    with files_volume(engine) as volume:
        volume.fill(bare_image, files)
        (files / "a network ü.onnx").write_bytes(NETWORK)  # another time, the same content
        (files / "weights/data").write_bytes(b"others")
        (files / "further").write_bytes(b"")
        name = volume.fill(bare_image, files, lambda *now: sent.append(now))
        measurer = measurer_of(engine, bare_image, name)
        rows = read_with(measurer, tmp_path / "runs", reading_plan())
        assert rows["weights/data"].file_hash == file_hash(b"others")
        assert rows["a network ü.onnx"].file_hash == file_hash(NETWORK)
        assert "further" in rows["weights/data"].there
    assert sent == [(6, 6)]


@docker
def test_a_volume_that_somebody_has_removed_is_made_and_filled_again(
    engine: ContainerEngine, bare_image: str, files: Path, tmp_path: Path
) -> None:
    with files_volume(engine) as volume:
        engine.client.api.remove_volume(volume.fill(bare_image, files))
        measurer = measurer_of(engine, bare_image, volume.fill(bare_image, files))
        check_rows(read_with(measurer, tmp_path / "runs", reading_plan()))


@docker
def test_a_file_that_changes_while_it_is_sent(
    engine: ContainerEngine, bare_image: str, files: Path
) -> None:
    path = files / "a network ü.onnx"

    def change(n_done: int, n_all: int) -> None:
        if n_done == 1 << 20:
            with path.open("ab") as stream:
                stream.write(b"more")

    with files_volume(engine) as volume:
        with pytest.raises(InputError, match="changed while it was sent"):
            volume.fill(bare_image, files, change)
        assert all_containers(engine.client) == []
        sent: list[int] = []
        volume.fill(bare_image, files, lambda n, _: sent.append(n))
        assert sent[-1] == len(NETWORK) + 4 + len(WEIGHTS)


@docker
def test_ctrl_c_while_it_is_sent_leaves_nothing(
    engine: ContainerEngine, bare_image: str, files: Path
) -> None:
    def interrupt(n_done: int, n_all: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), files_volume(engine) as volume:
        volume.fill(bare_image, files, interrupt)
    assert all_containers(engine.client) == []


@docker
def test_a_folder_that_is_not_there(
    engine: ContainerEngine, bare_image: str, tmp_path: Path
) -> None:
    with files_volume(engine) as volume, pytest.raises(InputError, match="not a folder with files"):
        volume.fill(bare_image, tmp_path / "none")


KEEPER = """
import sys
from pathlib import Path
from mansard.containers.engine import connect
from mansard.containers.volumes import files_volume
from mansard.containers.launch import launched
from tests.containers.launching import launch
with connect(sys.argv[1]) as engine, files_volume(engine) as volume:
    name = volume.fill(sys.argv[2], Path(sys.argv[3]))
    with launched(engine, launch(sys.argv[2], "-c", sys.argv[4], files=name)) as container:
        for line in container.lines():
            print(name, flush=True)
"""
LIST = "import os, sys; print(os.listdir('/files'), flush=True); sys.stdin.read()"


@docker
def test_the_next_start_removes_the_volume_of_a_killed_process(
    engine: ContainerEngine, daemon: Daemon, bare_image: str, files: Path, start: Start
) -> None:
    command = [sys.executable, "-c", KEEPER, daemon.address, bare_image, str(files), LIST]
    keeper: subprocess.Popen[str] = start(command, cwd=REPOSITORY)
    assert keeper.stdout is not None
    name = keeper.stdout.readline().strip()
    assert remove_leftovers(engine) == ()  # its owner lives
    assert [each["Name"] for each in volumes(engine)] == [name]
    keeper.kill()
    keeper.communicate()
    assert awaited(lambda: not all_containers(engine.client))
    assert [each["Name"] for each in volumes(engine)] == [name]
    remove_leftovers(engine)
    assert volumes(engine) == []


def elsewhere(engine: ContainerEngine) -> ContainerEngine:
    """The same engine, as if its disk were not seen from here."""
    return dataclasses.replace(engine, facts=msgspec.structs.replace(engine.facts, is_local=False))


@docker
@pytest.mark.usefixtures("daemon")  # it skips where there can be none
def test_a_full_disk_of_the_engine_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(48 << 20))
    with throwaway_daemon(disk_bytes=32 << 20) as own, connect(own.address) as engine:
        image = import_bare_image(engine.client)
        # Where its disk is seen it is known before, elsewhere the engine says so.
        check_full(engine, image, tmp_path, "are free")
        check_full(elsewhere(engine), image, tmp_path, "the disk of the container engine is full")
        if why_no_sshd() is None:
            there = Host(name="orin", ssh="orin", socket=own.address.removeprefix("unix://"))
            with (
                ssh_board(tmp_path / "board") as board,
                open_tunnel(there, board.options) as tunnel,
                connect(tunnel.address) as connected,
            ):
                words = "the disk of the container engine is full"
                check_full(elsewhere(connected), image, tmp_path, words)


def check_full(engine: ContainerEngine, image: str, folder: Path, words: str) -> None:
    with files_volume(engine) as volume, pytest.raises(StorageError, match=words) as caught:
        volume.fill(image, folder)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.fix
    assert volumes(engine) == []
    assert all_containers(engine.client) == []


def test_an_empty_volume_is_not_made() -> None:
    """No engine is asked for anything where no job names files."""
    FilesVolume(None).remove()  # type: ignore[arg-type]
