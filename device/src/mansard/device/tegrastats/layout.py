"""The layout of a line: where its names and values stand; most lines have the one before's.

Lines whose names stand in the same places, and whose values have the forms of those places,
have the same fields. They are read column by column, many lines at a time: names are counted,
values are looked up in the table of their form, and no step of it is a loop in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from mansard.device.tegrastats.cores import read_cores, read_shared
from mansard.device.tegrastats.grammar import GLUED, Piece, is_inert
from mansard.device.tegrastats.rails import read_rail
from mansard.device.tegrastats.sample import Shape, TegrastatsSample
from mansard.device.tegrastats.tokens import (
    AMOUNTS,
    FREES,
    PERCENTS,
    TEMPERATURES,
    USAGES,
    Table,
    UnfitError,
    engine_table,
)

_Column = tuple[str, ...]
_Place = tuple[int, Table[Any]]  # of a value, and the table of its form

# The order of these fields in TegrastatsSample.
_SINGLE = ("RAM", "RAM(lfb", "SWAP", "SWAP(cached", "IRAM", "IRAM(lfb", "fg", "bg")


class Layout:
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
        """The samples of lines of so many tokens; raises UnfitError if one has another layout."""
        columns = list(zip(*lines, strict=True))
        n_lines = len(lines)
        for at, text in self._fixed:
            if columns[at].count(text) != n_lines:
                raise UnfitError(text)
        for at in self._inert:
            if not all(map(is_inert, columns[at])):
                raise UnfitError("a known token where there was an unknown one")
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
    """The values of one column; raises UnfitError, at the latest where they are used."""
    if place is None:
        return repeat(None)
    at, table = place
    return map(table.__getitem__, columns[at])


def _rows(columns: Sequence[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*columns, strict=False) if columns else repeat(())


def _single_places(pieces: Sequence[Piece]) -> dict[str, _Place]:
    """Where the fields stand that a line has once."""
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
