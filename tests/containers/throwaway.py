"""A Docker daemon of the tests' own: no network, no registry, nothing left behind.

It dies with the process that started it, and what a killed test session could not clear is
cleared by the next one.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

PROGRAMS = ("dockerd", "containerd", "runc", "setpriv")
PREFIX = "mansard-dockerd-"  # in a folder for temporary files: sockets need short paths
# In memory where there is room (tests/environment.py): images are written and synced in a moment.
TEMPORARY = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()))
START_S = 30.0
STOP_S = 20.0
# What the image of the tests has of its own; everything else is mounted from this machine.
FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "usr")
REPOSITORY = Path(__file__).resolve().parents[2]


class Daemon(msgspec.Struct, frozen=True):
    """A running daemon: where it listens, and the folder of all that is its own."""

    address: str  # unix:///…/docker.sock
    folder: Path
    pid: int

    def connect(self) -> Any:
        """A client of the Docker SDK."""
        import docker

        return docker.DockerClient(base_url=self.address, timeout=60)


def why_not() -> str | None:
    """Why no daemon can be started here; None where it can be tried."""
    if sys.platform != "linux":
        return "Docker's daemon needs Linux"
    if os.geteuid() != 0:
        return "Docker's daemon needs root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)} (Debian: docker.io)" if lacking else None


@contextmanager
def throwaway_daemon(disk_bytes: int | None = None) -> Iterator[Daemon]:
    """Start a daemon, and clear all of it away; raises RuntimeError where it does not come up.

    With ``disk_bytes`` its data lie on a disk of that size.
    """
    clear_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=TEMPORARY))
    (folder / "owner").write_text(str(os.getpid()))
    if disk_bytes is not None:
        (folder / "data").mkdir()
        disk = ["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "none", f"{folder}/data"]
        subprocess.run(disk, check=True, capture_output=True)
    process = _start(folder)
    try:
        yield Daemon(f"unix://{folder}/docker.sock", folder, process.pid)
    finally:
        _stop(process)
        clear(folder)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "TERM", "dockerd"),
                *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
                *("--pidfile", f"{folder}/pid", "--host", f"unix://{folder}/docker.sock"),
                *("--bridge=none", "--iptables=false", "--ip6tables=false"),
                *("--ip-forward=false", "--ip-masq=false", "--shutdown-timeout=2"),
                # The name alone: without a GPU it is the same runtime as any other.
                f"--add-runtime=nvidia={shutil.which('runc')}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # a Ctrl-C of the tests is not for the daemon
        )
    try:
        _wait_until_up(process, folder)
    except BaseException:
        _stop(process)
        clear(folder)
        raise
    return process


def _wait_until_up(process: subprocess.Popen[bytes], folder: Path) -> None:
    end_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end_s:
        if _answers(folder / "docker.sock"):
            return
        time.sleep(0.05)
    lines = (folder / "log").read_text(errors="replace").splitlines() or ["it said nothing"]
    raise RuntimeError(f"dockerd does not come up: {lines[-1]}")


def _answers(path: Path) -> bool:
    """Whether a daemon answers; asked without the SDK, which leaves sockets open when none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        try:
            connection.connect(str(path))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(1 << 10)
        except OSError:
            return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def clear_leftovers() -> None:
    """Clear the folders of daemons whose test session was killed."""
    for folder in TEMPORARY.glob(f"{PREFIX}*"):
        try:
            owner = int((folder / "owner").read_text())
        except (OSError, ValueError):
            continue  # another session is making it at this very moment
        if Path(f"/proc/{owner}").exists():
            continue
        clear(folder)


def clear(folder: Path) -> None:
    """Kill what still runs from below ``folder``, unmount what is mounted there, remove it."""
    for pid in _pids_of(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed(mounts):  # the last one first: they lie on each other
        if mount.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def _pids_of(folder: Path) -> Iterator[int]:
    """The daemon that has ``folder``, its helpers, and processes in containers of it.

    A daemon that is killed leaves its containers running. They are known by what their root is
    mounted from; other mounts tell nothing, a container that starts has all of the host's.
    """
    name = f"{folder}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_split_sum = name in (process / "cmdline").read_bytes()
            mounts = (process / "mountinfo").read_bytes().splitlines()
        except OSError:
            continue  # it has just ended
        is_inside = any(line.split()[4] == b"/" and name in line for line in mounts)
        if (is_split_sum or is_inside) and int(process.name) != os.getpid():
            yield int(process.name)


def import_bare_image(client: Any, name: str = "mansard-bare", changes: Sequence[str] = ()) -> str:
    """An image with nothing but a few folders, and ``changes`` as a Dockerfile has; its id."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for folder in FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
    client.api.import_image_from_data(
        data.getvalue(), repository=name, tag="latest", changes=list(changes)
    )
    return str(client.images.get(f"{name}:latest").id)


def host_folders() -> tuple[Path, ...]:
    """The folders of this machine that run its own Python and this repository in a container."""
    system = [Path("/usr"), Path("/lib"), Path("/lib64"), Path("/bin")]
    ours = [Path(sys.base_prefix), Path(sys.prefix), REPOSITORY]
    wanted = [path for path in (*system, *ours) if path.exists()]
    # A folder inside another one is there with it.
    return tuple(path for path in wanted if not any(p in path.parents for p in wanted))
