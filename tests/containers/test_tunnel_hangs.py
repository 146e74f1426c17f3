"""An ssh that hangs at any stage is ended, with one line; here with limits of a second."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mansard.containers.hosts import Host
from mansard.containers.tunnel import (
    LIMITS,
    Sign,
    Tunnel,
    TunnelTimes,
    ask_for_life,
    open_tunnel,
)
from mansard.core.errors import ContainerError, ControllerLost
from tests.containers.ssh_board import SshBoard, descendants, ssh_board, why_no_sshd
from tests.containers.test_tunnel_sshd import Engine, command_lines, orin
from tests.waiting import awaited

REASON = why_no_sshd()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
SOON = TunnelTimes(ready_s=1, engine_s=1, look_s=1, every_s=0.1, silent_s=0.5, stop_s=1)
PATIENT = TunnelTimes(every_s=0.1, silent_s=3, stop_s=1)


def test_all_stages_together_end_within_ninety_seconds() -> None:
    opening = LIMITS.ready_s + LIMITS.engine_s + LIMITS.look_s + LIMITS.stop_s
    later = LIMITS.every_s + LIMITS.silent_s + 2 * LIMITS.stop_s
    assert max(opening, later) < 90


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    started = Engine(tmp_path / "e.sock")
    yield started
    started.close()


def with_tunnel(host: Host, *options: str, limits: TunnelTimes = SOON) -> None:
    with open_tunnel(host, options, limits):
        pass


def test_a_port_that_accepts_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        host = Host(name="bench", ssh="nvidia@127.0.0.1", port=port)
        with pytest.raises(ContainerError, match="ssh has not connected within 1 s") as caught:
            with_tunnel(host)
    assert f"('ssh -p {port} nvidia@127.0.0.1')" in str(caught.value)


@contextmanager
def hung_login(folder: Path) -> Iterator[SshBoard]:
    """An sshd over which every command hangs."""
    with ssh_board(folder, "ForceCommand sleep 1000") as board:
        yield board


def test_a_command_over_there_that_hangs(tmp_path: Path) -> None:
    with hung_login(tmp_path / "ssh") as board:
        with pytest.raises(ContainerError, match=r"nothing answers on .*none\.sock") as caught:
            with_tunnel(orin(tmp_path / "none.sock"), *board.options, limits=TunnelTimes(look_s=1))
        config = str(board.folder).encode()
        assert awaited(lambda: not any(config in line for line in ssh_clients()))
    assert "'ssh orin systemctl status docker'" in str(caught.value)


def ssh_clients() -> list[bytes]:
    return [line for line in command_lines() if line.partition(b"\0")[0].endswith(b"/ssh")]


@pytest.mark.parametrize("who", ["the ssh here", "the sshd there"])
def test_a_line_that_stalls_in_the_middle_of_an_answer(
    tmp_path: Path, engine: Engine, who: str
) -> None:
    def read_on(board: SshBoard) -> None:
        with open_tunnel(orin(engine.path), board.options, PATIENT) as tunnel:
            with socket.socket(socket.AF_UNIX) as reader:
                reader.connect(tunnel.address.removeprefix("unix://"))
                reader.settimeout(60)  # what waits for an answer waits no longer than ssh lives
                is_here = who == "the ssh here"
                for pid in clients_of(tunnel) if is_here else descendants(board.pid):
                    os.kill(pid, signal.SIGSTOP)
                try:
                    said = reader.recv(1)
                except ConnectionResetError:
                    said = b""
            assert said == b""
            raise ControllerLost("its board controller has ended", where="orin")

    with ssh_board(tmp_path / "ssh") as board:
        try:
            with pytest.raises(ControllerLost, match=r"nothing came through ssh for 3 s") as caught:
                read_on(board)
        finally:
            for pid in descendants(board.pid):
                os.kill(pid, signal.SIGCONT)
    assert "the same command restores the board first" in str(caught.value)


def clients_of(tunnel: Tunnel) -> list[int]:
    path = tunnel.address.removeprefix("unix://")
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if is_client(folder / "cmdline", path)
    ]


def is_client(cmdline: Path, path: str) -> bool:
    try:
        words = cmdline.read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"/ssh") and any(path.encode() in word for word in words)


def test_an_engine_that_is_started_anew_is_no_hang(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs: list[Sign] = []

    def ask(path: Path, timeout_s: float) -> Sign:
        signs.append(ask_for_life(path, timeout_s))
        return signs[-1]

    monkeypatch.setattr("mansard.containers.tunnel.ask_for_life", ask)
    limits = TunnelTimes(every_s=0.1, stop_s=1)
    with (
        ssh_board(tmp_path / "ssh") as board,
        open_tunnel(orin(engine.path), board.options, limits) as tunnel,
    ):
        engine.close()
        engine.path.unlink()
        assert awaited(lambda: signs.count("refused") >= 10)
        assert not tunnel.has_ended


def test_an_ssh_that_never_stops_talking_is_kept_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nexec /usr/bin/yes 'secret words' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ContainerError, match="ssh has not connected within 1 s") as caught:
        with_tunnel(Host(name="orin", ssh="orin"))
    assert len(str(caught.value)) < 10_000
    assert awaited(lambda: not any(b"secret words" in line for line in command_lines()))
