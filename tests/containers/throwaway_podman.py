"""A podman service of the tests' own, of root's or of a plain user's; gone with the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.containers.throwaway import PREFIX, START_S, TEMPORARY, clear, clear_leftovers

PROGRAMS = ("podman", "conmon", "runc", "setpriv")
OF_A_USER = ("unshare", "newuidmap", "newgidmap", "slirp4netns")
INIT = (Path("/usr/libexec/podman/catatonit"), Path("/usr/bin/catatonit"))
# The rootless service has a user of its own. The files that name users and their ranges of
# numbers are mounted over the machine's, in a mount namespace of the service.
UID = 64_201
_NAME = "mansard-rootless"
_RANGE = f"{_NAME}:700000:65536\n"  # of numbers for users inside its containers
_USERS = "\n".join(
    (
        "for name in passwd group subuid subgid; do",
        '  mount --bind "$1/etc/$name" "/etc/$name"',
        "done",
        "shift",
        f'exec setpriv --reuid={UID} --regid={UID} --clear-groups --pdeathsig TERM "$@"',
    )
)


class Podman(msgspec.Struct, frozen=True):
    """A running service: where it listens, and the folder of its user."""

    address: str
    folder: Path
    is_rootless: bool


def why_not(*, is_rootless: bool = False) -> str | None:
    """Why no podman can be started here; None where it can be tried."""
    if os.geteuid() != 0:
        return "a podman of the tests' own needs root"
    wanted = (*PROGRAMS, *OF_A_USER) if is_rootless else PROGRAMS
    lacking = [name for name in wanted if shutil.which(name) is None]
    if not any(path.exists() for path in INIT):
        lacking.append("catatonit")
    if lacking:
        return f"not installed: {', '.join(lacking)} (Debian: podman catatonit runc uidmap)"
    if is_rootless and not all(Path(f"/etc/sub{kind}id").exists() for kind in "ug"):
        return "this machine hands out no numbers to users: no /etc/subuid"
    return None


@contextmanager
def throwaway_podman(*, is_rootless: bool = False) -> Iterator[Podman]:
    """A podman service; raises RuntimeError where it does not come up."""
    clear_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=TEMPORARY))
    (folder / "owner").write_text(str(os.getpid()))
    as_user = _make_user(folder) if is_rootless else ()
    storage, settings = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\n'
        f'graphroot = "{folder}/graph"\nrootless_storage_path = "{folder}/graph"\n'
    )
    # Where this process may not raise its own limits, podman's could not be set.
    settings.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
    # Not podman's usual runtime: it refuses machines that have both versions of cgroups.
    options = ["--runtime", str(shutil.which("runc")), "--cgroup-manager=cgroupfs"]
    begin = as_user or ("setpriv", "--pdeathsig", "TERM")
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen(
            [
                *(*begin, "podman", *options, "--events-backend=file"),
                *("system", "service", "--time=0", f"unix://{folder}/podman.sock"),
            ],
            env={
                **os.environ,
                "CONTAINERS_STORAGE_CONF": str(storage),
                "CONTAINERS_CONF": str(settings),
                "TMPDIR": str(folder),
                "HOME": str(folder),
                "XDG_RUNTIME_DIR": str(folder),
            },
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        end_s = time.monotonic() + START_S
        while not (folder / "podman.sock").exists():
            if service.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"podman does not come up: {(folder / 'log').read_text()}")
            time.sleep(0.05)
        yield Podman(f"unix://{folder}/podman.sock", folder, is_rootless)
    finally:
        service.terminate()
        service.wait()
        clear(folder)


def _make_user(folder: Path) -> tuple[str, ...]:
    """The start of a command that runs as a user of its own, who owns ``folder``."""
    etc = folder / "etc"
    etc.mkdir()
    person = f"{_NAME}:x:{UID}:{UID}::{folder}:/bin/sh\n"
    (etc / "passwd").write_text(Path("/etc/passwd").read_text() + person)
    (etc / "group").write_text(Path("/etc/group").read_text() + f"{_NAME}:x:{UID}:\n")
    (etc / "subuid").write_text(_RANGE)
    (etc / "subgid").write_text(_RANGE)
    os.chown(folder, UID, UID)
    private = ("unshare", "--mount", "--propagation", "private")
    return (*private, "sh", "-ec", _USERS, "sh", str(folder))
