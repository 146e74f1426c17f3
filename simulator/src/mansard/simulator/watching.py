"""Tells which files were written: the daemon reacts at once and costs nothing in between."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterable
from pathlib import Path

from mansard.core.errors import DeviceError

# Numbers from Linux, include/uapi/linux/inotify.h
_MODIFY, _CLOSE_WRITE, _MOVED_TO = 0x2, 0x8, 0x80
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000
_EVENT = struct.Struct("iIII")


class Watcher:
    """inotify over single files, and folders whose files are replaced."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if self._handle < 0:
            raise DeviceError(
                f"cannot watch files: {os.strerror(ctypes.get_errno())}",
                fix="raise fs.inotify.max_user_instances with sysctl",
            )
        self._paths: dict[int, Path] = {}
        for file in files:
            self.add(file)

    def add(self, path: Path) -> None:
        """Watch ``path`` from now on; a file that is not there is left out."""
        mask = _CLOSE_WRITE | _MOVED_TO if path.is_dir() else _MODIFY | _CLOSE_WRITE
        number = self._libc.inotify_add_watch(self._handle, os.fsencode(path), mask)
        if number >= 0:
            self._paths[number] = path

    def wait(self, timeout_s: float) -> list[Path]:
        """What was written, in order, each once in a row; empty after ``timeout_s``."""
        ready, _, _ = select.select([self._handle], [], [], max(0.0, timeout_s))
        return self._events() if ready else []

    def _events(self) -> list[Path]:
        try:
            data = os.read(self._handle, 65536)
        except BlockingIOError:
            return []
        found: list[Path] = []
        at = 0
        while at < len(data):
            number, _, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            path = self._paths.get(number)
            if path is not None and (not found or found[-1] != path):
                found.append(path)
        return found

    def close(self) -> None:
        os.close(self._handle)
