"""Switches a simulated board on for a while."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mansard.core.errors import DeviceError

_STOP_S = 10


@contextmanager
def running(root: Path) -> Iterator[Path]:
    """The board under ``root`` with its daemon: kernel and sensors act until the end.

    Its readings are there when this starts. Raises DeviceError where the daemon cannot start,
    or has stopped before the end.
    """
    program = [sys.executable, "-m", "mansard.simulator"]
    command = [*program, str(root), str(os.getpid())]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as daemon:
        try:
            if daemon.stdout is None or daemon.stdout.readline() != "ready\n":
                raise _stopped(daemon, root, "does not start")
            yield root
            if daemon.poll() is not None:
                raise _stopped(daemon, root, "stopped by itself")
        finally:
            daemon.terminate()
            try:
                daemon.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                daemon.kill()


def _stopped(daemon: subprocess.Popen[str], root: Path, how: str) -> DeviceError:
    said = daemon.stderr.read().strip() if daemon.stderr else ""
    return DeviceError(f"the simulated board {how}: {said[-500:]}", where=str(root))
