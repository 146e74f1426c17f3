"""A podman service of the tests' own, with folders of its own; gone with the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.containers.throwaway import PREFIX, START_S, clear, clear_leftovers

PROGRAMS = ("podman", "conmon", "runc", "setpriv")
INIT = (Path("/usr/libexec/podman/catatonit"), Path("/usr/bin/catatonit"))


def why_not() -> str | None:
    """Why no podman can be started here; None where it can be tried."""
    if os.geteuid() != 0:
        return "this podman needs root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if not any(path.exists() for path in INIT):
        lacking.append("catatonit")
    return f"not installed: {', '.join(lacking)}" if lacking else None


@contextmanager
def throwaway_podman() -> Iterator[str]:
    """The address of a podman service; raises RuntimeError where it does not come up."""
    clear_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    (folder / "owner").write_text(str(os.getpid()))
    storage, settings = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
    )
    # Where this process may not raise its own limits, podman's could not be set.
    settings.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
    # Not podman's usual runtime: it refuses machines that have both versions of cgroups.
    options = ["--runtime", str(shutil.which("runc")), "--cgroup-manager=cgroupfs"]
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "TERM", "podman", *options, "--events-backend=file"),
                *("system", "service", "--time=0", f"unix://{folder}/podman.sock"),
            ],
            env={
                **os.environ,
                "CONTAINERS_STORAGE_CONF": str(storage),
                "CONTAINERS_CONF": str(settings),
                "TMPDIR": str(folder),
            },
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
        yield f"unix://{folder}/podman.sock"
    finally:
        service.terminate()
        service.wait()
        clear(folder)
