"""Lines into samples, one by one or as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any

from mansard.core.errors import InputError
from mansard.core.text import printable
from mansard.device.tegrastats.files import unwrap
from mansard.device.tegrastats.grammar import GLUED, Piece, find_pieces, is_inert
from mansard.device.tegrastats.sample import Cpu, Shape, TegrastatsSample
from mansard.device.tegrastats.tokens import (
    AMOUNTS,
    CLOCK,
    CPUS,
    FREES,
    MHZ,
    PERCENTS,
    TEMPERATURES,
    USAGES,
    ImplausibleError,
    TokenError,
    TokenTable,
    engine_table,
    parse_cpu,
    read_rail,
)


def _parse_first(token: str) -> Cpu:
    if token[:1] != "[":
        raise TokenError(token)
    return parse_cpu(token[1:])


def _parse_last(token: str) -> Cpu:
    if token[-1:] != "]":
        raise TokenError(token)
    return parse_cpu(token[:-1])


# The brackets stay at the first and last core when the lists are cut at their commas: a list
# with more or fewer cores cannot shift those behind it unseen.
_FIRST = TokenTable(_parse_first)
_LAST = TokenTable(_parse_last)


def read_cores(lists: Sequence[str]) -> Iterator[tuple[Cpu, ...]]:
    """The cores of ``[35%@729,off]``, line by line; raises TokenError if their counts differ."""
    n_cores = lists[0].count(",") + 1
    if n_cores == 1:
        return zip(map(_parse_only, lists), strict=True)
    cores = ",".join(lists).split(",")
    if len(cores) != n_cores * len(lists):
        raise TokenError(lists[-1])
    columns = [map(CPUS.__getitem__, cores[number::n_cores]) for number in range(1, n_cores - 1)]
    first, last = cores[::n_cores], cores[n_cores - 1 :: n_cores]
    return zip(map(_FIRST.__getitem__, first), *columns, map(_LAST.__getitem__, last), strict=False)


def _parse_only(token: str) -> Cpu:
    if token[-1:] != "]":
        raise TokenError(token)
    return _FIRST[token[:-1]]


def read_shared(lists: Sequence[str]) -> tuple[Iterable[tuple[Cpu, ...]], Iterable[int]]:
    """The cores of ``[0%,5%,off]@2601`` and the clocks in Hz; raises TokenError."""
    pairs = [_one_shared(token) for token in lists]
    return [cores for cores, _ in pairs], [clock_hz for _, clock_hz in pairs]


def _one_shared(token: str) -> tuple[tuple[Cpu, ...], int]:
    body, bracket, clock = token.partition("]@")
    if body[:1] != "[" or not bracket or "@" in body or len(clock) > 6 or not clock.isdecimal():
        raise TokenError(token)
    CLOCK.check(int(clock))
    # A core that is off, or left out of a copy, has no clock.
    cores = (core if core[-1:] != "%" else f"{core}@{clock}" for core in body[1:].split(","))
    return tuple(map(CPUS.__getitem__, cores)), int(clock) * MHZ


# The layout of a line: the places of its names and values; most lines repeat the layout before.
#
# Lines with the same names in the same places, and with values of the forms of those places,
# have the same fields. They are read column by column, many lines at a time: names are counted,
# values are looked up in the table of their form, and no step of it is a loop in Python.

_Column = tuple[str, ...]
_Place = tuple[int, TokenTable[Any]]  # index of a value, and the table of its form

# The order of these fields in TegrastatsSample.
_SINGLE = ("RAM", "RAM(lfb", "SWAP", "SWAP(cached", "IRAM", "IRAM(lfb", "fg", "bg")


class LineLayout:
    """Reads the lines that have one layout; everything it holds is fixed."""

    def __init__(self, tokens: Sequence[str], pieces: tuple[Piece, ...]) -> None:
        self.shape: Shape = tuple((piece.kind, piece.name, piece.detail) for piece in pieces)
        self.is_sample = _is_sample(pieces)
        self._single = _single_places(pieces)
        self._engines = [(p.at + 1, engine_table(p.name)) for p in pieces if p.kind == "engine"]
        self._temperatures = [(p.at, TEMPERATURES) for p in pieces if p.kind == "temperature"]
        rails = [piece for piece in pieces if piece.kind == "rail"]
        self._rail_names = tuple(piece.name for piece in rails)
        self._rails = [(p.at + 1, int(p.detail[0]), p.detail[1:]) for p in rails]
        cpus = [piece for piece in pieces if piece.kind == "cpus"]
        self._cpus_at = cpus[0].at + 1 if cpus else None
        self._is_shared = bool(cpus) and cpus[0].detail == "shared"
        self._unknown = [piece.at for piece in pieces if piece.kind == "unknown"]
        self._inert = [at for at in self._unknown if is_inert(tokens[at])]
        values = (*self._single.values(), *self._engines, *self._temperatures)
        taken = {at for at, _ in values} | {at for at, _, _ in self._rails} | {*self._inert}
        taken |= {piece.at + 1 for piece in cpus}
        self._fixed = [(at, text) for at, text in enumerate(tokens) if at not in taken]

    def read(
        self, prefixes: Sequence[str], lines: Sequence[Sequence[str]]
    ) -> list[TegrastatsSample]:
        """The samples of lines of this many tokens; raises TokenError if one has another layout."""
        columns = list(zip(*lines, strict=True))
        n_lines = len(lines)
        for at, text in self._fixed:
            if columns[at].count(text) != n_lines:
                raise TokenError(text)
        for at in self._inert:
            if not all(map(is_inert, columns[at])):
                raise TokenError("a known token where there was an unknown one")
        single = (_read(columns, self._single.get(name)) for name in _SINGLE)
        cpus, clocks_hz = self._cpus(columns)
        rails = [read_rail(columns[at], n, unit) for at, n, unit in self._rails]
        powers_w, averages_w, maximums_w = zip(*rails, strict=True) if rails else ((), (), ())
        return list(
            map(
                TegrastatsSample,
                prefixes,
                repeat(self.shape),
                *single,
                cpus,
                clocks_hz,
                _rows([_read(columns, place) for place in self._engines]),
                _rows([_read(columns, place) for place in self._temperatures]),
                repeat(self._rail_names),
                _rows(powers_w),
                _rows(averages_w),
                _rows(maximums_w),
                _rows([columns[at] for at in self._unknown]),
            )
        )

    def _cpus(self, columns: Sequence[_Column]) -> tuple[Iterable[Any], Iterable[int | None]]:
        if self._cpus_at is None:
            return repeat(()), repeat(None)
        column = columns[self._cpus_at]
        return read_shared(column) if self._is_shared else (read_cores(column), repeat(None))


def _read(columns: Sequence[_Column], place: _Place | None) -> Iterable[Any]:
    """The values of one column; raises TokenError, at the latest where they are used."""
    if place is None:
        return repeat(None)
    at, table = place
    return map(table.__getitem__, columns[at])


def _rows(columns: Sequence[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*columns, strict=False) if columns else repeat(())


def _single_places(pieces: Sequence[Piece]) -> dict[str, _Place]:
    """The positions of the fields that a line has once."""
    places: dict[str, _Place] = {}
    for piece in pieces:
        if piece.kind == "mts":
            places["fg"], places["bg"] = (piece.at + 2, PERCENTS), (piece.at + 4, PERCENTS)
        elif piece.kind == "memory":
            extra = piece.detail.strip()
            is_glued = piece.detail == extra != ""
            places[piece.name] = (piece.at + 1, GLUED if is_glued else USAGES)
            if extra:
                table = AMOUNTS if extra == "(cached" else FREES
                places[piece.name + extra] = (piece.at + piece.n_tokens - 1, table)
    return places


def _is_sample(pieces: Sequence[Piece]) -> bool:
    """Whether a line is tegrastats' own: a clock or one number may stand in any text."""
    kinds = [piece.kind for piece in pieces]
    if "cpus" in kinds or any(p.kind == "memory" and p.name == "RAM" for p in pieces):
        return True
    return sum(kind in {"memory", "temperature", "rail"} for kind in kinds) >= 2


