"""One sweep at a time on a machine, by a lock that ends with the process that holds it.

It is taken on the folder of the CPUs in sysfs itself: every user can, nothing is left behind,
and the kernel drops it with the last process that has it open. Source: flock(2), proc(5).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from mansard.core.errors import BusyError, DeviceError, reported
from mansard.device.system import SYSTEM_ROOT, is_there, read_text


@contextlib.contextmanager
def board_lock(root: Path) -> Iterator[None]:
    """Hold the machine for one sweep; raises BusyError that names the process which has it."""
    folder = _folder(root)
    fix = "check that this is the root of a system"
    with reported(DeviceError, "cannot be opened", where=str(folder), fix=fix):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    owner = os.getpid()
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BusyError(
                f"this machine is in use by another sweep{_holder(handle)}",
                where=str(root),
                fix="wait until it has ended, or end it: it restores the machine",
            ) from error
        # A child made by fork would keep the lock beyond our death.
        os.register_at_fork(after_in_child=_Closer(handle))
        yield
    finally:
        if os.getpid() == owner:
            os.close(handle)


class _Closer:
    """Closes the lock's handle in a forked child, as long as it is the lock's."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._folder = _identity(handle)

    def __call__(self) -> None:
        with contextlib.suppress(OSError):
            if _identity(self._handle) == self._folder:
                os.close(self._handle)


def _identity(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _folder(root: Path) -> Path:
    folder = root / "sys/devices/system/cpu"
    return folder if is_there(folder) else root


def _holder(handle: int) -> str:
    """The process that has the lock and since when, where known: ``, process 12 since …``."""
    status = os.fstat(handle)
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in (read_text(SYSTEM_ROOT / "proc/locks") or "").splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == inode and words[4] != "0":
            return f", process {words[4]}{_since(words[4])}"
    return ""


def _since(pid: str) -> str:
    """When a process was started: its clock ticks since boot, and the moment of that."""
    # The name in brackets may hold spaces and brackets; the 20th word after it is the start.
    words = (read_text(SYSTEM_ROOT / f"proc/{pid}/stat") or "").rpartition(")")[2].split()
    boot = re.search(r"^btime ([0-9]+)$", read_text(SYSTEM_ROOT / "proc/stat") or "", re.MULTILINE)
    if len(words) < 20 or not words[19].isdecimal() or boot is None:
        return ""
    started_s = int(boot[1]) + int(words[19]) / os.sysconf("SC_CLK_TCK")
    moment = datetime.fromtimestamp(started_s, timezone.utc)
    return f" since {moment.isoformat(timespec='seconds')}"
