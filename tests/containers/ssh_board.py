"""A real sshd on this machine's loopback, with keys, configuration and port of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

_START_S = 20


class SshBoard(msgspec.Struct, frozen=True):
    """An sshd, and what a client hands to ssh to get in: ``-F`` and a file."""

    alias: str
    options: tuple[str, ...]
    folder: Path
    pid: int


def why_no_sshd() -> str | None:
    """Why no sshd can be started; None where it can be tried."""
    lacking = [name for name in ("ssh", "sshd", "ssh-keygen") if _find(name) is None]
    return f"not installed: {', '.join(lacking)} (Debian: openssh-server)" if lacking else None


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def ssh_board(folder: Path, *settings: str, knows_key: bool = True) -> Iterator[SshBoard]:
    """An sshd with these further ``settings`` of sshd_config, until the end of the block."""
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    authorised = (folder / "user.pub").read_text() if knows_key else ""
    (folder / "authorised").write_text(authorised)
    (folder / "authorised").chmod(0o600)
    port = _free_port()
    lines = (
        f"ListenAddress 127.0.0.1:{port}", f"HostKey {folder}/host", "UsePAM no",
        f"AuthorizedKeysFile {folder}/authorised", "PasswordAuthentication no",
        "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password",
        "StrictModes no", f"PidFile {folder}/pid", *settings,
    )  # fmt: skip
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    host_key = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key}")
    (folder / "config").write_text(
        f"Host orin\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
        f" IdentityFile {folder}/user\n IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n"
        " GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # of its unprivileged part
    command = [_find("sshd") or "sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("wb") as log, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    ) as process:  # fmt: skip
        try:
            _wait_for_port(process, port, folder)
            yield SshBoard("orin", ("-F", str(folder / "config")), folder, process.pid)
        finally:
            process.terminate()


def descendants(pid: int) -> list[int]:
    """The processes below ``pid``, parents first: of an sshd its connections and their parts."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in found for one in (int(child), *descendants(int(child)))]


def end_connections(pid: int) -> None:
    """Kill every connection of the sshd ``pid``, and not itself: the network goes."""
    for process in descendants(pid):
        with suppress(ProcessLookupError):  # it has ended with the one before it
            os.kill(process, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    end_s = time.monotonic() + _START_S
    while time.monotonic() < end_s and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"sshd does not come up: {(folder / 'log').read_text()}")
