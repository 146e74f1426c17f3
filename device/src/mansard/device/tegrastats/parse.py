"""Lines into samples, one by one or as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mansard.core.errors import InputError
from mansard.core.text import printable
from mansard.device.tegrastats.grammar import find_pieces
from mansard.device.tegrastats.layout import Layout
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.tokens import UnfitError

_MOST_LAYOUTS = 64  # a real log has one to five; more are junk and are forgotten
_LONGEST_PREFIX = 200
_COMMA = re.compile(r",\s+")  # "[1300, 1300]" as in NVIDIA's guide
# A date or a script's epoch in front of a line that does not begin with RAM.
_LEADING_TIME = re.compile(
    r"\s*(?:[\[(]?\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[T ]\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?Z?[\])]?"
    r"|\d{9,19}(?:\.\d{1,9})?)(?:\s*-{2,3}|\s*[:,;|])?\s*",
    re.ASCII,
)


def parse_line(text: str) -> TegrastatsSample:
    """The sample of one line; raises InputError if it is no line of tegrastats.

    Of half a line the fields that are whole are read and the rest is kept as ``unparsed``.
    """
    sample = Parser().read(text)
    if sample is None:
        raise InputError(
            f"{printable(text.strip(), 60)!r} is no line of tegrastats",
            fix="a line has RAM, CPU, and mostly temperatures and rails; see docs/telemetry.md",
        )
    return sample


def stream(lines: Iterable[str]) -> Iterator[TegrastatsSample]:
    """The samples of many lines; lines that are none (comments, a script's words) are left out.

    Memory is constant, however many lines there are.
    """
    read = Parser().read
    for line in lines:
        sample = read(line)
        if sample is not None:
            yield sample


class Parser:
    """Reads lines and remembers the layouts it has seen."""

    def __init__(self) -> None:
        self._layouts: dict[int, list[Layout]] = {}  # by the number of tokens, the last used first
        self._n_layouts = 0

    def read(self, line: str) -> TegrastatsSample | None:
        """The sample of ``line``, or None if it is no line of tegrastats."""
        start = line.find("RAM ")
        prefix = ""
        if start != 0:
            prefix = _prefix(line, start)
            line = line[len(prefix) :]
        tokens = line.split()
        for layout in self._layouts.get(len(tokens), ()):
            try:
                return layout.read(prefix, tokens)
            except UnfitError:
                continue
        return self._learn(prefix, line, tokens)

    def _learn(self, prefix: str, line: str, tokens: list[str]) -> TegrastatsSample | None:
        if prefix.lstrip().startswith("#") or line.lstrip().startswith("#"):
            return None
        closed = _COMMA.sub(",", line.rstrip())
        if closed != line.rstrip():
            return self.read(prefix + closed)
        layout = Layout(tokens, find_pieces(tokens))
        if not layout.is_sample:
            return None
        if self._n_layouts >= _MOST_LAYOUTS:
            self._layouts, self._n_layouts = {}, 0
        self._layouts.setdefault(len(tokens), []).insert(0, layout)
        self._n_layouts += 1
        return layout.read(prefix, tokens)


def _prefix(line: str, start: int) -> str:
    """What stands before the first field: up to RAM, or a time where RAM does not come first."""
    if 0 < start <= _LONGEST_PREFIX and not line[start - 1].isalnum():
        prefix = line[:start]
        if "%" not in prefix and "@" not in prefix:
            return prefix
    found = _LEADING_TIME.match(line)
    return found[0] if found else ""
