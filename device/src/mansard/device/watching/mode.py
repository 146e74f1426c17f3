"""The power mode that a watched board is in, and what it sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.core.records import PowerMode
from mansard.device.nvpmodel.modes import BoardModes, read_modes
from mansard.device.nvpmodel.tool import STATUS_PATH, parse_status, query
from mansard.device.system import read_text

_ASK_TOOL_S = 30.0  # between two calls of nvpmodel, where its notes cannot be read


class ModeReader:
    """The power mode by nvpmodel's notes; by the tool where those cannot be read."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self._root, self._clock = root, clock
        self._notes = root / STATUS_PATH.lstrip("/")
        self._asked_s: float | None = None
        self._name: str | None = None
        self.mode: PowerMode | None = None  # what it sets, where its configuration says
        self.why_not = ""
        self._modes: BoardModes | None = None
        try:
            self._modes = read_modes(root)
        except MansardError as error:
            self.why_not = str(error)

    def read(self) -> str | None:
        """Its name; None where it is not known, with ``why_not``."""
        number = parse_status(read_text(self._notes) or "")
        found = (
            self._modes.by_id(number) if self._modes is not None and number is not None else None
        )
        if found is not None:
            self._name, self.mode = found.mode.name, found.mode
        else:
            self._ask()
        return self._name

    def _ask(self) -> None:
        now_s = self._clock()
        if self._asked_s is not None and now_s - self._asked_s < _ASK_TOOL_S:
            return
        self._asked_s = now_s
        try:
            self._name = query(self._root).name
        except MansardError as error:
            self._name, self.mode, self.why_not = None, None, str(error)
            return
        named = self._modes.find(self._name) if self._modes is not None else None
        self.mode = named.mode if named is not None else None
