"""Energy of each rail over a log: a trapezoid over the lines' times, line by line.

Where the lines have no times the period between them must be given; where they have only
whole seconds, the window is known to one second, and a log too short for that has no energy.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from mansard.core.records import Record
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.times import Moment

FINE_S = 0.1  # a resolution up to this is a time stamp, a coarser one a date
MOST_TOLERANCE = 0.1  # a window known less well than this has no energy
_PAUSE_PERIODS = 3.0  # a step longer than this many mean steps is a pause
_MOST_RAILS = 256

_MOST_SHARING = 1.5  # lines for each tick of the times; more are faster than the times tell
GIVEN = "--interval"
NO_TIMES = "the lines have no times; --interval gives the period between them"
TOO_FEW = "the rail has fewer than two lines"


class LogWindow(msgspec.Struct, frozen=True):
    """How long the log is, how well that is known, and from what; or why it is not known."""

    duration_s: float | None
    tolerance: float  # relative, at most
    source: str
    reason: str = ""


class RailSummary(Record, frozen=True, kw_only=True):
    """Energy of one rail over the log."""

    rail: str
    n_lines: int
    mean_w: float
    energy_j: float | None


class _RailSum(msgspec.Struct):
    n_lines: int
    first_w: float
    last_w: float
    last_s: float | None
    sum_w: float
    energy_j: float


class EnergyTally:
    """Adds up the power of the rails; constant memory."""

    def __init__(self, interval_s: float | None) -> None:
        self._interval_s = interval_s
        self._rails: dict[str, _RailSum] = {}
        self._n_lines = self._n_untimed = self._n_backwards = 0
        self._first_s = self._last_s = self._longest_s = self._resolution_s = 0.0

    def add(self, sample: TegrastatsSample, moment: Moment | None) -> None:
        """Take in one line; ``moment`` is None where it has no time."""
        time_s = self._take_time(moment)
        self._n_lines += 1
        names = sample.rail_names
        if len(set(names)) != len(names):
            names = numbered(names)
        for name, power_w in zip(names, sample.powers_w, strict=True):
            rail = self._rails.get(name)
            if rail is None:
                if len(self._rails) < _MOST_RAILS:
                    self._rails[name] = _RailSum(1, power_w, power_w, time_s, power_w, 0.0)
                continue
            if time_s is not None and rail.last_s is not None:
                rail.energy_j += (rail.last_w + power_w) / 2 * (time_s - rail.last_s)
            rail.n_lines += 1
            rail.last_w, rail.last_s = power_w, time_s
            rail.sum_w += power_w

    def _take_time(self, moment: Moment | None) -> float | None:
        if moment is None:
            self._n_untimed += 1
            return None
        time_s = moment.time_s
        if self._n_lines == self._n_untimed:
            self._first_s = self._last_s = time_s
        step_s = time_s - self._last_s
        self._n_backwards += step_s < 0
        self._longest_s = max(self._longest_s, step_s)
        self._resolution_s = max(self._resolution_s, moment.resolution_s)
        self._last_s = time_s
        return time_s

    def window(self) -> LogWindow:
        """The length of the log, from the best that it has."""
        n_steps = self._n_lines - 1
        if n_steps < 1:
            return LogWindow(None, 0.0, "", "the log has fewer than two lines")
        duration_s = self._last_s - self._first_s
        reason = self._why_no_times(n_steps, duration_s)
        is_fine = not reason and self._resolution_s <= FINE_S
        if self._interval_s is not None and not is_fine:
            return LogWindow(n_steps * self._interval_s, 0.0, GIVEN)
        if reason:
            return LogWindow(None, 0.0, "", reason)
        return LogWindow(duration_s, self._resolution_s / duration_s, "the lines' times")

    def _why_no_times(self, n_steps: int, duration_s: float) -> str:
        """Why the lines' times do not tell how long the log is; empty if they do."""
        resolution_s = self._resolution_s
        if self._n_untimed:
            return NO_TIMES
        if self._n_backwards:
            return "the lines' times go backwards; --interval gives the period"
        if duration_s < resolution_s / MOST_TOLERANCE:
            return (
                f"{duration_s:.3g} s of log with times to {resolution_s:g} s do not tell how long "
                "it is; --interval gives the period"
            )
        if n_steps * resolution_s > _MOST_SHARING * duration_s:
            return f"several lines share each {resolution_s:g} s; --interval gives the period"
        return ""

    def pauses(self) -> str | None:
        """A warning where the log pauses: energy there is interpolated, not measured."""
        window = self.window()
        if window.duration_s is None or window.source == GIVEN:
            return None
        period_s = window.duration_s / (self._n_lines - 1)
        if self._longest_s <= _PAUSE_PERIODS * period_s + self._resolution_s:
            return None
        return (
            f"the log pauses, {self._longest_s:.4g} s at the longest: power there is interpolated"
        )

    def energies(self) -> tuple[RailSummary, ...]:
        """Energy of each rail, or the reason why it is not known."""
        window = self.window()
        found = []
        for name, rail in self._rails.items():
            reason, energy_j = window.reason, None
            if rail.n_lines < 2:
                reason = TOO_FEW
            elif window.source == GIVEN:
                inner_w = rail.sum_w - (rail.first_w + rail.last_w) / 2
                energy_j = inner_w * (self._interval_s or 0.0)
            elif window.duration_s is not None:
                energy_j = rail.energy_j
            found.append(
                RailSummary(
                    rail=name,
                    n_lines=rail.n_lines,
                    mean_w=rail.sum_w / rail.n_lines,
                    energy_j=energy_j,
                    unknown={} if energy_j is not None else {"energy_j": reason},
                )
            )
        return tuple(found)


def numbered(names: tuple[str, ...]) -> tuple[str, ...]:
    """Labels told apart: the second NC becomes "NC (2)"."""
    seen: Counter[str] = Counter()
    told: list[str] = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(told)
