"""Energy of each rail over a recording: its mean power times the time that the lines span.

The lines' own dates tell how long that is, to the second that they are written to; where they have
none, the period between them must be given. Times finer than 0.1 s tell it line by line: then
the energy is a trapezoid over them, which also holds where the lines come unevenly.

    span = t_last - t_first ± resolution            E = mean(P) · span
"""

from __future__ import annotations

from collections import Counter

import msgspec

from mansard.core.records import Record
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.sessions import PAUSE_PERIODS, Moment

FINE_S = 0.1  # a resolution up to this is a time stamp, a coarser one a date
_COARSE_SHARE = 0.1  # dates coarser than this share of the span give way to --interval
_OVERHEAD = 0.01  # by which the real period may exceed the one asked for: 0.85 % was recorded
_MOST_RAILS = 256

Bounds = tuple[float, float, float]  # a value, the least and the most that it can be
UNKNOWN = None, None, None  # in place of bounds

DATES = "the lines' times"
GIVEN = "--interval"
NO_TIMES = "the lines have no times; --interval gives the period between them"
TOO_FEW = "the rail has fewer than two lines"


class LogWindow(msgspec.Struct, frozen=True):
    """The length of the recording, and its source.

    ``span_s``: the length with the least and the most that it can be; None for the ``reason``.
    ``conflict`` is what speaks against --interval.
    """

    span_s: Bounds | None
    source: str | None = None
    reason: str = ""
    conflict: str = ""


class RailSummary(Record, frozen=True, kw_only=True):
    """Energy of one rail from its first line to its last, and what it lies between."""

    rail: str
    n_lines: int
    mean_w: float
    energy_j: float | None
    energy_low_j: float | None
    energy_high_j: float | None

    @property
    def bounds_j(self) -> Bounds | None:
        """The energy with its bounds."""
        low_j, high_j = self.energy_low_j, self.energy_high_j
        if self.energy_j is None or low_j is None or high_j is None:
            return None
        return self.energy_j, low_j, high_j


class _RailSum(msgspec.Struct):
    n_lines: int
    sum_w: float
    first: int  # line of the recording
    last: int
    first_s: float
    last_s: float
    last_w: float
    trapezoid_j: float


