"""The layout of a line: where its names and values stand; most lines have the one before's.

A line whose names stand in the same places, and whose values have the forms of those places,
has the same fields. Both are found out without a loop in Python: the names are compared as
one tuple, and every value is looked up in the table of its form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem, itemgetter
from typing import Any

from mansard.device.tegrastats.grammar import GLUED, Piece, is_inert
from mansard.device.tegrastats.rails import read_alike, read_each
from mansard.device.tegrastats.sample import Cpu, Shape, TegrastatsSample
from mansard.device.tegrastats.tokens import (
    AMOUNTS,
    CPUS,
    FREES,
    PERCENTS,
    TEMPERATURES,
    USAGES,
    Table,
    UnfitError,
    engine_table,
)

_Pick = Callable[[Sequence[str]], tuple[str, ...]]

# The order of these fields in TegrastatsSample.
_SINGLE = ("RAM", "RAM(lfb", "SWAP", "SWAP(cached", "IRAM", "IRAM(lfb", "fg", "bg")
_get_cpu = CPUS.__getitem__


class Layout:
    """Reads the lines that have one layout; everything it holds is fixed."""

    def __init__(self, tokens: Sequence[str], pieces: tuple[Piece, ...]) -> None:
        self.shape: Shape = tuple((piece.kind, piece.name, piece.detail) for piece in pieces)
        self.is_sample = _is_sample(pieces)
        slots = [slot for piece in pieces for slot in _slots(tokens, piece)]
        order = {"single": 0, "engine": 1, "temperature": 2, "inert": 3}
        slots.sort(key=lambda slot: order[slot[0]])  # stable: within a group as in the line
        groups = [slot[0] for slot in slots]
        self._tables = [slot[3] for slot in slots]
        self._pick_values = _picker([slot[2] for slot in slots])
        names = [slot[1] for slot in slots if slot[0] == "single"]
        self._single = itemgetter(*(names.index(n) if n in names else -1 for n in _SINGLE))
        self._engines_at = groups.count("single")
        self._temperatures_at = self._engines_at + groups.count("engine")
        self._inert_at = self._temperatures_at + groups.count("temperature")
        cpus = [piece for piece in pieces if piece.kind == "cpus"]
        self._cpus_at = cpus[0].at + 1 if cpus else None
        self._is_shared = bool(cpus) and cpus[0].detail == "shared"
        self._set_rails([piece for piece in pieces if piece.kind == "rail"])
        unknown = [piece.at for piece in pieces if piece.kind == "unknown"]
        self._pick_unknown = _picker(unknown)
        taken = {slot[2] for slot in slots} | self._rails_at
        taken |= {piece.at + 1 for piece in cpus}
        fixed = [at for at in range(len(tokens)) if at not in taken]
        self._pick_fixed = _picker(fixed)
        self._fixed = self._pick_fixed(tokens)

    def _set_rails(self, pieces: Sequence[Piece]) -> None:
        self._rail_names = tuple(piece.name for piece in pieces)
        self._rails_at = {piece.at + 1 for piece in pieces}
        self._pick_rails = _picker([piece.at + 1 for piece in pieces])
        self._forms = tuple((int(piece.detail[0]), piece.detail[1:]) for piece in pieces)
        self._form = self._forms[0] if len(set(self._forms)) == 1 else None

    def read(self, prefix: str, tokens: Sequence[str]) -> TegrastatsSample:
        """The sample of a line of so many tokens; raises UnfitError if it has another layout."""
        if self._pick_fixed(tokens) != self._fixed:
            raise UnfitError("other names")
        values = (*map(getitem, self._tables, self._pick_values(tokens)), None)
        ram, ram_free, swap, swap_cached, iram, iram_free, fg, bg = self._single(values)
        clock_hz = None
        if self._cpus_at is None:
            cpus: tuple[Cpu, ...] = ()
        elif self._is_shared:
            cpus, clock_hz = _read_shared(tokens[self._cpus_at])
        else:
            cpus = _read_cpus(tokens[self._cpus_at])
        if self._form is not None:
            powers_w, averages_w, maximums_w = read_alike(self._pick_rails(tokens), *self._form)
        else:
            powers_w, averages_w, maximums_w = read_each(self._pick_rails(tokens), self._forms)
        return TegrastatsSample(
            prefix,
            self.shape,
            ram,
            ram_free,
            swap,
            swap_cached,
            iram,
            iram_free,
            fg,
            bg,
            cpus,
            clock_hz,
            values[self._engines_at : self._temperatures_at],
            values[self._temperatures_at : self._inert_at],
            self._rail_names,
            powers_w,
            averages_w,
            maximums_w,
            self._pick_unknown(tokens),
        )


def _read_cpus(token: str) -> tuple[Cpu, ...]:
    """``[35%@729,off]``; raises UnfitError."""
    if token[0] != "[" or token[-1] != "]":
        raise UnfitError(token)
    return tuple(map(_get_cpu, token[1:-1].split(",")))


def _read_shared(token: str) -> tuple[tuple[Cpu, ...], int]:
    """``[0%,5%,off]@2601``, and the clock in Hz; raises UnfitError."""
    body, bracket, clock = token.partition("]@")
    if body[0] != "[" or not bracket or "@" in body or len(clock) > 6 or not clock.isdecimal():
        raise UnfitError(token)
    each = body[1:].replace(",", f"@{clock},") + f"@{clock}"
    return tuple(map(_get_cpu, each.split(","))), int(clock) * 1_000_000


_Slot = tuple[str, str, int, Table[Any]]  # group, name, position of the value, its table


def _slots(tokens: Sequence[str], piece: Piece) -> list[_Slot]:
    """Where the values of a piece stand; cores and rails are read otherwise."""
    at, name = piece.at, piece.name
    if piece.kind == "memory":
        extra = piece.detail.strip()
        is_glued = piece.detail == extra != ""
        slots: list[_Slot] = [("single", name, at + 1, GLUED if is_glued else USAGES)]
        if extra:
            table = AMOUNTS if extra == "(cached" else FREES
            slots.append(("single", name + extra, at + piece.n_tokens - 1, table))
        return slots
    if piece.kind == "mts":
        return [("single", "fg", at + 2, PERCENTS), ("single", "bg", at + 4, PERCENTS)]
    if piece.kind == "engine":
        return [("engine", name, at + 1, engine_table(name))]
    if piece.kind == "temperature":
        return [("temperature", "", at, TEMPERATURES)]
    if piece.kind == "unknown" and is_inert(tokens[at]):
        return [("inert", "", at, INERT)]
    return []


def _parse_inert(token: str) -> str:
    if not is_inert(token):
        raise UnfitError(token)
    return token


INERT: Table[Any] = Table(_parse_inert)


def _is_sample(pieces: Sequence[Piece]) -> bool:
    """Whether a line is tegrastats' own: a clock or one number may stand in any text."""
    kinds = [piece.kind for piece in pieces]
    if "cpus" in kinds or any(p.kind == "memory" and p.name == "RAM" for p in pieces):
        return True
    return sum(kind in {"memory", "temperature", "rail"} for kind in kinds) >= 2


def _pick_none(tokens: Sequence[str]) -> tuple[str, ...]:
    del tokens
    return ()


def _picker(positions: Sequence[int]) -> _Pick:
    """A function that takes the tokens at ``positions``, always as a tuple."""
    if not positions:
        return _pick_none
    if len(positions) == 1:
        (only,) = positions
        return lambda tokens: (tokens[only],)
    return itemgetter(*positions)