# A real log has one to five layouts; more come from junk alone and are forgotten.
_MOST_LENGTHS = 32
_MOST_ALIKE = 4  # of one length
_LONGEST_PREFIX = 200
# At the beginning, or alone behind a time; "run #3" is a script's own name.
_COMMENT = re.compile(r"^(?:#|//|;|%)|\s(?:#|//)(?:\s|$)")
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
            f"{printable(text.strip(), 60)!r} is not a line of tegrastats",
            fix="a line has RAM, CPU, and mostly temperatures and rails; see docs/use/telemetry.md",
        )
    return sample


def stream(lines: Iterable[str]) -> Iterator[TegrastatsSample]:
    """The samples of many lines; other lines (comments, output of scripts) are left out.

    It reads some lines ahead: for a log. Memory is constant, however many lines there are.
    """
    return filter(None, Parser().read_all(lines))


class Parser:
    """Reads lines and remembers the layouts it has seen."""

    def __init__(self) -> None:
        self._layouts: dict[
            int, list[LineLayout]
        ] = {}  # by the number of tokens, the last found first

    def read(self, line: str) -> TegrastatsSample | None:
        """The sample of ``line``, or None if it is no line of tegrastats."""
        return self._read_batch([line])[0]

    def read_all(
        self, lines: Iterable[str], n_ahead: int = BATCH
    ) -> Iterator[TegrastatsSample | None]:
        """The samples of many lines, in order; up to ``n_ahead`` are read at once."""
        remaining = iter(lines)
        while batch := list(islice(remaining, n_ahead)):
            yield from self._read_batch(batch)

    def _read_batch(self, lines: Sequence[str]) -> list[TegrastatsSample | None]:
        samples: list[TegrastatsSample | None] = [None] * len(lines)
        prefixes: list[str] = []
        rows: list[list[str]] = []
        alike: dict[int, list[int]] = {}  # number of tokens → which lines
        for number, line in enumerate(map(unwrap, lines)):
            start = line.find("RAM ")
            prefix = _prefix(line, start) if start else ""
            tokens = line[len(prefix) :].split()
            if _is_comment(prefix, tokens):
                tokens = []
            prefixes.append(prefix)
            rows.append(tokens)
            alike.setdefault(len(tokens), []).append(number)
        for n_tokens, numbers in alike.items():
            if n_tokens:
                self._read_alike(numbers, prefixes, rows, samples)
        return samples

    def _read_alike(
        self,
        numbers: Sequence[int],
        prefixes: Sequence[str],
        rows: Sequence[list[str]],
        into: list[TegrastatsSample | None],
    ) -> None:
        """Read lines with equal numbers of tokens: all at once, else in halves, else one by one."""
        some_prefixes = [prefixes[number] for number in numbers]
        some_rows = [rows[number] for number in numbers]
        for layout in self._layouts.get(len(some_rows[0]), ()):
            try:
                samples = layout.read(some_prefixes, some_rows)
            except (TokenError, ImplausibleError):
                continue
            for number, sample in zip(numbers, samples, strict=True):
                into[number] = sample
            return
        if len(numbers) == 1:
            into[numbers[0]] = self._learn(some_prefixes[0], some_rows[0])
            return
        middle = len(numbers) // 2
        self._read_alike(numbers[:middle], prefixes, rows, into)
        self._read_alike(numbers[middle:], prefixes, rows, into)

    def _learn(self, prefix: str, tokens: list[str]) -> TegrastatsSample | None:
        """Read a line that has no layout yet."""
        if any(token[-1] == "," for token in tokens[:-1]):  # "[1300, 1300]" as in NVIDIA's guide
            return self.read(prefix + " ".join(tokens).replace(", ", ","))
        layout = LineLayout(tokens, find_pieces(tokens))
        if not layout.is_sample:
            return None
        if len(self._layouts) >= _MOST_LENGTHS:
            self._layouts = {}
        layouts = self._layouts.get(len(tokens), [])
        self._layouts[len(tokens)] = [layout, *layouts][:_MOST_ALIKE]
        return layout.read([prefix], [tokens])[0]


def _is_comment(prefix: str, tokens: Sequence[str]) -> bool:
    """Whether the line is commented out, by a mark at its start or before its first field."""
    return _COMMENT.search(prefix.strip() or (tokens[0] if tokens else "")) is not None


def _prefix(line: str, start: int) -> str:
    """The text before the first field: up to RAM, or a time if RAM is not the first field."""
    if 0 < start <= _LONGEST_PREFIX and not line[start - 1].isalnum():
        prefix = line[:start]
        if "%" not in prefix and "@" not in prefix:
            return prefix
    match = _LEADING_TIME.match(line)
    return match[0] if match else ""
