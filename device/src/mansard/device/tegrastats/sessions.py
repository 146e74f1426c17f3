"""When the lines of a log were written, and where one recording ends and the next one begins.

A file may hold several, where lines were appended or files put together. The time between two
recordings was not measured, so it gets no energy. A new one begins where

- dates go back,
- a gap is far longer than the lines' period: over ten mean periods, and over 2 s,
- the lines are those of another board: other memory, number of cores, rails or sensors,
- lines get dates that had none,
- what a script wrote before its first line comes again.

One line alone that fits neither its neighbours' dates nor their board is a damaged line: it is
refused. Chosen here: the ten periods and the 2 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date

import msgspec

from mansard.core.text import printable
from mansard.device.tegrastats.sample import Shape, TegrastatsSample

_DAY_S = 86_400
_BACK_S = 3600  # a clock that is set back is set back by no more
_DAY_1970 = date(1970, 1, 1).toordinal()
# tegrastats writes month-day-year from r34 on (NVIDIA, Jetson Linux Developer Guide); scripts
# put year-month-day, or seconds since 1970 with or without fraction, in front of older lines.
_TIME = r"(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?(?:\s?([AaPp])[Mm]\b)?"
_CLOCK = rf"[T ,_-]?\s*{_TIME}"
_MONTH_FIRST = re.compile(rf"(?<!\d)(\d{{1,2}})[-/](\d{{1,2}})[-/](\d{{4}}){_CLOCK}", re.ASCII)
_YEAR_FIRST = re.compile(rf"(?<!\d)(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_CLOCK}", re.ASCII)
_CLOCK_ALONE = re.compile(rf"(?<![\d:]){_TIME}(?![\d:])", re.ASCII)
_EPOCH = re.compile(r"(?<![\d.])(\d{10})(\d{3}|\d{6}|\d{9})?(?:[.,](\d{1,9}))?(?![\d.])", re.ASCII)


class Moment(msgspec.Struct, frozen=True, gc=False):
    """Seconds since 1970 on the log's own clock, and how finely they are written.

    A date has no time zone: it counts as if it were UTC.
    """

    time_s: float
    resolution_s: float


def time_of(prefix: str) -> Moment | None:
    """The time in ``prefix``; None where there is none that we can read."""
    match = _MONTH_FIRST.search(prefix)
    if match:
        month, day, year, *clock = match.groups()
        return _moment(year, month, day, *clock)
    match = _YEAR_FIRST.search(prefix)
    if match:
        return _moment(*match.groups())
    match = _CLOCK_ALONE.search(prefix)
    if match:  # the day is not known: 1970-01-01 stands for it
        return _moment("1970", "1", "1", *match.groups())
    match = _EPOCH.search(prefix)
    if match is None:
        return None
    seconds, more, fraction = match.groups()
    digits = (more or "") + (fraction or "")
    return Moment(float(f"{seconds}.{digits or 0}"), 10.0 ** -len(digits))


def _moment(*groups: str | None) -> Moment | None:
    year, month, day, hour, minute, second = (int(group or 0) for group in groups[:6])
    fraction, half = groups[6] or "", (groups[7] or "").upper()
    if half:  # 12 AM is midnight, 12 PM is noon
        hour = hour % 12 + (12 if half == "P" else 0)
    try:
        day_number = date(year, month, day).toordinal() - _DAY_1970
    except ValueError:
        return None
    whole_s = day_number * _DAY_S + hour * 3600 + minute * 60 + second
    return Moment(whole_s + (float(f"0.{fraction}") if fraction else 0.0), 10.0 ** -len(fraction))


class Times:
    """The times of one log's lines in their order: a clock without a date goes past midnight."""

    def __init__(self) -> None:
        self._day_s = 0  # since the first line's, of clocks alone
        self._last_s = 0.0

    def of(self, prefix: str) -> Moment | None:
        """The time in the next line's ``prefix``; None where there is none."""
        moment = time_of(prefix) if prefix else None
        if moment is None or moment.time_s >= _DAY_S:
            return moment
        step_s = moment.time_s + self._day_s - self._last_s
        if step_s < -_DAY_S / 2:
            self._day_s += _DAY_S
        elif self._day_s and step_s > _DAY_S - _BACK_S:  # set back at midnight
            self._day_s -= _DAY_S
        self._last_s = moment.time_s + self._day_s
        return Moment(self._last_s, moment.resolution_s)


