"""A sensor's file that stays open between readings.

The kernel makes the text of a sysfs file anew for every read from its start, so a file
kept open and read with ``pread`` saves looking up its path each time.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from mansard.core.errors import DeviceError

_LONGEST = 32  # bytes; a 64-bit number has 20 digits
_TRIES = 3


class Node:
    """An integer that a system file shows; its unit is the file's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def read(self) -> int:
        """The number now; raises DeviceError where there is none, or the file is gone."""
        why = "holds no number"
        for _ in range(_TRIES):
            try:
                if self._handle < 0:
                    # Without O_NONBLOCK a pipe in the file's place would stop us for ever.
                    self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                text = os.pread(self._handle, _LONGEST, 0)
                # A file that was replaced or whose driver was bound anew has no links left:
                # what it says is old.
                if len(text) < _LONGEST and os.fstat(self._handle).st_nlink:
                    return int(text)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
            except ValueError:
                pass
            self.close()
        raise DeviceError(
            f"the sensor does not answer: {why}",
            where=str(self._path),
            fix="look at the kernel's messages with dmesg; in a container, mount /sys",
        )

    def close(self) -> None:
        """Close the file; the next reading opens it again."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()
