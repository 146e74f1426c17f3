"""Windows that a program names itself: how their lines reach the measuring process.

The environment variable MANSARD_WINDOWS names a file. At the end of each window the program appends
one line to it, in one write: start and end on CLOCK_MONOTONIC in ns, and the name. Any language
can do that; ``mansard.api.window`` does. Standard library only: every program that uses it
imports this module.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "MANSARD_WINDOWS"
MOST_BYTES = 64 << 20  # of the file; what comes later is not read
_LONGEST_NAME = 200
_BLANKS = str.maketrans(dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


class WindowLine(NamedTuple):
    """One window that has ended."""

    name: str
    start_ns: int
    end_ns: int


def encode_window(name: str, start_ns: int, end_ns: int) -> bytes:
    """The line of a window with its newline, short enough for one atomic write."""
    text = name.translate(_BLANKS)[:_LONGEST_NAME]
    return f"{start_ns} {end_ns} {text}\n".encode("utf-8", "replace")


def read_windows(path: Path) -> list[WindowLine]:
    """The windows in a file, by start; lines that are no windows are skipped.

    Raises OSError, and StorageError where the program replaced the file by something else.
    """
    from mansard.core.storage.files import open_file

    with open_file(path) as file:
        data = file.read(MOST_BYTES)
    # What follows the last end of a line is half a line.
    windows = [line for text in data.split(b"\n")[:-1] if (line := _decode(text)) is not None]
    return sorted(windows, key=lambda line: (line.start_ns, -line.end_ns))


def _decode(line: bytes) -> WindowLine | None:
    words = line.decode("utf-8", "replace").split(" ", 2)
    if len(words) < 3 or not all(len(word) < 20 and word.isdecimal() for word in words[:2]):
        return None
    start_ns, end_ns = int(words[0]), int(words[1])
    return WindowLine(words[2][:_LONGEST_NAME], start_ns, end_ns) if end_ns >= start_ns else None


def append_window(path: str, name: str, start_ns: int, end_ns: int) -> None:
    """Append a window to the file; raises OSError.

    The file is opened each time: a program may close all descriptors that it does not know, and
    the number of an open one could then belong to another file.
    """
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(handle, encode_window(name, start_ns, end_ns))
    finally:
        os.close(handle)
