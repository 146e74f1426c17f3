"""A clock's lowest and highest frequency, and how a kernel takes what is written there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path

from mansard.device.system import read_text
from mansard.simulator.readings import set_text


def number_in(path: Path) -> int | None:
    """The integer that was written; None while a writer is half way, and for junk."""
    text = read_text(path)
    try:
        return int(text) if text else None
    except ValueError:
        return None


class Limits:
    """A lowest and a highest frequency, in the unit of their files."""

    def __init__(
        self, folder: Path, names: tuple[str, str], table: tuple[int, ...], *, resolves: bool
    ) -> None:
        self._resolves = resolves  # whether values are moved to the table
        self.paths = (folder / names[0], folder / names[1])
        self.table = table
        self.kept = [number_in(self.paths[0]) or table[0], number_in(self.paths[1]) or table[-1]]
        self.first = list(self.kept)

    @property
    def low(self) -> int:
        return self.kept[0]

    @property
    def high(self) -> int:
        return self.kept[1]

    def settle(self, path: Path, *, refused: bool = False, lower: bool = False) -> bool:
        """Take or refuse what was written to ``path``; whether a limit has changed.

        The lowest limit is moved up and the highest down to the next step of the table;
        a lowest above the highest is refused, as by EINVAL: the old value stands.
        """
        which = self.paths.index(path)
        written = number_in(path)
        if written is None:
            if read_text(path):  # junk; an empty file is one that is being written
                set_text(path, str(self.kept[which]))
            return False
        value = self._step(written, which)
        if lower and written != self.kept[which]:
            value = self.table[max(0, bisect_left(self.table, value) - 1)]
        wanted = [*self.kept]
        wanted[which] = value
        if wanted[0] > wanted[1]:
            # The other limit may have been written too, its event still on the way.
            other = number_in(self.paths[1 - which])
            wanted[1 - which] = self._step(other or wanted[1 - which], 1 - which)
        if refused or wanted[0] > wanted[1]:
            wanted = [*self.kept]
        if written != wanted[which]:
            set_text(path, str(wanted[which]))
        changed = wanted != self.kept
        self.kept = wanted
        return changed

    def _step(self, value: int, which: int) -> int:
        inside = min(max(value, self.table[0]), self.table[-1])
        return self._resolve(inside, which) if self._resolves else inside

    def _resolve(self, value: int, which: int) -> int:
        if which == 0:
            return self.table[bisect_left(self.table, value)]
        return self.table[bisect_right(self.table, value) - 1]

    def put_back(self) -> None:
        """Both limits as they were when the daemon started."""
        self.kept = list(self.first)
        for path, value in zip(self.paths, self.kept, strict=True):
            set_text(path, str(value))

    def step_for(self, share: float, ceiling: int) -> int:
        """The governor's choice for a utilisation: the next step up, within the limits."""
        wanted = self.low + (self.high - self.low) * min(1.0, 1.25 * share)
        index = min(bisect_left(self.table, wanted), len(self.table) - 1)
        step = max(min(self.table[index], self.high, ceiling), self.table[0])
        return self.table[bisect_right(self.table, step) - 1]
