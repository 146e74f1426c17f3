"""Who speaks to the person: one board alone, or one of several side by side."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from mansard.cli.console import Progress, note, show_progress


class Voice(Protocol):
    """Notes and progress of one board."""

    def note(self, line: str) -> None:
        """Something worth knowing."""
        ...

    def progress(self, title: str) -> AbstractContextManager[Progress]:
        """How far a piece of long work is."""
        ...


class OwnVoice:
    """Of a board that is measured alone: it has the whole terminal."""

    def note(self, line: str) -> None:
        """One line on stderr."""
        note(line)

    def progress(self, title: str) -> AbstractContextManager[Progress]:
        """A bar on a terminal, a line now and then elsewhere."""
        return show_progress(title)
