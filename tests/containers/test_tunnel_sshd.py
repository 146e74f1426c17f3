"""A forwarded socket over a real sshd; skips where there is none."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mansard.containers.hosts import Host
from mansard.containers.tunnel import open_tunnel
from mansard.core.errors import ContainerError
from mansard.core.storage.leftovers import temporary_folder
from tests.containers.ssh_board import SshBoard, end_connections, ssh_board, why_no_sshd
from tests.containers.throwaway import Daemon
from tests.waiting import awaited

REASON = why_no_sshd()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    with ssh_board(tmp_path_factory.mktemp("ssh") / "board") as started:
        yield started


class Engine:
    """A socket that answers what an engine answers to a ping, and counts the askers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):  # who asked may be gone
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nOK")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    started = Engine(tmp_path_factory.mktemp("e") / "docker.sock")
    yield started
    started.close()


def orin(path: Path) -> Host:
    return Host(name="orin", ssh="orin", socket=str(path))


def ask(address: str) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.connect(address.removeprefix("unix://"))
        asker.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return asker.recv(64)


def test_the_engine_of_a_board_answers_here(board: SshBoard, engine: Engine) -> None:
    with open_tunnel(orin(engine.path), board.options) as tunnel:
        assert ask(tunnel.address).endswith(b"OK")
        assert not tunnel.has_ended
        path = Path(tunnel.address.removeprefix("unix://"))
        assert path.parent.stat().st_mode & 0o777 == 0o700  # nobody else's
        assert path.stat().st_mode & 0o077 == 0
    assert not path.parent.exists()
    with pytest.raises(OSError, match="No such file"):
        ask(tunnel.address)


@pytest.mark.docker
def test_a_real_engine_answers_here(board: SshBoard, daemon: Daemon) -> None:
    from mansard.containers.engine import connect

    path = Path(daemon.address.removeprefix("unix://"))
    with open_tunnel(orin(path), board.options) as tunnel, connect(tunnel.address) as connected:
        assert connected.facts.name == "Docker"
        assert connected.client.containers.list() == []


def test_without_an_engine_there_the_error_says_so(board: SshBoard, tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="orin: no container engine listens on"):
        with_tunnel(orin(tmp_path / "none.sock"), board)
    deaf = tmp_path / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as unheard:
        unheard.bind(str(deaf))  # nobody listens
        with pytest.raises(ContainerError, match=r"nothing answers on .*deaf\.sock"):
            with_tunnel(orin(deaf), board)


def test_a_board_that_cannot_be_reached(board: SshBoard) -> None:
    with pytest.raises(ContainerError, match="but no sshd listens on it"):
        with_tunnel(Host(name="orin", ssh="127.0.0.1", port=1), board)
    with pytest.raises(ContainerError, match="there is no machine of that name"):
        with_tunnel(Host(name="orin", ssh="no-such-board.invalid"), board)


def test_a_key_or_host_key_that_is_not_known(tmp_path: Path, engine: Engine) -> None:
    with ssh_board(tmp_path / "stranger", knows_key=False) as board:
        with pytest.raises(ContainerError, match=r"refuses our key.*ssh-copy-id orin"):
            with_tunnel(orin(engine.path), board)
        (board.folder / "known").write_text("")
        with pytest.raises(ContainerError, match="host key is unknown"):
            with_tunnel(orin(engine.path), board)


@pytest.mark.parametrize("setting", ["AllowStreamLocalForwarding no", "DisableForwarding yes"])
def test_forwarding_that_is_not_allowed(tmp_path: Path, engine: Engine, setting: str) -> None:
    with (
        ssh_board(tmp_path / "strict", setting) as board,
        pytest.raises(ContainerError, match="does not allow the engine's socket to be forwarded"),
    ):
        with_tunnel(orin(engine.path), board)


def test_without_ssh_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(ContainerError, match=r"orin: ssh is not installed.*openssh-client"),
        open_tunnel(Host(name="orin", ssh="orin")),
    ):
        pass


def test_a_board_that_goes_away_is_noticed(tmp_path: Path, engine: Engine) -> None:
    with (
        ssh_board(tmp_path / "short") as board,
        open_tunnel(orin(engine.path), board.options) as tunnel,
    ):
        end_connections(board.pid)
        assert awaited(lambda: tunnel.has_ended)
        with pytest.raises(OSError, match=r"refused|No such file"):
            ask(tunnel.address)


CALLER = """
import sys
from mansard.containers.hosts import Host
from mansard.containers.tunnel import open_tunnel

with open_tunnel(Host(name="b", ssh="orin", socket=sys.argv[1]), sys.argv[2:]) as tunnel:
    print(tunnel.address, flush=True)
    sys.stdin.read()
"""


def test_a_killed_caller_leaves_no_ssh_behind(board: SshBoard, engine: Engine) -> None:
    command = [sys.executable, "-c", CALLER, str(engine.path), *board.options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        address = caller.stdout.readline().decode().strip()
        assert ask(address).endswith(b"OK")
        caller.kill()
    path = Path(address.removeprefix("unix://"))
    assert awaited(lambda: not any(bytes(path) in line for line in command_lines()))
    with temporary_folder():  # the next one removes what the killed one left
        assert not path.parent.exists()


def with_tunnel(host: Host, board: SshBoard) -> None:
    with open_tunnel(host, board.options):
        pass


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # it has ended
            continue
