"""Rails: power now, averaged and at most, several rails at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from mansard.device.tegrastats.tokens import Table, UnfitError

# So many digits at most: W and back to mW is exact up to fifteen.
_NUMBER = r"-?\d{1,9}(?:\.\d{1,3})?"
_UNITS = {"": 1000.0, "mW": 1000.0, "W": 1.0}  # how many of it are a watt; without a unit: mW
_RAIL = re.compile(rf"{_NUMBER}(mW|W|)(?:/{_NUMBER}\1){{0,2}}", re.ASCII)
# A single number without a unit is a rail's power only behind such a name, else a clock.
_RAIL_NAME = re.compile(r"(?:VDD|VIN|POM|SYS)[A-Za-z0-9]*_?[A-Za-z0-9_]*", re.ASCII)

_Read = Callable[[str], float]
_Optional = Iterable[float | None]
Columns = tuple[Iterable[float], _Optional, _Optional]  # power now, average, maximum; W


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


# Values are joined as " a/b/ c/d", cut at every slash and read at once: the first number of each
# line is known by its space, so that a line with more or fewer numbers cannot shift the others.
_FIRST = {unit: _number_table(unit, " ") for unit in _UNITS}
_REST = {unit: _number_table(unit, "") for unit in _UNITS}


def read_rail(values: Sequence[str], n_numbers: int, unit: str) -> Columns:
    """One rail of many lines, all with ``n_numbers`` numbers in ``unit``; raises UnfitError."""
    parts = (" " + "/ ".join(values)).split("/")
    if len(parts) != n_numbers * len(values):
        raise UnfitError(values[-1])
    powers_w = map(_FIRST[unit], parts[::n_numbers])
    if n_numbers == 1:
        return powers_w, repeat(None), repeat(None)
    averages_w = map(_REST[unit], parts[1::n_numbers])
    if n_numbers == 2:
        return powers_w, averages_w, repeat(None)
    return powers_w, averages_w, map(_REST[unit], parts[2::n_numbers])
