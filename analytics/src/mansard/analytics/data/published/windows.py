"""Windows of runs beside raw samples of power: their energies are made of the samples.

The energies that such a table claims are not used: loggers cut a window to the samples inside it,
and add rails that contain one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mansard.analytics.data.published.cells import TextRow, TextTable, parse_positive
from mansard.analytics.data.published.columns import unit_of, words_of
from mansard.analytics.data.published.readers.power_trace import PowerTrace
from mansard.analytics.data.published.readers.reader import Reading, cells, known
from mansard.core.errors import InputError

_AGREEING = 0.05  # as an energy and power x time of one row
_ENDS = (("start", re.compile(r"start|begin", re.I)), ("end", re.compile(r"end|stop", re.I)))


def has_windows(table: TextTable) -> bool:
    """Whether a table has a column of starts and one of ends."""
    return len(_columns(table)) == len(_ENDS)


def _columns(table: TextTable) -> dict[str, tuple[str, float]]:
    """ "start" and "end", with the names of their columns and the factors to seconds."""
    found: dict[str, tuple[str, float]] = {}
    for name in table.columns:
        words = words_of(name)
        units = [unit for word in words if (unit := unit_of(word)) is not None]
        if units and units[-1].dimension == "time":
            for what, pattern in _ENDS:
                if any(pattern.fullmatch(word) for word in words):
                    found.setdefault(what, (name, units[-1].factor))
    return found


def read_windows(table: TextTable, trace: PowerTrace, rule: str) -> Reading:
    """A run for each row: its duration, and its energy from ``trace``. Raises InputError.

    A window that the samples do not cover has no energy, and a note says so.
    """
    rows, outside = [], []
    claimed_j = made_j = 0.0
    for row in table.rows:
        start_s, end_s = _window(table, row)
        energy_j = trace.energy_j(start_s, end_s)
        if energy_j is None:
            outside.append(str(row.line))
        elif (claim_j := _claim_j(table, row)) is not None:
            claimed_j, made_j = claimed_j + claim_j, made_j + energy_j
        rows.append(
            TextRow(
                row.line,
                cells(
                    time_s=end_s - start_s,
                    energy_j=energy_j,
                    method=f"a window of the program; trapezoid over {rule}, ends interpolated",
                    repeat=str(row.line),
                ),
                known(energy_j=energy_j),
            )
        )
    return Reading(rows, list(_notes(claimed_j, made_j, outside)))


def _notes(claimed_j: float, made_j: float, outside: list[str]) -> Iterator[str]:
    if made_j and abs(claimed_j / made_j - 1) > _AGREEING and claimed_j:
        yield (
            f"its energies, {claimed_j:.4g} J in sum, are not used: the samples give {made_j:.4g} J"
        )
    if outside:
        yield (
            f"no energy in lines {', '.join(outside[:10])}: the samples do not cover their windows"
        )


def _window(table: TextTable, row: TextRow) -> tuple[float, float]:
    where = f"{table.where}, line {row.line}"
    columns = _columns(table)
    start_s, end_s = (_amount(table, row, *columns[what]) for what, _ in _ENDS)
    if start_s is None or end_s is None or end_s <= start_s:
        raise InputError("ends before it starts", where=where, fix="correct it")
    for name in table.columns:
        if "duration" in [word.casefold() for word in words_of(name)]:
            factor = next((u.factor for w in words_of(name) if (u := unit_of(w))), 1.0)
            said = _amount(table, row, name, factor)
            if said is not None and abs(said / (end_s - start_s) - 1) > _AGREEING:
                raise InputError(
                    f"its {name} is {said:.4g} s, its end less its start {end_s - start_s:.4g} s",
                    where=where,
                    fix="correct it",
                )
    return start_s, end_s


def _claim_j(table: TextTable, row: TextRow) -> float | None:
    for name in table.columns:
        for word in words_of(name):
            unit = unit_of(word)
            if unit is not None and unit.dimension == "energy":
                return _amount(table, row, name, unit.factor)
    return None


def _amount(table: TextTable, row: TextRow, name: str, factor: float) -> float | None:
    where = f"{table.where}, line {row.line}"
    value = parse_positive(row.cells[name], table.separator, where, name)
    return None if value is None else value * factor
