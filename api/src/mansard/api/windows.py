"""Time and energy of a stretch of a Python program, by itself or inside ``mansard measure``.

Nothing heavy is imported before the first window begins, and of ``mansard measure`` nothing but
how a line is written.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from functools import cache
from typing import TYPE_CHECKING

from mansard.core.errors import MeasurementError, UsageError
from mansard.inference.programs.windows import VARIABLE, append_window

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from mansard.core.records import EnergyWindow

_IN_MEASURE = "'mansard measure' reports it when the program has ended"
_FORGET_S = 1.0  # between two looks at which readings no window needs any more


class window:  # noqa: N801 - used as a function is
    """``with window("decode") as one: …``, then ``one.time_s`` and ``one.energy_j``.

    Windows may lie in one another and overlap, also in several threads and processes. An
    exception in the block ends the window and goes on. Each ``with`` starts anew. The energy is
    that of this machine by the meters that ``mansard doctor`` finds, or of a simulated ``board``;
    they are read from the first window on, by a thread in the background. Nothing is printed.
    Raises UsageError for a ``board`` that is no folder.
    """

    __slots__ = ("__weakref__", "_board", "_energy", "_meter", "_pid", "end_ns", "name", "start_ns")

    def __init__(self, name: str, board: Path | str | None = None) -> None:
        self.name = str(name)  # what is no text may not end the program
        self._board = None if board is None else _board_folder(board)
        self.start_ns = self.end_ns = 0  # monotonic
        self._meter: _Background | None = None
        self._energy: tuple[EnergyWindow | None, str] | None = None

    def __enter__(self) -> window:
        self._energy = None
        self.end_ns = 0
        if _lines_path() is None:
            self._meter = _STARTER.running(self._board)
            self._meter.open.add(self)
        self._pid = os.getpid()
        self.start_ns = time.monotonic_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_ns = time.monotonic_ns()
        path = _lines_path()
        if path is not None:
            with contextlib.suppress(OSError):  # the program goes on, whatever becomes of the file
                append_window(path, self.name, self.start_ns, self.end_ns)

    @property
    def time_s(self) -> float:
        """Seconds from the beginning of the block to its end, or until now."""
        if not self.start_ns:
            return 0.0
        return ((self.end_ns or time.monotonic_ns()) - self.start_ns) / 1e9

    @property
    def energy(self) -> EnergyWindow | None:
        """The energy of each rail; None where it is not known: see ``unknown``."""
        return self._measured()[0]

    @property
    def energy_j(self) -> float | None:
        """The energy of the total; None where it is not known: see ``unknown``."""
        energy = self._measured()[0]
        return None if energy is None else energy.total_j

    @property
    def unknown(self) -> dict[str, str]:
        """Why ``energy`` or ``energy_j`` is None."""
        energy, reason = self._measured()
        if energy is None:
            return {"energy": reason, "energy_j": reason}
        return {} if energy.total_j is not None else {"energy_j": energy.unknown["total_j"]}

    def _measured(self) -> tuple[EnergyWindow | None, str]:
        if not self.end_ns:
            return None, "the window has not ended"
        if self._energy is None:
            if self._meter is None:
                self._energy = None, _IN_MEASURE
            elif self._pid != os.getpid():
                self._energy = None, "the window began in another process"
            else:
                self._energy = self._meter.energy(self.start_ns / 1e9, self.end_ns / 1e9)
                self._meter.open.discard(self)
        return self._energy


def _board_folder(board: object) -> Path:
    """The folder of a simulated board; raises UsageError."""
    from pathlib import Path

    if not (isinstance(board, (str, Path)) and str(board) and Path(board).is_dir()):
        raise UsageError(
            f"board={board!r} is not a folder",
            fix="give the folder of a simulated board, or leave it out for this machine",
        )
    return Path(board)


@cache
def _lines_path() -> str | None:
    """The file that windows are written to inside ``mansard measure``; None outside."""
    path = os.environ.get(VARIABLE)
    return path if path and os.access(path, os.W_OK) else None


class _Background:
    """This machine's meters, read by a thread; readings that no window needs are dropped."""

    def __init__(self, board: Path | None) -> None:
        from mansard.device.identity import identify
        from mansard.device.meters.finding import find_meters
        from mansard.device.meters.sampler import Sampler
        from mansard.device.system import SYSTEM_ROOT

        self.open: weakref.WeakSet[window] = weakref.WeakSet()
        root = board or SYSTEM_ROOT
        self._meters = find_meters(root, identify(root))
        self._sampler = Sampler(self._meters)
        self._sampler.__enter__()
        threading.Thread(target=self._forget, name="windows", daemon=True).start()

    def energy(self, start_s: float, end_s: float) -> tuple[EnergyWindow | None, str]:
        """The energy of a stretch that is over, or why it is not known."""
        if not self._meters.found:
            missing = "; ".join(f"{name}: {why}" for name, why in self._meters.missing.items())
            return None, f"no meter: {missing}"
        self._sampler.read()  # so that the readings reach over the end
        try:
            return self._sampler.window(start_s, end_s, repetitions=1), ""
        except MeasurementError as error:
            return None, str(error)

    def _forget(self) -> None:
        while True:
            time.sleep(_FORGET_S)
            with contextlib.suppress(RuntimeError):  # a window began meanwhile
                self._sampler.forget(self._oldest_s())

    def _oldest_s(self) -> float:
        """When the first window began that is still referenced; now if there is none.

        A function of its own: in the loop that calls it, a variable would hold the last window.
        """
        now_s = time.monotonic()
        return min([now_s, *(one.start_ns / 1e9 for one in self.open)])


class _Starter:
    """Starts the background of a machine once, when the first window of it begins."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Reset in a forked process: the threads of the parent do not exist there, and a lock
        that they held is never released."""
        self._lock = threading.Lock()
        self._running: dict[Path | None, _Background] = {}

    def running(self, board: Path | None) -> _Background:
        with self._lock:
            background = self._running.get(board)
            if background is None:
                background = self._running[board] = _Background(board)
            return background


_STARTER = _Starter()
os.register_at_fork(after_in_child=_STARTER.begin_anew)
