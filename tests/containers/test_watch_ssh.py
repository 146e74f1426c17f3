"""Boards that are watched over a real sshd, without a container; skips where there is none."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
import pytest

from mansard import api
from mansard.containers.board_watch import look_at_boards
from mansard.containers.hosts import Host
from mansard.containers.remote_files import board_files, own_path
from mansard.core.errors import ContainerError, DeviceError, MansardError
from mansard.core.records import BoardSample
from mansard.device.watching import BoardWatch
from mansard.simulator import create_board
from tests.cli.in_process import mansard
from tests.containers.ssh_board import SshBoard, end_connections, ssh_board, why_no_sshd
from tests.containers.test_bench_fleet import ssh_with

REASON = why_no_sshd()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    with ssh_board(tmp_path_factory.mktemp("ssh") / "board") as started:
        yield started


def simulated(name: str, folder: Path) -> Host:
    root = create_board(name, folder)
    return Host(name=name, ssh="orin", root=PurePosixPath(root))


def as_seen(sample: BoardSample) -> BoardSample:
    """Without what hangs on when it was read."""
    return msgspec.structs.replace(
        sample,
        time_s=0.0,
        watched_s=0.0,
        energy_j=0.0,
        rails=tuple(msgspec.structs.replace(rail, energy_j=0.0) for rail in sample.rails),
    )


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_over_ssh_says_what_it_says_here(name: str, tmp_path: Path, sshd: SshBoard) -> None:
    host = simulated(name, tmp_path)
    with board_files(host, sshd.options) as files:
        there = BoardWatch(files.folder, "board")
        there.read()
        files.fetch()
        here = BoardWatch(Path(host.root), "board")
        here.read()
        assert as_seen(there.read()) == as_seen(here.read())
        assert files.denied == ()
        # What changes and what goes over there does so here.
        temp = Path(host.root) / "sys/class/thermal/thermal_zone0/temp"
        temp.write_text("61000\n")
        clients = Path(host.root) / "sys/kernel/debug/nvmap/iovmm/clients"
        had_clients = clients.exists()
        clients.unlink(missing_ok=True)
        files.fetch()
        seen = there.read()
        assert seen.zones[0].temperature_c == 61.0
        assert not had_clients or seen.gpu_processes is None
    assert not files.folder.exists()


def test_boards_side_by_side_and_one_that_does_not_answer(tmp_path: Path, sshd: SshBoard) -> None:
    hosts = [simulated("agx-orin", tmp_path / "a"), simulated("tx2", tmp_path / "b")]
    gone = Host(name="gone", ssh="127.0.0.1", port=1)
    lost: dict[str, MansardError] = {}
    samples: list[BoardSample] = []
    looks = look_at_boards(
        [*hosts, gone],
        interval_s=0.1,
        n_samples=2,
        on_lost=lost.__setitem__,
        options=sshd.options,
    )
    with pytest.raises(DeviceError, match="1 boards did not answer: gone: the board is there"):
        samples.extend(looks)
    assert sorted(sample.board for sample in samples) == ["agx-orin"] * 2 + ["tx2"] * 2
    assert lost.keys() == {"gone"}
    assert not [one for one in threading.enumerate() if one.name.startswith("watch ")]
    with pytest.raises(ContainerError, match="no sshd listens on it"):
        list(look_at_boards([gone], interval_s=0.1, n_samples=1, options=sshd.options))


def test_the_last_words_of_an_ssh_that_hangs_up_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It takes no input any more, and only then says why.
    ssh = tmp_path / "ssh"
    ssh.write_text(
        "#!/bin/sh\nexec 0<&-\nsleep 0.5\n"
        "echo 'ssh: connect to host orin port 22: Connection refused' >&2\nexit 255\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ContainerError, match="no sshd listens on it"):
        list(look_at_boards([Host(name="gone", ssh="orin")], interval_s=0.1, n_samples=1))


def test_the_command_takes_hosts_by_name_and_records_them(
    tmp_path: Path, sshd: SshBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"left": "agx-orin", "right": "xavier-nx"}
    roots = {name: create_board(board, tmp_path / name) for name, board in names.items()}
    hosts, record = tmp_path / "hosts.toml", tmp_path / "looks.jsonl"
    lines = [f'[boards.{name}]\ndocker = "orin"\nroot = "{root}"\n' for name, root in roots.items()]
    hosts.write_text("".join(lines))
    path = f"{ssh_with(tmp_path / 'bin', sshd.options)}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    done = mansard(
        *("watch", "--host", "left,right", "--hosts-file", hosts, "--once", "--record", record)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("looks.jsonl: 2 rows\n")
    assert "throttled  no" in done.stdout
    found = {sample.board: sample for sample in api.read_samples(record)}
    assert {name: sample.mode for name, sample in found.items()} == {
        "left": "30W",
        "right": "10W_DESKTOP",
    }
    assert found["right"].power_w == 3.8


def test_a_board_that_goes_away_while_it_is_watched(tmp_path: Path) -> None:
    with ssh_board(tmp_path / "short") as board:
        host = simulated("tx2", tmp_path)
        with board_files(host, board.options) as files:
            end_connections(board.pid)
            with pytest.raises(ContainerError, match="tx2: the connection has ended"):
                files.fetch()


@pytest.mark.parametrize(
    "name", [b"/b/sys/../../../etc/cron.d/x", b"/etc/passwd", b"/b/home/a/b", b"/b/sys", b"x"]
)
def test_what_a_board_sends_stays_in_its_folder(name: bytes) -> None:
    assert own_path(name, "/b") is None
    assert own_path(b"/b/sys/a/b", "/b") == "/sys/a/b"
