"""Files that change by themselves, written in place in one piece.

Each keeps its length: what is left of it is blank, so that one write replaces the number and
a reader finds the old one or the new one, never half. (Replacing the file by rename is as
safe and a hundred times slower, and a meter that keeps its file open would read the first
number for ever.)
"""

from __future__ import annotations

import os
from pathlib import Path

_WIDTH = 16


class Reading:
    """One file; a write of what it already holds costs nothing."""

    def __init__(self, path: Path, width: int = _WIDTH) -> None:
        self._width = width
        self._last: object = None
        try:
            self._handle = os.open(path, os.O_WRONLY)
        except OSError:
            self._handle = -1  # a fault took the file away

    def show(self, value: object) -> None:
        """Make the file hold ``value`` and a newline."""
        if value != self._last and self._handle >= 0:
            self._last = value
            os.pwrite(self._handle, f"{value!s:<{self._width - 1}}\n".encode(), 0)

    def forget(self) -> None:
        """Another may have written the file: write it next time whatever the value."""
        self._last = None

    def was_touched(self, text: str | None) -> bool:
        """Whether the file holds ``text`` by another's hand: then it is written next time."""
        ours = text == str(self._last)
        if not ours:
            self.forget()
        return not ours

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


def set_text(path: Path, text: str) -> None:
    """Put a setting's value there; nothing happens where the file is gone."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        data = f"{text}\n".encode()
        size = os.fstat(handle).st_size
        os.pwrite(handle, data, 0)
        if size > len(data):
            os.ftruncate(handle, len(data))
    finally:
        os.close(handle)
