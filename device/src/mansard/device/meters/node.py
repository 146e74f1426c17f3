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
_CHECK_EVERY = 8  # equal readings: whether the file is still the one at its path


class Node:
    """An integer that a system file shows; its unit is the file's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        self._last = b""
        self._n_same = 0

    def read(self) -> int:
        """The number now; raises DeviceError where there is none, or the file is gone."""
        why = "holds no number"
        for _ in range(_TRIES):
            try:
                if self._handle < 0:
                    # Without O_NONBLOCK a pipe in the file's place would stop us for ever.
                    self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                text = os.pread(self._handle, _LONGEST, 0)
                if len(text) < _LONGEST and not self._is_stale(text):
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

    def _is_stale(self, text: bytes) -> bool:
        """Whether the file was replaced, or its driver bound anew: then it has no links left.

        It costs as much as the reading, and what changes is not stale: so it is asked for now
        and then while the text stays the same.
        """
        if text != self._last:
            self._last, self._n_same = text, 0
            return False
        self._n_same += 1
        return self._n_same % _CHECK_EVERY == 0 and not os.fstat(self._handle).st_nlink

    def close(self) -> None:
        """Close the file; the next reading opens it again."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()
