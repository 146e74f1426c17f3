"""The grammar of a line: which tokens are a field, and which are none we know.

A field begins with a name (``RAM``, ``CPU``, an engine, a rail) or is one token
(``cpu@52C``). Whatever fits nothing is kept as a piece of its own, so that a line of a
later release, or half a line, loses nothing. So is a field whose number cannot be true, with
the reason (``limits``).

    memory       RAM 1903/15692MB (lfb 3251x4MB)      SWAP 0/7911MB (cached 0MB)
    cpus         CPU [1%@1190,off]                    cpu [0%,5%,off]@2601
    engine       GR3D_FREQ 12%@[1300,1300]            NVENC 716        VIC off
    mts          MTS fg 0% bg 9%
    temperature  cpu@51.968C/51.968C
    rail         VDD_IN 7956mW/7956mW                 CPU 216/216
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from mansard.device.tegrastats.sample import Shape
from mansard.device.tegrastats.tokens import (
    AMOUNTS,
    CLOCK,
    CPUS,
    FREES,
    PERCENTS,
    TEMPERATURES,
    USAGES,
    ImplausibleError,
    TokenError,
    TokenTable,
    fits,
    parse_engine,
    parse_usage,
    rail_form,
)

_LOST_SLASH = "one number where the line's other rails have more: a slash is lost"
_LONGEST_SHOWN = 60  # characters of an implausible value
_ONCE = {"memory", "cpus", "mts"}  # fields that a sample has one of
MEMORIES = ("RAM", "SWAP", "IRAM")
_EXTRAS: dict[str, TokenTable[Any]] = {"(lfb": FREES, "(cached": AMOUNTS}
# An engine's name has a capital, which words of people's own lines often have not.
_ENGINE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]{0,63}", re.ASCII)
_RAIL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,63}", re.ASCII)
# Whatever begins otherwise can begin or continue no field.
_MEANINGFUL = re.compile(r"[A-Za-z0-9\[(@.…-]", re.ASCII)


class Piece(msgspec.Struct, frozen=True):
    """A field or an unknown token: ``kind``, name as written, spelling, first token.

    ``detail`` of an unknown token: why its number cannot be true, if that is the cause.
    """

    kind: str
    name: str
    detail: str
    at: int
    n_tokens: int


def _parse_glued(token: str) -> Any:
    for extra in _EXTRAS:
        if token.endswith(extra):
            return parse_usage(token[: -len(extra)])
    raise TokenError(token)


GLUED: TokenTable[Any] = TokenTable(_parse_glued)  # 0/252kB(lfb


def find_pieces(tokens: Sequence[str]) -> tuple[Piece, ...]:
    """All pieces of a line in their order; together they hold every token."""
    pieces: list[Piece] = []
    at = 0
    while at < len(tokens):
        piece = _piece(tokens, at)
        if piece.kind in _ONCE and any(_same(piece, earlier) for earlier in pieces):
            piece = _unknown(at)  # a second one: two lines run together
        pieces.append(piece)
        at += piece.n_tokens
    return tuple(_without_lost_slash(_without_cut_rail(pieces), tokens))


def refusals_of(shape: Shape) -> tuple[str, ...]:
    """The values of a line of this shape that cannot be true, each with its reason."""
    return tuple(detail for kind, _, detail in shape if kind == "unknown" and detail)


def _same(one: Piece, other: Piece) -> bool:
    return one.kind == other.kind and (one.kind != "memory" or one.name == other.name)


def _without_cut_rail(pieces: list[Piece]) -> list[Piece]:
    """A line that ends with a rail and one bare number was cut within that number."""
    if not pieces or (pieces[-1].kind, pieces[-1].detail) != ("rail", "1"):
        return pieces
    at = pieces[-1].at
    return [*pieces[:-1], _unknown(at), _unknown(at + 1)]


def _without_lost_slash(pieces: list[Piece], tokens: Sequence[str]) -> list[Piece]:
    """Refuse rails with one number where others have two: without their slash they are one number.

    tegrastats prints the same count of numbers for every rail of a line.
    """
    if not any(piece.kind == "rail" and piece.detail[0] != "1" for piece in pieces):
        return pieces
    repaired = []
    for piece in pieces:
        if piece.kind == "rail" and piece.detail[0] == "1":
            repaired += [_refused(tokens, piece.at, _LOST_SLASH), _unknown(piece.at + 1)]
        else:
            repaired.append(piece)
    return repaired


def _piece(tokens: Sequence[str], at: int) -> Piece:
    try:
        return _field(tokens, at)
    except ImplausibleError as error:
        return _refused(tokens, at, str(error))


def _refused(tokens: Sequence[str], at: int, reason: str) -> Piece:
    name, value = tokens[at], (*tokens[at + 1 : at + 2], "")[0]
    text = name if "@" in name else f"{name} {value}"
    return Piece("unknown", "", f"{text[:_LONGEST_SHOWN]} ({reason})", at, 1)


def _field(tokens: Sequence[str], at: int) -> Piece:
    name, *following = tokens[at : at + 5]
    value = following[0] if following else ""
    if fits(TEMPERATURES, name):
        return Piece("temperature", "", "", at, 1)
    if name in MEMORIES:
        return _memory(name, following, at)
    if name in {"CPU", "cpu"} and value.startswith("["):
        form = cpu_form(value)
        return Piece("cpus", name, form, at, 2) if form is not None else _unknown(at)
    if name in {"MTS"} and _is_mts(following):
        return Piece("mts", name, "", at, 5)
    return _rail_or_engine(name, value, at)


def _rail_or_engine(name: str, value: str, at: int) -> Piece:
    numbers = rail_form(name, value) if _RAIL_NAME.fullmatch(name) else None
    if numbers is not None:
        return Piece("rail", name, f"{numbers[0]}{numbers[1]}", at, 2)
    if _ENGINE_NAME.fullmatch(name) and _is_engine(value):
        return Piece("engine", name, "", at, 2)
    return _unknown(at)


def _unknown(at: int) -> Piece:
    return Piece("unknown", "", "", at, 1)


def _memory(name: str, following: Sequence[str], at: int) -> Piece:
    value, extra, amount = (*following, "", "", "")[:3]
    wanted = "(cached" if name == "SWAP" else "(lfb"
    if value.endswith(wanted) and fits(GLUED, value) and fits(_EXTRAS[wanted], extra):
        return Piece("memory", name, wanted, at, 3)
    if not fits(USAGES, value):
        return _unknown(at)
    if extra == wanted and fits(_EXTRAS[wanted], amount):
        return Piece("memory", name, f" {wanted}", at, 4)
    return Piece("memory", name, "", at, 2)


def cpu_form(token: str) -> str | None:
    """Whether a list of cores has "each" or a "shared" clock; None for another token.

    Raises ImplausibleError for a clock that no core has.
    """
    body, bracket, clock = token[1:].partition("]")
    if not bracket or (clock and not re.fullmatch(r"@\d{1,6}", clock, re.ASCII)):
        return None
    CLOCK.check(int(clock[1:] or 0))
    cores = body.split(",")
    if clock and any("@" in core for core in cores):
        return None
    if all(fits(CPUS, core) for core in cores):
        return "shared" if clock else "each"
    return None


def _is_mts(following: Sequence[str]) -> bool:
    if len(following) < 4 or (following[0], following[2]) != ("fg", "bg"):
        return False
    return fits(PERCENTS, following[1]) and fits(PERCENTS, following[3])


def _is_engine(value: str) -> bool:
    try:
        parse_engine("", value)
    except TokenError:
        return False
    return True


def is_inert(token: str) -> bool:
    """Whether ``token`` can neither begin nor continue a field, whatever its neighbours."""
    return not _MEANINGFUL.match(token)
