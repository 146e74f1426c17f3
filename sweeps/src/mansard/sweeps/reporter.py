"""What a long piece of work tells its caller: notes, progress with the time left, questions.

Functions of sweeps and of the API print nothing. The command line gives them a reporter that writes
to the terminal; without one they stay silent and take every question for declined.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from mansard.measuring import protocol

# End of the note on who uses the machine. Quiet commands show this note too.
WAITING = "; waiting until it has ended"
_LINE_PERIOD_S = 10.0  # between lines of progress where there is no bar
_OF_CAP = 0.3  # of the longest that a trial may take, which one of an unknown kind is taken to need


class ProgressDisplay(Protocol):
    """Shows how far a piece of long work is."""

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Show the state; called after every finished step."""


class Reporter(Protocol):
    """Takes what is worth knowing during the work; the methods may be called in any order."""

    def note(self, line: str) -> None:
        """Something worth knowing that is no error."""

    def progress(self, title: str) -> AbstractContextManager[ProgressDisplay]:
        """How far a piece of long work is, until the context ends."""

    def ask(self, question: str) -> bool:
        """Whether a download or another large step may begin."""


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


_Send: TypeAlias = Callable[[Callable[[], object]], object]


class BoardReporter:
    """The reporter of one board of several in its own thread; the main thread makes the real calls.

    ``send`` hands it such a call, and raises KeyboardInterrupt once all boards are to stop.
    Progress is lines: bars of several boards would write over one another.
    """

    def __init__(self, board: str, send: _Send, reporter: Reporter) -> None:
        self._board, self._send, self._reporter = board, send, reporter

    def note(self, line: str) -> None:
        """Hand on a note, the board's name first."""
        self._send(partial(self._reporter.note, f"{self._board}: {line}"))

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """Hand on the progress."""
        yield _SentProgress(
            self._send, LineProgress(f"{self._board}: {title}", self._reporter.note)
        )

    def ask(self, question: str) -> bool:
        """Yes: several boards cannot ask at once; what they download is noted."""
        del question
        return True


class _SentProgress:
    def __init__(self, send: _Send, lines: LineProgress) -> None:
        self._send, self._lines = send, lines

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        self._send(partial(self._lines.update, n_done, n_total, remaining_s, now))


def format_duration(duration_s: float) -> str:
    """A duration for people: ``45 s``, ``2 min 05 s``, ``1 h 10 min``."""
    whole_s = max(0, round(duration_s))
    if whole_s < 60:
        return f"{whole_s} s"
    if whole_s < 3600:
        return f"{whole_s // 60} min {whole_s % 60:02d} s"
    return f"{whole_s // 3600} h {whole_s % 3600 // 60:02d} min"


@dataclass(frozen=True)
class ProgressStage:
    """What is measured in one mode: ``kind`` and titles of its trials, in their order.

    ``prior_s``: what a trial is taken to need until one of its kind was timed. ``n_after``: trials
    of the kind that are to come when the sweep is over.
    """

    kind: str
    titles: Sequence[str]
    prior_s: float
    n_after: int = 0


class TimeLeft:
    """The stages of a sweep, and what of them was timed.

    A trial is expected to take as long as the one of its title took in an earlier mode, else as
    the mean of its kind. What a stage takes beside its trials (setting the mode, starting a
    process, idle windows) is expected again of each stage of its kind.
    """

    def __init__(
        self, stages: Sequence[ProgressStage], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._stages, self._now_s = tuple(stages), now_s
        self._at = -1
        self._by_title: dict[tuple[str, str], float] = {}
        self._by_kind: dict[str, list[float]] = {}
        self._starts: dict[str, float] = {}  # seconds before the first trial, by kind
        self._begun_s = self._last_s = 0.0
        self._n_done: int | None = None

    def begin(self, stage: int) -> None:
        """Stage number ``stage`` begins now."""
        self._at, self._n_done = stage, None
        self._begun_s = self._last_s = self._now_s()

    def remaining_s(self, n_left: int) -> float | None:
        """Seconds until the end of the sweep, with ``n_left`` trials left in this stage.

        None until a trial of any kind was timed, unless the kinds say what a trial needs.
        """
        now_s, stage = self._now_s(), self._stages[self._at]
        n_done = len(stage.titles) - n_left
        if self._n_done is None:
            self._starts[stage.kind] = now_s - self._begun_s
        elif n_done > self._n_done:
            each_s = (now_s - self._last_s) / (n_done - self._n_done)
            for title in stage.titles[self._n_done : n_done]:
                self._by_title[stage.kind, title] = each_s
                self._by_kind.setdefault(stage.kind, []).append(each_s)
        if n_done != self._n_done:
            self._n_done, self._last_s = n_done, now_s
        if not self._by_kind and not any(later.prior_s for later in self._stages):
            return None
        current_s = self._expected_s(stage, stage.titles[n_done:]) - (now_s - self._last_s)
        later_s = sum(
            self._starts.get(later.kind, 0.0) + self._expected_s(later, later.titles)
            for later in self._stages[self._at + 1 :]
        )
        return max(0.0, current_s) + later_s + stage.n_after * self._mean_s(stage)

    def _expected_s(self, stage: ProgressStage, titles: Sequence[str]) -> float:
        mean_s = self._mean_s(stage)
        return sum(self._by_title.get((stage.kind, title), mean_s) for title in titles)

    def _mean_s(self, stage: ProgressStage) -> float:
        timed = self._by_kind.get(stage.kind)
        return math.fsum(timed) / len(timed) if timed else stage.prior_s


class SteadyTimeLeft:
    """The time left of steps that take about as long as one another; None for the first fifth."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._begun: tuple[float, int] | None = None  # the time, and the steps done then

    def remaining_s(self, n_done: int, n_total: int) -> float | None:
        """Seconds that the steps after ``n_done`` of ``n_total`` take at the pace so far."""
        now_s = self._now_s()
        begun_s, n_before = self._begun = self._begun or (now_s, n_done)
        n_since = n_done - n_before
        if n_since < 1 or 5 * n_since < n_total - n_before or n_done >= n_total:
            return None
        return (now_s - begun_s) / n_since * (n_total - n_done)


def prior_s(protocol: protocol.Protocol) -> float:
    """What a trial is taken to need before one was timed: a share of its protocol's caps."""
    metered_s = protocol.settle_cap_s + protocol.n_energy_windows * protocol.energy_window_cap_s
    return _OF_CAP * (protocol.time_cap_s + metered_s)
