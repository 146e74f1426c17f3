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

    Its readings are there when this starts. Raises DeviceError where the daemon cannot start.
    """
    program = [sys.executable, "-m", "mansard.device.simulator"]
    command = [*program, str(root), str(os.getpid())]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as daemon:
        try:
            if daemon.stdout is None or daemon.stdout.readline() != "ready\n":
                said = daemon.stderr.read().strip() if daemon.stderr else ""
                raise DeviceError(
                    f"the simulated board does not start: {said[-500:]}", where=str(root)
                )
            yield root
        finally:
            daemon.terminate()
            try:
                daemon.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
