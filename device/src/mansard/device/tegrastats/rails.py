"""Rails: power now, averaged and at most, several rails at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mansard.device.tegrastats.tokens import Table, UnfitError

# So many digits at most: W and back to mW is exact up to fifteen.
_NUMBER = r"-?\d{1,9}(?:\.\d{1,3})?"
_UNITS = {"": 1000.0, "mW": 1000.0, "W": 1.0}  # how many of it are a watt; without a unit: mW
_RAIL = re.compile(rf"{_NUMBER}(mW|W|)(?:/{_NUMBER}\1){{0,2}}", re.ASCII)
# A single number without a unit is a rail's power only behind such a name, else a clock.
_RAIL_NAME = re.compile(r"(?:VDD|VIN|POM|SYS)[A-Za-z0-9]*_?[A-Za-z0-9_]*", re.ASCII)

_Read = Callable[[str], float]
_Optional = tuple[float | None, ...]
Columns = tuple[tuple[float, ...], _Optional, _Optional]  # power now, average, maximum; W


def rail_form(name: str, token: str) -> tuple[int, str] | None:
    """How many numbers ``token`` has and their unit; None if it is no rail's power."""
    found = _RAIL.fullmatch(token)
    if found is None:
        return None
    n_numbers, unit = token.count("/") + 1, found[1]
    if n_numbers == 1 and not unit and not _RAIL_NAME.fullmatch(name):
        return None
    return n_numbers, unit


def watts(unit: str, power_w: float) -> str:
    """``power_w`` as the line has it."""
    return f"{power_w * _UNITS[unit]:.15g}{unit}"


def _number_table(unit: str, lead: str) -> _Read:
    form = re.compile(f"{lead}({_NUMBER}){unit}", re.ASCII)
    per_watt = _UNITS[unit]

    def parse(token: str) -> float:
        found = form.fullmatch(token)
        if found is None:
            raise UnfitError(token)
        return float(found[1]) / per_watt

    return Table(parse).__getitem__


# Rails are joined as " a/b/ c/d", cut at every slash and read at once: the first number of each
# rail is known by its space, so that a rail with more or fewer numbers cannot shift the others.
_FIRST = {unit: _number_table(unit, " ") for unit in _UNITS}
_REST = {unit: _number_table(unit, "") for unit in _UNITS}


def read_alike(tokens: Sequence[str], n_numbers: int, unit: str) -> Columns:
    """Rails that all have ``n_numbers`` numbers in ``unit``; raises UnfitError if they do not."""
    parts = (" " + "/ ".join(tokens)).split("/")
    if len(parts) != n_numbers * len(tokens):
        raise UnfitError(tokens[-1])
    powers_w = tuple(map(_FIRST[unit], parts[::n_numbers]))
    if n_numbers == 1:
        return powers_w, (None,) * len(tokens), (None,) * len(tokens)
    averages_w = tuple(map(_REST[unit], parts[1::n_numbers]))
    if n_numbers == 2:
        return powers_w, averages_w, (None,) * len(tokens)
    return powers_w, averages_w, tuple(map(_REST[unit], parts[2::n_numbers]))


def read_each(tokens: Sequence[str], forms: Sequence[tuple[int, str]]) -> Columns:
    """Rails of several forms, one by one; raises UnfitError."""
    rows = [read_alike((token,), *form) for token, form in zip(tokens, forms, strict=True)]
    powers_w = tuple(row[0][0] for row in rows)
    return powers_w, tuple(row[1][0] for row in rows), tuple(row[2][0] for row in rows)
