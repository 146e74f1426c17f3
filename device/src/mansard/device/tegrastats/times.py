"""When a line was written, from what stands before its first field."""

from __future__ import annotations

import re
from datetime import date

import msgspec

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
    found = _MONTH_FIRST.search(prefix)
    if found:
        month, day, year, *clock = found.groups()
        return _moment(year, month, day, *clock)
    found = _YEAR_FIRST.search(prefix)
    if found:
        return _moment(*found.groups())
    found = _CLOCK_ALONE.search(prefix)
    if found:  # of a day that is not known: the first that there is
        return _moment("1970", "1", "1", *found.groups())
    found = _EPOCH.search(prefix)
    if found is None:
        return None
    seconds, more, fraction = found.groups()
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
