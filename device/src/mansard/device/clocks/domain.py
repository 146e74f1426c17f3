"""One clock of the machine: the files that cap it, and the frequencies it can have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from mansard.device.system import below, read_int, read_text

KHZ = 1000
UNCAPPED_HZ = 1e11  # nothing is clocked as fast: 9223372036854775807 stands for "no cap"


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A clock. Paths are the board's absolute ones; ``unit_hz`` is what 1 in its files is worth.

    ``available_hz`` is ascending, and empty where the kernel does not say. ``why_not``: why it
    cannot be set, and what would allow it; empty where it can.
    """

    name: str
    kind: Literal["cpu", "gpu", "emc", "dla"]
    unit_hz: int = 1
    available_hz: tuple[float, ...] = ()
    is_continuous: bool = False  # only the ends are known; everything between can be set
    max_path: str | None = None
    min_path: str | None = None
    cur_path: str | None = None
    cpus: tuple[int, ...] = ()
    why_not: str = ""

    def read_hz(self, root: Path, path: str | None) -> float | None:
        """What the file ``path`` of this clock says, in Hz; None where it says nothing."""
        value = read_int(below(root, path)) if path else None
        return value * float(self.unit_hz) if value is not None else None


def read_frequencies(root: Path, path: str, unit_hz: int) -> tuple[float, ...]:
    """The frequencies that a table such as available_frequencies lists, ascending, in Hz."""
    words = (read_text(below(root, path)) or "").split()
    numbers = {int(word) for word in words if word.isdecimal() and len(word) <= 12}
    return tuple(float(number * unit_hz) for number in sorted(numbers) if number)


def why_not_writable(root: Path, *paths: str | None) -> str:
    """Why one of the files cannot be written and what would allow it; empty if all can."""
    for path in filter(None, paths):
        if not os.access(below(root, path), os.W_OK):
            return f"{path} cannot be written; run as root (sudo), on the board itself"
    return ""
