"""A container engine on another machine: its socket forwarded here by the system's OpenSSH.

``ssh -N -L local.sock:/var/run/docker.sock board`` needs nothing of Python over there, and does
what ssh_config says (aliases, keys, jump hosts). Source: ssh(1), ssh_config(5).

Every wait for ssh has an end: see ``TunnelTimes``. While ssh is connected, a thread asks the
engine for a sign of life. Where none comes, the thread kills ssh, which ends every wait for an
answer.

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
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from mansard.containers.hosts import Host, on_board
from mansard.core.errors import ContainerError, MansardError
from mansard.core.processes.programs import run_program, start_program
from mansard.core.storage.leftovers import system_temporary, temporary_folder
from mansard.core.text import printable

_ONCE_BY_HAND = "connect once by hand ('{ssh}'), and see that it asks for nothing"
# Words of ssh's -> what is the matter, and what helps.
_CONNECTING = (
    (
        r"timed out during banner exchange",
        "the server there sends nothing: it is not sshd, or it hangs",
        "find out what listens on that port ('ssh -v'), and restart sshd or the board",
    ),
    (
        r"could not resolve hostname|name or service not known|no address associated",
        "there is no machine of that name",
        "check the name, ssh_config and hosts.toml",
    ),
    (
        r"connection timed out|no route to host|network is unreachable|host is down",
        "the board cannot be reached",
        "check that it is switched on and in the network: 'ping {address}'",
    ),
    (
        r"connection refused",
        "the board is there, but no sshd listens on it",
        "start it at the board's own keyboard (sudo systemctl enable --now ssh); or give the port "
        "in ssh_config",
    ),
    (
        r"host key verification failed|remote host identification has changed|host key is known",
        "the board's host key is unknown, or is another one",
        "connect once by hand ('{ssh}') and compare the key that it shows",
    ),
    (
        r"permission denied \(|too many authentication failures|no supported authentication",
        "the board refuses our key",
        "put your public key there: '{copy_id}'; " + _ONCE_BY_HAND,
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


def explain_ssh(said: str, host: Host) -> ContainerError:
    """Why ssh ended before it connected."""
    for words, what, fix in _CONNECTING:
        if re.search(words, said, re.IGNORECASE):
            return ContainerError(f"{what} ({said})", where=host.name, fix=_by_hand(fix, host))
    return ContainerError(
        f"ssh has ended: {said or 'it does not say why'}",
        where=host.name,
        fix=_by_hand(_ONCE_BY_HAND, host),
    )


def _by_hand(fix: str, host: Host) -> str:
    """A remedy with the board's own address in its commands."""
    copy_id = host.login.replace("ssh", "ssh-copy-id", 1)
    address = (host.ssh or "").rpartition("@")[2]
    return fix.format(ssh=host.login, copy_id=copy_id, address=address)


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
            "install Docker on the board and start it: 'sudo systemctl enable --now docker'",
        ),
        "denied": (
            f"this user may not use {path}",
            "add it to the group docker on the board and reconnect: "
            "'sudo usermod -aG docker USER'; that group is as good as root there",
        ),
    }.get(
        seen,
        (
            f"nothing answers on {path}",
            "look at 'systemctl status docker' and 'journalctl -u docker' on the board",
        ),
    )
    words = f" ({said})" if said else ""
    return on_board(ContainerError(f"{what}{words}", where=host.name, fix=fix), host)


CONNECT_S = 15
_POLL_S = 0.05
_SAID_BYTES = 8192  # the end of ssh's output that is kept


class TunnelTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long each stage of a tunnel may last; a hung ssh ends within 90 s in all.

    While it opens: ready + engine + look + stop. Later, even in the middle of an answer: every +
    silent + stop.
    """

    ready_s: float = 55.0  # key exchange on a small board, over a jump host
    engine_s: float = 15.0  # for the engine's first answer
    look_s: float = 10.0  # to find out on the board why it does not answer
    every_s: float = 10.0  # between two signs of life
    silent_s: float = 55.0  # for one of them: megabytes may come before it on a slow line
    stop_s: float = 5.0  # for ssh to end by itself


LIMITS = TunnelTimes()
Sign = Literal["alive", "refused", "silent"]
_OPTIONS = {
    "BatchMode": "yes",  # a password cannot be typed here
    "ConnectTimeout": str(CONNECT_S),
    "ConnectionAttempts": "1",
    "ExitOnForwardFailure": "yes",
    "ServerAliveInterval": "15",  # a board that is gone is found out within a minute
    "ServerAliveCountMax": "4",
    "StreamLocalBindMask": "0177",  # the socket is the caller's alone
    "ControlMaster": "no",  # a separate connection, which ends with this process
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
        limits: TunnelTimes,
    ) -> None:
        self.address = f"unix://{path}"
        self._host, self._path, self._options = host, path, options
        self._process, self._limits = process, limits
        self._said = b""
        self._is_silent = False
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def has_ended(self) -> bool:
        """Whether ssh is gone: the board, the network, or its process was stopped."""
        return self._process.poll() is not None

    def last_words(self) -> str:
        """The end of ssh's messages so far, on one line."""
        if self.has_ended:
            self._reader.join(self._limits.stop_s)
        text = self._said.decode("utf-8", "replace")
        return printable(" | ".join(line.strip() for line in text.splitlines() if line.strip()))

    def wait_until_ready(self) -> None:
        """Wait until the remote engine answers; raises ContainerError with the reason if not."""
        limits = self._limits
        end_s = time.monotonic() + limits.ready_s
        while not self._path.exists():
            if self.has_ended:
                raise explain_ssh(self.last_words(), self._host)
            if time.monotonic() > end_s:
                said = self.last_words()
                raise ContainerError(
                    f"ssh has not connected within {limits.ready_s:g} s"
                    f"{f' ({said})' if said else ''}",
                    where=self._host.name,
                    fix=_by_hand(_ONCE_BY_HAND, self._host),
                )
            time.sleep(_POLL_S)
        if ask_for_life(self._path, limits.engine_s) != "alive":
            seen = _look_over_there(self._host, self._options, limits.look_s)
            raise explain_forwarding(seen, self.last_words(), self._host)
        threading.Thread(target=self._watch, daemon=True).start()

    def explain(self, error: MansardError) -> None:
        """Raise ``error`` again, with the reason for ssh's end if it has ended."""
        if not self._is_silent and not self.has_ended:
            return
        why = f"ssh to it has ended: {self.last_words() or 'it does not say why'}"
        if self._is_silent:
            why = f"nothing came through ssh for {self._limits.silent_s:g} s, so it was ended"
        raise type(error)(
            f"{error.what} ({why})",
            where=error.where,
            fix=f"look at the board and the network to it ('{self._host.login}'); the same command "
            "restores the board first, and resumes",
        ) from error

    def stop(self) -> None:
        """End ssh, and all connections through it."""
        self._is_over.set()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(self._limits.stop_s)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._reader.join(self._limits.stop_s)

    def _watch(self) -> None:
        """Ask for signs of life; kill ssh where none comes."""
        while not self._is_over.wait(self._limits.every_s) and not self.has_ended:
            # An engine that refuses has ended, or starts again: the next request to it tells.
            is_silent = ask_for_life(self._path, self._limits.silent_s) == "silent"
            if is_silent and not self._is_over.is_set() and not self.has_ended:
                self._is_silent = True
                self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        """Keep the end of what ssh says; unread, it would block."""
        if self._process.stderr is not None:
            with self._process.stderr as said:
                while more := said.read(_SAID_BYTES):
                    self._said = (self._said + more)[-_SAID_BYTES:]


@contextlib.contextmanager
def open_tunnel(
    host: Host, options: Sequence[str] = (), limits: TunnelTimes = LIMITS
) -> Iterator[Tunnel]:
    """The engine of ``host``, reachable within the block; raises ContainerError.

    ``options`` are handed to ssh, such as ``-F file``. Where ssh has ended or hangs, an error that
    is raised inside says so.
    """
    with _private_folder() as folder:
        path = folder / "docker.sock"
        command = ssh_command(host, options, "-N", "-L", f"{path}:{host.socket}")
        # In a new session: Ctrl-C must not end it, as the board is restored through it.
        process = start_program(
            ["/bin/sh", "-c", _KEEPER, "keeper", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            error=ContainerError,
        )
        tunnel = Tunnel(host, path, options, process, limits)
        try:
            tunnel.wait_until_ready()
            try:
                yield tunnel
            except MansardError as error:
                tunnel.explain(error)
                raise
        finally:
            tunnel.stop()


def ssh_command(host: Host, options: Sequence[str], *further: str) -> list[str]:
    """ssh to ``host`` with our options and ``further`` ones; raises ContainerError."""
    if host.ssh is None:
        raise ValueError("a board whose engine listens here needs no tunnel")
    program = shutil.which("ssh")
    if program is None:
        raise ContainerError(
            "ssh is not installed on this machine",
            where=host.name,
            fix="install OpenSSH's client: sudo apt-get install openssh-client",
        )
    port = [] if host.port is None else ["-p", str(host.port)]
    ours = [f"-o{name}={value}" for name, value in _OPTIONS.items()]
    return [program, *options, *port, "-T", *ours, *further, "--", host.ssh]


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder for the socket that only this user can read; its path is short."""
    # A socket's path has 107 bytes at most (unix(7)), and a user's TMPDIR can be long.
    parent = system_temporary()
    short = parent if len(os.fsencode(parent)) < 60 else Path("/tmp")  # noqa: S108 - a folder of our own
    with temporary_folder(short) as folder:
        yield folder


def ask_for_life(path: Path, timeout_s: float) -> Sign:
    """Whether an engine answers through the socket; see ``_ping`` of the Docker Engine API."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout_s)
        try:
            probe.connect(str(path))
            probe.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return "alive" if probe.recv(64).startswith(b"HTTP/1.") else "refused"
        except TimeoutError:
            return "silent"
        except OSError:
            return "refused"


def _look_over_there(host: Host, options: Sequence[str], timeout_s: float) -> str:
    """The engine's socket there: ``absent``, ``denied`` to this user, ``silent``, or ``listening``
    (then its forwarding fails); empty if unknown."""
    path = shlex.quote(host.socket)
    # 00010000: it listens (__SO_ACCEPTCON, include/linux/net.h of the Linux kernel).
    entry = shlex.quote(f" 00010000 .*/{re.escape(PurePosixPath(host.socket).name)}$")
    script = (
        f"if [ ! -e {path} ]; then echo absent; elif [ ! -w {path} ]; then echo denied; "
        f"elif grep -q {entry} /proc/net/unix; then echo listening; else echo silent; fi"
    )
    command = [*ssh_command(host, options), f"sh -c {shlex.quote(script)}"]
    try:
        done = run_program(command, timeout_s=timeout_s)
    except MansardError:
        return ""
    return done.text.strip()