GAP_PERIODS = 10.0
_SHORTEST_GAP_S = 2.0
_LONGEST_PERIOD_S = 360.0
PAUSE_PERIODS = 3.0  # in mean steps: a longer step is a pause
_MOST_HEADERS = 16
_LONGEST_HEADER = 200
_DIGITS = re.compile(r"\d+")


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line of tegrastats, its number in the file from 1 on, and when it was written."""

    number: int
    sample: TegrastatsSample
    moment: Moment | None


class PlacedLine(msgspec.Struct, frozen=True, gc=False):
    """A line, and why a new recording begins with it or why it is refused, if so."""

    line: Line
    begins: str = ""
    refused: str = ""


def place(lines: Iterable[Line | str]) -> Iterator[PlacedLine]:
    """Every line of tegrastats, and where a recording begins; a str is any other line."""
    recording, headers = _Recording(), _Headers()
    held: Line | None = None  # it does not continue the recording: judged with the next line
    for line in lines:
        if isinstance(line, str):
            headers.take(line, recording.n_lines + (held is not None))
            continue
        again = headers.again(is_continued=not recording.pauses(line))
        if held is not None:
            placed = _settle(recording, held, None if again else line)
            recording = recording.after(placed)
            held = None
            yield placed
        if not again and recording.breaks(line):
            held = line
            continue
        placed = PlacedLine(line, begins=again)
        recording = recording.after(placed)
        yield placed
    if held is not None:
        yield _settle(recording, held, None)


def _settle(recording: _Recording, held: Line, following: Line | None) -> PlacedLine:
    """Place the line ``held``, judged by the next line, which is None at the end of the log."""
    period_s = recording.period_s(held, following)
    why = recording.breaks(held, period_s)
    if why and following is not None and not recording.breaks(following, period_s):
        return PlacedLine(held, refused=why)
    return PlacedLine(held, begins=why)


class _Headers:
    """The lines before the first line of tegrastats, to recognise them further down."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # without its digits → as written
        self._found = ""
        self._is_equal = False

    def take(self, text: str, n_lines: int) -> None:
        """Add another line, after ``n_lines`` of tegrastats."""
        text = " ".join(text.split())[:_LONGEST_HEADER]
        form = _DIGITS.sub("0", text)
        if not n_lines and text and len(self._known) < _MOST_HEADERS:
            self._known.setdefault(form, text)
        elif n_lines and form in self._known:
            if n_lines < 2:  # written before every line: no header
                del self._known[form]
            else:
                self._found, self._is_equal = text, self._known[form] == text

    def again(self, *, is_continued: bool) -> str:
        """Why a recording begins with the next line; empty if no header stands before it.

        A line that repeats with other numbers may report a script's progress: it counts only where
        the dates do not simply continue.
        """
        header, self._found = self._found, ""
        if not header or (is_continued and not self._is_equal):
            return ""
        return f"{printable(header, 60)!r} stands before it again"


