"""A container engine on another machine: its socket forwarded here by the system's OpenSSH.

``ssh -N -L local.sock:/var/run/docker.sock board`` needs nothing of Python over there, and does
what ssh_config says (aliases, keys, jump hosts). Source: ssh(1), ssh_config(5).

What ssh says when it cannot connect or forward becomes one line with what to do about it. Its
words differ little between versions: a few of each message are looked for. Source: messages of
OpenSSH 9.2 that were seen, and of its sources (sshconnect.c, channels.c, misc.c).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from mansard.containers.hosts import Host
from mansard.core.errors import ContainerError
from mansard.core.text import printable

_ONCE_BY_HAND = "connect once by hand ('ssh {board}'), and see that it asks for nothing"
# Words of ssh's -> what is the matter, and what helps.
_CONNECTING = (
    (
        r"could not resolve hostname|name or service not known|no address associated",
        "there is no machine of that name",
        "check the name, ssh_config and hosts.toml",
    ),
    (
        r"connection timed out|no route to host|network is unreachable|host is down",
        "the board cannot be reached",
        "check that it is switched on and in the network: 'ping {board}'",
    ),
    (
        r"connection refused",
        "the board is there, but no sshd listens on it",
        "start it on the board: 'sudo systemctl enable --now ssh'; or give the port in ssh_config",
    ),
    (
        r"host key verification failed|remote host identification has changed|host key is known",
        "the board's host key is not known, or is another one",
        "connect once by hand ('ssh {board}') and compare the key that it shows",
    ),
    (
        r"permission denied \(|too many authentication failures|no supported authentication",
        "the board refuses our key",
        "put your public key there: 'ssh-copy-id {board}'; " + _ONCE_BY_HAND,
    ),
    (
        r"kex_exchange_identification|banner exchange|connection (reset|closed)",
        "what answers there is no sshd, or it hung up",
        _ONCE_BY_HAND,
    ),
    (
        r"forwarding|address already in use|cannot listen|could not request",
        "the engine's socket cannot be forwarded",
        "allow it in sshd_config on the board: AllowStreamLocalForwarding yes; and look for "
        "forwards in ssh_config that are open already",
    ),
)


def explain_ssh(said: str, board: str) -> ContainerError:
    """Why ssh ended before it was connected."""
    for words, what, fix in _CONNECTING:
        if re.search(words, said, re.IGNORECASE):
            return ContainerError(f"{what} ({said})", where=board, fix=fix.format(board=board))
    return ContainerError(
        f"ssh has ended: {said or 'it does not say why'}",
        where=board,
        fix=_ONCE_BY_HAND.format(board=board),
    )


def explain_forwarding(seen: str, said: str, host: Host) -> ContainerError:
    """Why the engine does not answer though ssh is connected.

    ``seen``: what a look over there found: absent, denied, silent, listening, or nothing.
    """
    path = host.socket
    # OpenSSH 9.2 says "connect failed" of a forward that its configuration does not allow.
    if seen == "listening" or re.search(r"administratively prohibited", said, re.IGNORECASE):
        return ContainerError(
            "its sshd does not allow the engine's socket to be forwarded",
            where=host.name,
            fix="set 'AllowStreamLocalForwarding yes' and 'DisableForwarding no' in sshd_config on "
            "the board, or the user's key there without 'restrict'",
        )
    what, fix = {
        "absent": (
            f"no container engine listens on {path}",
            "install and start Docker on the board: 'sudo systemctl enable --now docker'",
        ),
        "denied": (
            f"this user may not use {path}",
            "add it to the group docker on the board and connect anew: "
            "'sudo usermod -aG docker USER'; that group is as good as root there",
        ),
    }.get(
        seen,
        (
            f"nothing answers on {path}",
            "look at 'systemctl status docker' and its journal on the board",
        ),
    )
    return ContainerError(f"{what}{f' ({said})' if said else ''}", where=host.name, fix=fix)


CONNECT_S = 15
_READY_S = 60.0  # key exchange on a small board, over a jump host
_STOP_S = 5.0
_POLL_S = 0.05
_OPTIONS = {
    "BatchMode": "yes",  # a password cannot be typed here
    "ConnectTimeout": str(CONNECT_S),
    "ConnectionAttempts": "1",
    "ExitOnForwardFailure": "yes",
    "ServerAliveInterval": "15",  # a board that is gone is found out within a minute
    "ServerAliveCountMax": "4",
    "StreamLocalBindMask": "0177",  # the socket is the caller's alone
    "ControlMaster": "no",  # a connection of its own, which ends with this
    "ControlPath": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "no",  # it would take away ours, too
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "LogLevel": "INFO",  # else it does not say that a forward was refused
}
# Ends ssh when the pipe on its input does: with us, however we end. Else it would live on.
_KEEPER = """exec 3<&0
"$@" </dev/null 3<&- & ssh=$!
{ cat <&3 >/dev/null; kill $ssh; } 2>/dev/null &
exec 3<&-
wait $ssh"""


class Tunnel:
    """A forwarded socket; ``address`` is what the Docker SDK wants."""

    def __init__(
        self,
        host: Host,
        path: Path,
        options: Sequence[str],
        process: subprocess.Popen[bytes],
        said: IO[bytes],
    ) -> None:
        self.address = f"unix://{path}"
        self._host, self._path, self._options = host, path, options
        self._process, self._said = process, said

    @property
    def has_ended(self) -> bool:
        """Whether ssh is gone: the board, the network, or its process was stopped."""
        return self._process.poll() is not None

    def last_words(self) -> str:
        """What ssh has said so far, on one line."""
        self._said.seek(0)
        text = self._said.read().decode("utf-8", "replace")
        return printable(" | ".join(line.strip() for line in text.splitlines() if line.strip()))

    def wait_until_ready(self) -> None:
        """Wait until the engine over there answers; raises ContainerError that says why not."""
        end_s = time.monotonic() + _READY_S
        while not self._path.exists():
            if self.has_ended:
                raise explain_ssh(self.last_words(), self._host.name)
            if time.monotonic() > end_s:
                raise ContainerError(
                    f"ssh has not connected within {_READY_S:g} s", where=self._host.name
                )
            time.sleep(_POLL_S)
        if not _answers(self._path):
            seen = _look_over_there(self._host, self._options)
            raise explain_forwarding(seen, self.last_words(), self._host)

    def stop(self) -> None:
        """End ssh, and all connections through it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def open_tunnel(host: Host, options: Sequence[str] = ()) -> Iterator[Tunnel]:
    """The engine of ``host``, reachable until the end of this; raises ContainerError.

    ``options`` are handed to ssh, such as ``-F file``.
    """
    if host.ssh is None:
        raise ValueError("a board whose engine listens here needs no tunnel")
    with _private_folder() as folder, tempfile.TemporaryFile() as said:
        path = folder / "docker.sock"
        command = [*ssh_command(host, options), "-N", "-L", f"{path}:{host.socket}"]
        process = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", *command, "--", host.ssh],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # a Ctrl-C is for us: the board is put back through it
        )
        tunnel = Tunnel(host, path, options, process, said)
        try:
            tunnel.wait_until_ready()
            yield tunnel
        finally:
            tunnel.stop()


