"""What the tests and the processes that they start find in their environment.

Imported first: libraries read it as they are imported.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

# Tests share the cores with one another, and with boards whose meters are read while kernels run.
# OpenBLAS's threads spin while they wait for one another: 5 of the 7.7 CPU seconds of a
# calibration. Frames that take every core for a second leave gaps in the readings.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# A session writes 85,000 files, most of them of simulated boards, and syncs thousands of them. In
# memory this takes the kernel half the time and waits for no disk. Docker's /dev/shm has 64 MB and
# runs no programs: there, and where memory is short, pytest's usual folder serves.
_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder there that is the user's alone
_ENOUGH_BYTES = 8 << 30


def _is_roomy(folder: Path) -> bool:
    """Whether the files of all tests fit into this folder in memory, and can be run."""
    try:
        disk = os.statvfs(folder)
        memory = Path("/proc/meminfo").read_text("ascii")
    except OSError:
        return False
    available = re.search(r"^MemAvailable: +([0-9]+) kB$", memory, re.MULTILINE)
    free_bytes = min(disk.f_bavail * disk.f_frsize, 1024 * int(available[1]) if available else 0)
    return free_bytes >= _ENOUGH_BYTES and not disk.f_flag & os.ST_NOEXEC


if _is_roomy(_MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# `make test` runs several jobs; a make that a test starts is none of them.
for _name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
    os.environ.pop(_name, None)

# Hundreds of tests start a process that imports this project, and each would compile it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
