"""What a long piece of work tells its caller: notes, progress, questions.

Functions of this room print nothing. The command line gives them a reporter that writes to the
terminal; without one they stay silent and take every question for declined.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from mansard.api.time_left import SteadyTimeLeft

_LINE_PERIOD_S = 10.0  # between lines of progress where there is no bar


class ProgressDisplay(Protocol):
    """Shows how far a piece of long work is."""

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Show the state; called after every finished step."""
        ...


class Reporter(Protocol):
    """Takes what is worth knowing during the work; the methods may be called in any order."""

    def note(self, line: str) -> None:
        """Something worth knowing that is no error."""
        ...

    def progress(self, title: str) -> AbstractContextManager[ProgressDisplay]:
        """How far a piece of long work is, until the context ends."""
        ...

    def ask(self, question: str) -> bool:
        """Whether a download or another large step may begin."""
        ...


class SilentReporter:
    """Drops notes and progress, and declines what is asked."""

    def note(self, line: str) -> None:
        """Drop ``line``."""

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """Progress that is shown nowhere."""
        yield LineProgress(title, self.note)

    def ask(self, question: str) -> bool:
        """No: only the caller may start a download."""
        del question
        return False


SILENT = SilentReporter()


class LineProgress:
    """Progress as lines: one every ten seconds, and one at the end."""

    def __init__(self, title: str, note: Callable[[str], None]) -> None:
        self._title = title
        self._note = note
        self._next_s = 0.0
        self._steady = SteadyTimeLeft()

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Note how far it is, if it is time for it."""
        steady_s = self._steady.remaining_s(n_done, n_total)
        remaining_s = steady_s if remaining_s is None else remaining_s
        if time.monotonic() < self._next_s and n_done < n_total:
            return
        self._next_s = time.monotonic() + _LINE_PERIOD_S
        left = f", {format_duration(remaining_s)} left" if remaining_s is not None else ""
        self._note(f"{self._title}: {n_done} of {n_total}{left} ({now})")


def format_duration(duration_s: float) -> str:
    """A duration for people: ``45 s``, ``2 min 05 s``, ``1 h 10 min``."""
    whole_s = max(0, round(duration_s))
    if whole_s < 60:
        return f"{whole_s} s"
    if whole_s < 3600:
        return f"{whole_s // 60} min {whole_s % 60:02d} s"
    return f"{whole_s // 3600} h {whole_s % 3600 // 60:02d} min"
