"""Lines into samples, one by one or as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from mansard.core.errors import InputError
from mansard.core.text import printable
from mansard.device.tegrastats.grammar import find_pieces
from mansard.device.tegrastats.layout import Layout
from mansard.device.tegrastats.sample import TegrastatsSample
from mansard.device.tegrastats.tokens import UnfitError
from mansard.device.tegrastats.wrapping import unwrap

# A real log has one to five layouts; more come from junk alone and are forgotten.
_MOST_LENGTHS = 32
_MOST_ALIKE = 4  # of one length
_LONGEST_PREFIX = 200
BATCH = 64  # lines read at once: few enough to stay in a core's own cache
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

    It reads some lines ahead: for a log. Memory is constant, however many lines there are.
    """
    return filter(None, Parser().read_all(lines))


class Parser:
    """Reads lines and remembers the layouts it has seen."""

    def __init__(self) -> None:
        self._layouts: dict[int, list[Layout]] = {}  # by the number of tokens, the last found first

    def read(self, line: str) -> TegrastatsSample | None:
        """The sample of ``line``, or None if it is no line of tegrastats."""
        return self._read_batch([line])[0]

    def read_all(
        self, lines: Iterable[str], n_ahead: int = BATCH
    ) -> Iterator[TegrastatsSample | None]:
        """The same of many lines, in their order; up to ``n_ahead`` are read at once."""
        remaining = iter(lines)
        while batch := list(islice(remaining, n_ahead)):
            yield from self._read_batch(batch)

    def _read_batch(self, lines: Sequence[str]) -> list[TegrastatsSample | None]:
        found: list[TegrastatsSample | None] = [None] * len(lines)
        prefixes: list[str] = []
        rows: list[list[str]] = []
        alike: dict[int, list[int]] = {}  # number of tokens → which lines
        for number, line in enumerate(map(unwrap, lines)):
            start = line.find("RAM ")
            prefix = _prefix(line, start) if start else ""
            tokens = line[len(prefix) :].split()
            prefixes.append(prefix)
            rows.append(tokens)
            alike.setdefault(len(tokens), []).append(number)
        for n_tokens, numbers in alike.items():
            if n_tokens:
                self._read_alike(numbers, prefixes, rows, found)
        return found

    def _read_alike(
        self,
        numbers: Sequence[int],
        prefixes: Sequence[str],
        rows: Sequence[list[str]],
        found: list[TegrastatsSample | None],
    ) -> None:
        """Read lines of as many tokens: all at once, else the halves, else one by one."""
        some_prefixes = [prefixes[number] for number in numbers]
        some_rows = [rows[number] for number in numbers]
        for layout in self._layouts.get(len(some_rows[0]), ()):
            try:
                samples = layout.read(some_prefixes, some_rows)
            except UnfitError:
                continue
            for number, sample in zip(numbers, samples, strict=True):
                found[number] = sample
            return
        if len(numbers) == 1:
            found[numbers[0]] = self._learn(some_prefixes[0], some_rows[0])
            return
        middle = len(numbers) // 2
        self._read_alike(numbers[:middle], prefixes, rows, found)
        self._read_alike(numbers[middle:], prefixes, rows, found)

    def _learn(self, prefix: str, tokens: list[str]) -> TegrastatsSample | None:
        """Read a line that has no layout yet."""
        if (prefix.strip() or tokens[0]).startswith("#"):
            return None
        if any(token[-1] == "," for token in tokens[:-1]):  # "[1300, 1300]" as in NVIDIA's guide
            return self.read(prefix + " ".join(tokens).replace(", ", ","))
        layout = Layout(tokens, find_pieces(tokens))
        if not layout.is_sample:
            return None
        if len(self._layouts) >= _MOST_LENGTHS:
            self._layouts = {}
        known = self._layouts.get(len(tokens), [])
        self._layouts[len(tokens)] = [layout, *known][:_MOST_ALIKE]
        return layout.read([prefix], [tokens])[0]


def _prefix(line: str, start: int) -> str:
    """What stands before the first field: up to RAM, or a time where RAM does not come first."""
    if 0 < start <= _LONGEST_PREFIX and not line[start - 1].isalnum():
        prefix = line[:start]
        if "%" not in prefix and "@" not in prefix:
            return prefix
    found = _LEADING_TIME.match(line)
    return found[0] if found else ""