class _Recording:
    """Dates and board of the recording so far, which the next line has to fit."""

    def __init__(self) -> None:
        self.n_lines = 0
        self._is_timed = False
        self._n_timed = 0
        self._first_s = self._last_s = self._resolution_s = 0.0
        self._total_bytes: int | None = None
        self._n_cpus: int | None = None
        self._form: tuple[Shape | None, int] = (None, 0)
        self._names: dict[str, frozenset[str]] = {}

    def after(self, placed: PlacedLine) -> _Recording:
        """The recording that holds ``placed``, of which it is the last line."""
        if placed.refused:
            return self
        recording = _Recording() if placed.begins else self
        recording._take(placed.line)
        return recording

    def _take(self, line: Line) -> None:
        moment, sample = line.moment, line.sample
        if moment is not None:
            if not self._n_timed:
                self._is_timed = not self.n_lines
                self._first_s = moment.time_s
            self._last_s = moment.time_s
            self._resolution_s = max(self._resolution_s, moment.resolution_s)
            self._n_timed += 1
        if self._total_bytes is None and sample.ram is not None:
            self._total_bytes = sample.ram.total_bytes
        form = sample.shape, len(sample.cpus)
        if form != self._form:
            self._form = form
            self._n_cpus = _n_cpus(sample) if self._n_cpus is None else self._n_cpus
            for kind, names in _names(sample).items():
                self._names[kind] = self._names.get(kind, frozenset()) | names
        self.n_lines += 1

    def breaks(self, line: Line, period_s: float | None = None) -> str:
        """Why ``line`` does not continue the recording; empty if it does, or may.

        ``period_s``: of the lines, by default their mean so far, which is 0 after the first one.
        """
        if not self.n_lines:
            return ""
        period_s = self._mean_period_s() if period_s is None else period_s
        return self._breaks_in_time(line.moment, period_s) or self._breaks_in_board(line.sample)

    def period_s(self, second: Line, third: Line | None) -> float:
        """The mean period; after the first line alone the step from the second to the third.

        Where no third line tells it, it is the longest period in use.
        """
        if self._n_timed > 1:
            return self._mean_period_s()
        if second.moment is None or third is None or third.moment is None:
            return _LONGEST_PERIOD_S
        step_s = third.moment.time_s - second.moment.time_s
        return step_s if step_s >= 0 else _LONGEST_PERIOD_S

    def pauses(self, line: Line) -> bool:
        """Whether there is more than a pause before ``line``, or no date that tells."""
        if not self._is_timed or line.moment is None:
            return True
        step_s = line.moment.time_s - self._last_s
        return not 0 <= step_s <= PAUSE_PERIODS * self._mean_period_s() + self._resolution_s

    def _mean_period_s(self) -> float:
        return (self._last_s - self._first_s) / max(self._n_timed - 1, 1)

    def _breaks_in_time(self, moment: Moment | None, period_s: float) -> str:
        if moment is None:
            return ""
        if not self._is_timed:
            return "the lines get dates"
        step_s = moment.time_s - self._last_s
        if step_s < 0:
            return f"dates go back by {-step_s:.6g} s"
        resolution_s = max(self._resolution_s, moment.resolution_s)
        if step_s > max(GAP_PERIODS * period_s, _SHORTEST_GAP_S) + 2 * resolution_s:
            return f"a gap of {step_s:.6g} s between lines that are {period_s:.2g} s apart"
        return ""

    def _breaks_in_board(self, sample: TegrastatsSample) -> str:
        total_bytes = sample.ram.total_bytes if sample.ram is not None else None
        if None not in (total_bytes, self._total_bytes) and total_bytes != self._total_bytes:
            return f"another board: {_mib(total_bytes)} MB of RAM, {_mib(self._total_bytes)} before"
        if self._form == (sample.shape, len(sample.cpus)):
            return ""
        n_cpus = _n_cpus(sample)
        if None not in (n_cpus, self._n_cpus) and n_cpus != self._n_cpus:
            return f"another board: {n_cpus} cores, {self._n_cpus} before"
        for kind, names in _names(sample).items():
            before = self._names.get(kind, frozenset())
            if names and before and not (names <= before or before <= names):
                return (
                    f"another board: {kind} {', '.join(sorted(names - before))}, "
                    f"{', '.join(sorted(before - names))} before"
                )
        return ""


def _n_cpus(sample: TegrastatsSample) -> int | None:
    cpus = sample.cpus
    if not cpus or any(cpu.state == "elided" for cpu in cpus):
        return None
    return len(cpus)


def _names(sample: TegrastatsSample) -> dict[str, frozenset[str]]:
    return {
        "rails": frozenset(sample.rail_names),
        "temperatures": frozenset(sensor.name for sensor in sample.temperatures),
    }


def _mib(size_bytes: int | None) -> int:
    return (size_bytes or 0) >> 20
