"""Notice of files that any program on this machine writes, through Linux's inotify.

Source: inotify(7) of the Linux manual pages. Writes of programs to files of /sys are reported
like any others; what the kernel changes there by itself is not.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterable
from pathlib import Path

# Numbers from Linux, include/uapi/linux/inotify.h
_MODIFY, _CLOSE_WRITE, _MOVED_TO = 0x2, 0x8, 0x80
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 65536  # of events that are read at once


class FileWatcher:
    """Watches single files, and folders whose files are replaced, until it is closed.

    A path that is not there is left out. Nothing raises: where the system gives no inotify,
    ``why_not`` says so and nothing is seen.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        self.why_not = "" if self._handle >= 0 else os.strerror(ctypes.get_errno())
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._paths: dict[int, Path] = {}
        for path in paths:
            mask = _CLOSE_WRITE | _MOVED_TO if path.is_dir() else _MODIFY | _CLOSE_WRITE
            number = libc.inotify_add_watch(self._handle, os.fsencode(path), mask)
            if number >= 0:
                self._paths[number] = path

    def wait(self, timeout_s: float) -> list[Path]:
        """The files written, in order, without direct repeats; empty on timeout or ``wake``."""
        handles = [handle for handle in (self._woken, self._handle) if handle >= 0]
        ready, _, _ = select.select(handles, [], [], max(0.0, timeout_s))
        if self._handle not in ready:
            return []
        try:
            data = os.read(self._handle, _MOST_BYTES)
        except OSError:  # BlockingIOError: no event is left
            return []
        changed: list[Path] = []
        at = 0
        while at < len(data):
            number, _, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            path = self._paths.get(number)
            if path is not None and (not changed or changed[-1] != path):
                changed.append(path)
        return changed

    def wake(self) -> None:
        """Have every ``wait`` return at once from now on; for another thread."""
        os.write(self._waker, b"\0")

    def close(self) -> None:
        """Takes the kernel up to 15 ms: it waits until nothing reads its list of watches."""
        for handle in (self._handle, self._woken, self._waker):
            if handle >= 0:
                os.close(handle)
        self._handle = self._woken = self._waker = -1