def ssh_command(host: Host, options: Sequence[str] = ()) -> list[str]:
    """ssh with what we ask of it, without its destination; raises ContainerError."""
    program = shutil.which("ssh")
    if program is None:
        raise ContainerError(
            "ssh is not installed on this machine",
            where=host.name,
            fix="install OpenSSH's client: sudo apt-get install openssh-client",
        )
    port = [] if host.port is None else ["-p", str(host.port)]
    ours = [f"-o{name}={value}" for name, value in _OPTIONS.items()]
    return [program, *options, *port, "-T", *ours]


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder for the socket that only this user can read; its path is short."""
    # A socket's path has 107 bytes at most (unix(7)), and a user's TMPDIR can be long.
    parent = tempfile.gettempdir()
    short = parent if len(os.fsencode(parent)) < 60 else "/tmp"  # noqa: S108 - mkdtemp is safe
    with tempfile.TemporaryDirectory(prefix="mansard-", dir=short) as folder:
        yield Path(folder)


def _answers(path: Path) -> bool:
    """Whether an engine answers through the socket; see ``_ping`` of the Docker Engine API."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_READY_S)
        try:
            probe.connect(str(path))
            probe.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return probe.recv(64).startswith(b"HTTP/1.")
        except OSError:
            return False


def _look_over_there(host: Host, options: Sequence[str]) -> str:
    """What is the matter: ``absent``, ``denied``, ``silent``, or ``listening``, so that it must
    be the forwarding; empty if unknown."""
    if host.ssh is None:
        return ""
    path = shlex.quote(host.socket)
    # 00010000: it listens (__SO_ACCEPTCON, include/linux/net.h of the Linux kernel).
    entry = shlex.quote(f" 00010000 .*/{re.escape(PurePosixPath(host.socket).name)}$")
    script = (
        f"if [ ! -e {path} ]; then echo absent; elif [ ! -w {path} ]; then echo denied; "
        f"elif grep -q {entry} /proc/net/unix; then echo listening; else echo silent; fi"
    )
    command = [*ssh_command(host, options), "--", host.ssh, f"sh -c {shlex.quote(script)}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_READY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()