class EnergyTally:
    """Adds up the power of the rails of one recording; constant memory.

    Its times never go back. A line without a time in a recording that has times lies in no
    energy: its power is taken to be that of its neighbours.
    """

    def __init__(self, interval_s: float | None) -> None:
        self._interval_s = interval_s
        self._rails: dict[str, _RailSum] = {}
        self._n_lines = self._n_timed = 0
        self._first_s = self._last_s = self._longest_s = self._resolution_s = 0.0

    def add(self, sample: TegrastatsSample, moment: Moment | None) -> None:
        """Add one line; ``moment`` is None if it has no time."""
        number = self._n_lines
        self._n_lines += 1
        if moment is None and self._n_timed:
            return
        time_s = self._take_time(moment) if moment is not None else 0.0
        names = sample.rail_names
        if len(set(names)) != len(names):
            names = numbered(names)
        for name, power_w in zip(names, sample.powers_w, strict=True):
            rail = self._rails.get(name)
            if rail is None:
                if len(self._rails) < _MOST_RAILS:
                    self._rails[name] = _RailSum(
                        1, power_w, number, number, time_s, time_s, power_w, 0.0
                    )
                continue
            rail.trapezoid_j += (rail.last_w + power_w) / 2 * (time_s - rail.last_s)
            rail.n_lines += 1
            rail.sum_w += power_w
            rail.last, rail.last_s, rail.last_w = number, time_s, power_w

    def _take_time(self, moment: Moment) -> float:
        time_s = moment.time_s
        if not self._n_timed:
            self._first_s = self._last_s = time_s
        self._n_timed += 1
        self._longest_s = max(self._longest_s, time_s - self._last_s)
        self._resolution_s = max(self._resolution_s, moment.resolution_s)
        self._last_s = time_s
        return time_s

    def window(self) -> LogWindow:
        """The length of the recording: its dates win over the period that was given."""
        n_steps = self._n_lines - 1
        if n_steps < 1:
            return LogWindow(None, reason="the recording has fewer than two lines")
        given_s = None if self._interval_s is None else n_steps * self._interval_s
        if not self._n_timed:
            if given_s is None:
                return LogWindow(None, reason=NO_TIMES)
            return LogWindow((given_s, given_s, given_s), GIVEN)
        return self._dated(given_s)

    def _dated(self, given_s: float | None) -> LogWindow:
        span_s, resolution_s = self._last_s - self._first_s, self._resolution_s
        low_s, high_s = max(span_s - resolution_s, 0.0), span_s + resolution_s
        is_fine = resolution_s <= FINE_S
        slack_s = max(resolution_s, _OVERHEAD * span_s) if is_fine else resolution_s
        conflict = ""
        if given_s is not None and abs(given_s - span_s) >= slack_s:
            conflict = (
                f"--interval {self._interval_s:g} s makes {given_s:.6g} s of these lines, but "
                f"their times tell {span_s:.6g} s to within {resolution_s:.2g} s: the times count"
            )
        elif given_s is not None and resolution_s > max(FINE_S, _COARSE_SHARE * span_s):
            return LogWindow((given_s, low_s, high_s), GIVEN)
        if span_s <= resolution_s:
            why = f"the lines' times tell only that they span less than {high_s:g} s"
            fix = "" if conflict else "; --interval gives the period"
            return LogWindow(None, reason=why + fix, conflict=conflict)
        return LogWindow((span_s, low_s, high_s), DATES, conflict=conflict)

    def warnings(self) -> list[str]:
        """What limits the energies, in sentences."""
        window = self.window()
        warnings = [window.conflict] if window.conflict else []
        n_untimed = self._n_lines - self._n_timed if self._n_timed else 0
        if n_untimed:
            warnings.append(f"{n_untimed} of {self._n_lines} lines have no time and add no energy")
        if window.source == DATES and window.span_s is not None:
            period_s = window.span_s[0] / max(self._n_timed - 1, 1)
            if self._longest_s > PAUSE_PERIODS * period_s + self._resolution_s:
                warnings.append(
                    f"the log pauses, {self._longest_s:.4g} s at the longest: power there is "
                    "interpolated"
                )
        return warnings

    def energies(self) -> tuple[RailSummary, ...]:
        """Energy of each rail, or the reason why it is not known."""
        window = self.window()
        return tuple(self._energy(name, rail, window) for name, rail in self._rails.items())

    def _energy(self, name: str, rail: _RailSum, window: LogWindow) -> RailSummary:
        mean_w = rail.sum_w / rail.n_lines
        energies_j: Bounds | None = None
        if rail.n_lines > 1 and window.span_s is not None:
            duration_s, *limits_s = window.span_s
            energy_j = mean_w * self._share(rail, window) * duration_s
            if window.source == DATES and self._resolution_s <= FINE_S:
                energy_j = rail.trapezoid_j
            low_j, high_j = sorted(energy_j * (limit_s / duration_s) for limit_s in limits_s)
            energies_j = energy_j, low_j, high_j
        reason = TOO_FEW if rail.n_lines < 2 else window.reason
        names = ("energy_j", "energy_low_j", "energy_high_j")
        return RailSummary(
            rail=name,
            n_lines=rail.n_lines,
            mean_w=mean_w,
            **dict(zip(names, energies_j or UNKNOWN, strict=True)),
            unknown={} if energies_j else dict.fromkeys(names, reason),
        )

    def _share(self, rail: _RailSum, window: LogWindow) -> float:
        """The share of the recording from the rail's first line to its last."""
        if window.source == GIVEN:
            return (rail.last - rail.first) / (self._n_lines - 1)
        return (rail.last_s - rail.first_s) / (self._last_s - self._first_s)


def numbered(names: tuple[str, ...]) -> tuple[str, ...]:
    """Labels made unique: the second NC becomes "NC (2)"."""
    seen: Counter[str] = Counter()
    labels: list[str] = []
    for name in names:
        seen[name] += 1
        labels.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(labels)
