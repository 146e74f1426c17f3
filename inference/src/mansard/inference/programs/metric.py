"""The figure of merit of a program, read from what it prints while it runs."""

from __future__ import annotations

import math
import re

from mansard.core.errors import MeasurementError, UsageError

_LONGEST_LINE = 1 << 16  # of a longer one, pieces are looked at
_EXAMPLE = "--metric 'tokens/s: ([0-9.]+)'"


def compile_metric(pattern: str) -> re.Pattern[str]:
    """The pattern of a metric, which has one group; raises UsageError."""
    try:
        found = re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"--metric {pattern!r} is no regular expression: {error}", fix=f"write {_EXAMPLE}"
        ) from error
    if found.groups != 1:
        raise UsageError(
            f"--metric {pattern!r} has {found.groups} groups; the number stands in one",
            fix=f"write {_EXAMPLE}; (?:…) groups without counting",
        )
    return found


class MetricReader:
    """Reads output piece by piece, in whole lines; keeps the last match, and less than a line."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._rest: dict[int, bytes] = {}  # of each stream: the line that has not ended
        self._last: str | None = None

    def feed(self, stream: int, data: bytes) -> None:
        """Take what came from a stream."""
        text = self._rest.get(stream, b"") + data
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if len(text) - end > _LONGEST_LINE:
            end = len(text)
        self._rest[stream] = text[end:]
        self._search(text[:end])

    def value(self) -> float:
        """The number of the last match; raises MeasurementError where there is none."""
        for rest in self._rest.values():
            self._search(rest)
        self._rest.clear()
        if self._last is None:
            raise MeasurementError(
                f"--metric {self._pattern.pattern!r} matches nothing that the program printed",
                fix="compare it with what the program prints; it is looked for line by line",
            )
        try:
            found = float(self._last.replace(",", ""))
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise MeasurementError(
                f"--metric {self._pattern.pattern!r} found {self._last!r}, which is no number",
                fix="put the group around the number alone",
            )
        return found

    def _search(self, lines: bytes) -> None:
        text = lines.decode("utf-8", "replace").replace("\r", "\n")
        for match in self._pattern.finditer(text):
            self._last = match[1] or ""
