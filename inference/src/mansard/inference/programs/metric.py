"""The figure of merit of a program, read from what it prints while it runs."""

from __future__ import annotations

import contextlib
import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path

from mansard.core.errors import MeasurementError, UsageError

_MATCHER = Path(__file__).with_name("matcher.py")
_LONGEST_LINE = 1 << 16  # a longer line is searched in pieces
_SEARCH_S = 0.25  # CPU time for one piece; simple expressions take a thousandth of it
_EXAMPLE = "--metric 'tokens/s: ([0-9.]+)'"
_PRINT = "print it with a decimal point and nothing between thousands"

_EXPONENT = r"(?:[eE][-+]?\d+)?"
# Commas: between thousands, or before decimals. Points between thousands are there too.
_ENGLISH = re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:(?:,\d{{3}})+\.\d*|(?:,\d{{3}}){{2,}}){_EXPONENT}")
_CONTINENTAL = re.compile(
    rf"[-+]?(?:[1-9]\d{{0,2}}(?:(?:\.\d{{3}})+,\d*|(?:\.\d{{3}}){{2,}})|\d+,\d+){_EXPONENT}"
)
_EITHER = re.compile(rf"[-+]?[1-9]\d{{0,2}},\d{{3}}{_EXPONENT}")
# Beside a group, these are parts of the same number.
_GOES_ON = re.compile(r"[.,]?\d|[eE][-+]?\d")
_BEGAN_BEFORE = re.compile(r"(?:\d[.,]?|(?:^|[\s:=(])[-.,])$")


def compile_metric(pattern: str) -> re.Pattern[str]:
    """The pattern of a metric, which has one group; raises UsageError."""
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"--metric {pattern!r} is not a regular expression: {error}", fix=f"write {_EXAMPLE}"
        ) from error
    if compiled.groups != 1:
        raise UsageError(
            f"--metric {pattern!r} has {compiled.groups} groups; the number stands in one",
            fix=f"write {_EXAMPLE}; (?:…) groups without counting",
        )
    return compiled


def parse_number(text: str) -> float:
    """The number that a program printed; raises ValueError, which says why it is unknown.

    ``12,5`` and ``1.234,5`` have a decimal comma, ``1,234.5`` and ``1,234,567`` have commas between
    thousands; ``12,345`` may be either.
    """
    number = text.strip().rstrip(",")
    if _EITHER.fullmatch(number):
        raise ValueError(
            f"found {text!r}, which is {number.replace(',', '')} or {number.replace(',', '.')}"
        )
    if _ENGLISH.fullmatch(number):
        number = number.replace(",", "")
    elif _CONTINENTAL.fullmatch(number):
        number = number.replace(".", "").replace(",", ".")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"found {text!r}, which is not a number")
    return value


class MetricReader:
    """Reads output piece by piece, in whole lines; keeps the last match and an unfinished line.

    Another process searches (``matcher.py``), so that no expression can block this one.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern.pattern
        self._rest: dict[int, bytes] = {}  # of each stream: the line that has not ended
        self._matcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_MATCHER), self._pattern, str(_SEARCH_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        if self._matcher.stdout is not None:
            self._matcher.stdout.read(1)  # so that it does not start beside the program

    def feed(self, stream: int, data: bytes) -> None:
        """Feed a piece of the program's output."""
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
        answer, _ = self._matcher.communicate()
        self.close()
        if self._matcher.returncode == -signal.SIGVTALRM:
            raise MeasurementError(
                f"--metric {self._pattern!r} searches more than {_SEARCH_S:g} s in a piece of the "
                "output",
                fix="write it without a repetition inside a repetition, such as (a+)+",
            )
        try:
            last = json.loads(answer)
        except ValueError as error:
            raise MeasurementError(
                f"the process that looks for --metric {self._pattern!r} was ended",
                fix="measure again",
            ) from error
        if last is None:
            raise MeasurementError(
                f"--metric {self._pattern!r} matches nothing that the program printed",
                fix="compare it with what the program prints; it is looked for line by line",
            )
        return self._number(*last)

    def close(self) -> None:
        """End the search process."""
        if self._matcher.poll() is None:
            self._matcher.kill()
            self._matcher.wait()
        for pipe in (self._matcher.stdin, self._matcher.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _number(self, before: str, text: str, after: str) -> float:
        """The text of the group, unless it is part of a longer number."""
        # A comma that the expression itself writes beside the group separates two values.
        goes_on = _GOES_ON.match(after) and not (after[0] == "," and ")," in self._pattern)
        began = _BEGAN_BEFORE.search(before) and not (before[-1] == "," and ",(" in self._pattern)
        if (text[-1:].isdigit() and goes_on) or (text[:1].isdigit() and began):
            raise MeasurementError(
                f"--metric {self._pattern!r} found {text!r}, a part of {before + text + after!r}",
                fix="put the group around the whole number, such as ([-0-9.,e]+)",
            )
        try:
            return parse_number(text)
        except ValueError as error:
            raise MeasurementError(
                f"--metric {self._pattern!r} {error}",
                fix=_PRINT if "," in text else "put the group around the number alone",
            ) from error

    def _search(self, lines: bytes) -> None:
        stdin = self._matcher.stdin
        if not lines or stdin is None or stdin.closed:
            return
        data = memoryview(len(lines).to_bytes(8, "big") + lines)
        with contextlib.suppress(OSError):  # it was ended, and ``value`` says why
            while data:
                data = data[stdin.write(data) :]
