"""Which column of a table is what: by its name and the unit in it, or as the user says.

A quantity whose unit does not stand in the name is refused: a factor of a thousand is the
commonest error of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mansard.analytics.published.units import Dimension, Unit, may_be_bits, unit_of, words_of
from mansard.analytics.published.vocabulary import (
    BARE,
    CLOCKS,
    FIELDS,
    FORMATS,
    ITEMS,
    LAUNCH,
    LEVELS,
    LIMIT,
    NAMES,
    OTHERS,
    RAILS,
    SPREADS,
    UNITS,
)
from mansard.core.errors import InputError, UsageError
from mansard.core.records import RateWorkUnit


@dataclass(frozen=True)
class Column:
    """One column that is understood. ``factor`` turns its numbers into SI units.

    Wide tables say ``precision``, ``unit`` and ``level`` in the name; else these are None.
    """

    name: str
    field: str
    factor: float = 1.0
    precision: str | None = None
    unit: RateWorkUnit | None = None
    level: str | None = None
    is_per_item: bool = False  # of one image, where a batch may hold several


def find_columns(
    names: Sequence[str], said: Mapping[str, str], where: str
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns that are understood, and the names of the others.

    ``said`` maps a field, with or without a unit ("time", "time_ms"), to a column's name, or to
    "" where no column is to be taken for it. Raises UsageError for a field or column that does
    not exist, InputError for a quantity without a unit or with two readings.
    """
    mapped = [_as_said(key, name, names, where) for key, name in said.items()]
    decided = {column.field for column in mapped}
    taken = {column.name for column in mapped}
    found = [column for column in mapped if column.name]
    bare: list[tuple[str, str]] = []
    for name in names:
        if name in taken:
            continue
        column = _by_name(name, where)
        if column is not None and column.field not in decided:
            found.append(column)
        elif column is None and (field := _bare_field(name)) is not None:
            bare.append((field, name))
    known = {column.field for column in found} | decided
    for field, name in bare:
        if field not in known and not (field == "peak" and "network" in known):
            raise _without_unit(field, name, where)
    _refuse_twins(found, where)
    understood = {column.name for column in found}
    return tuple(found), tuple(name for name in names if name not in understood)


def _as_said(key: str, name: str, names: Sequence[str], where: str) -> Column:
    """The column that the user names for a field; its name is "" where there shall be none."""
    field, unit = _field_and_unit(key)
    if not name:
        return Column("", field)
    if name not in names:
        raise UsageError(
            f"{where} has no column {name!r}", fix=f"it has {', '.join(map(repr, names))}"
        )
    dimension = FIELDS[field]
    if dimension is None:
        return Column(name, field)
    unit = unit or _unit_in(name, where)
    if unit is None:
        raise _without_unit(field, name, where)
    if unit.dimension != dimension:
        raise UsageError(
            f"column {name!r} is in a unit of {unit.dimension}, {field} is a {dimension}",
            fix="name another column",
        )
    return _qualified(name, field, unit)


def _field_and_unit(key: str) -> tuple[str, Unit | None]:
    """ "time" and "time_ms": a field, and its unit where one is said."""
    plain = key.strip().casefold()
    if plain in FIELDS:
        return plain, None
    words = words_of(key)
    field = "_".join(words[:-1]).casefold()
    unit = unit_of(words[-1]) if words else None
    if FIELDS.get(field) is None or unit is None:
        raise UsageError(
            f"--column names no field {key!r}",
            fix=f"use one of {', '.join(FIELDS)}, with a unit where it has one: time_ms",
        )
    return field, unit


def _by_name(name: str, where: str) -> Column | None:
    """What a column is by its own name, or None where it is nothing that we read."""
    words = [word.casefold() for word in words_of(name)]
    plain = NAMES.get(" ".join(words))
    if plain is not None:
        return Column(name, plain)
    unit = _unit_in(name, where)
    if unit is None or _is_other(words, unit.dimension):
        return None
    bare = _bare_field(name)
    if bare is not None and FIELDS[bare] != unit.dimension:  # "throughput" in seconds
        return None
    field = _field_of(unit, words)
    return None if field is None else _qualified(name, field, unit)


def _is_other(words: Sequence[str], dimension: Dimension | None) -> bool:
    """Whether a column is about something else than a run: a spread, a start, one rail."""
    found = set(words)
    if SPREADS & found:
        return True
    if dimension not in {"time", "power", "energy"} or (dimension == "power" and LIMIT & found):
        return False
    return bool(OTHERS & found or (dimension != "time" and RAILS & found))


def _field_of(unit: Unit, words: Sequence[str]) -> str | None:
    if unit.dimension == "frequency":
        fields = {CLOCKS[word] for word in words if word in CLOCKS}
        return fields.pop() if len(fields) == 1 else None
    if unit.dimension == "time" and LAUNCH & set(words):
        return "launch"
    if unit.dimension == "power" and LIMIT & set(words):
        return "power_limit"
    fields_of = {
        "work rate": "peak",
        "byte rate": "bandwidth",
        "time": "time",
        "power": "power",
        "energy": "energy",
        "images/s": "throughput",
    }
    return fields_of[unit.dimension]


def _unit_in(name: str, where: str) -> Unit | None:
    words = words_of(name)
    for word in words:
        if may_be_bits(word):
            raise InputError(
                f"column {name!r} may count bits or bytes",
                where=where,
                fix=f"say --column bandwidth_gb_per_s={name!r} if they are bytes",
            )
    units = [unit for word in words if (unit := unit_of(word)) is not None]
    if len({unit.dimension for unit in units}) != 1 or _is_ratio(words):
        return None
    return units[-1]


def _is_ratio(words: Sequence[str]) -> bool:
    """Whether a name says "per" of anything but an item or a batch: GFLOPS/W, ms per layer."""
    after = [words[at + 1 : at + 2] for at, word in enumerate(words) if word.casefold() == "per"]
    return any(not word or word[0].casefold() not in ITEMS | {"batch"} for word in after)


def _qualified(name: str, field: str, unit: Unit) -> Column:
    words = [word.casefold() for word in words_of(name)]
    return Column(
        name=name,
        field=field,
        factor=unit.factor,
        precision=next((FORMATS[word] for word in words if word in FORMATS), None),
        unit=next((UNITS[word] for word in words if word in UNITS and word != "cpu"), None),
        level=next((LEVELS[word] for word in words if word in LEVELS), None),
        is_per_item="per" in words and bool(ITEMS & set(words)),
    )


def _bare_field(name: str) -> str | None:
    words = [word.casefold() for word in words_of(name)]
    field = next((BARE[word] for word in words if word in BARE), None)
    return None if field is None or _is_other(words, FIELDS[field]) else field


def _without_unit(field: str, name: str, where: str) -> InputError:
    examples = {
        "time": "time_ms",
        "power": "power_w",
        "energy": "energy_j",
        "bandwidth": "bandwidth_gb_per_s",
        "peak": "peak_gflop_per_s",
        "throughput": "throughput_fps",
    }
    example = examples.get(field, f"{field}_mhz")
    return InputError(
        f"column {name!r} seems to be the {field}, and says no unit",
        where=where,
        fix=f"say --column {example}={name!r}, or --column {field}= if it is not",
    )


def _refuse_twins(found: Sequence[Column], where: str) -> None:
    """Two columns for one thing: wide tables may have a peak for each precision and unit."""
    kinds: dict[tuple[str | None, ...], list[str]] = {}
    for column in found:
        kind: tuple[str | None, ...] = (column.field,)
        if column.field in {"peak", "bandwidth"}:
            kind = (column.field, column.precision, column.unit, column.level)
        kinds.setdefault(kind, []).append(column.name)
    for kind, names in kinds.items():
        if len(names) > 1:
            raise InputError(
                f"the {kind[0]} may be in {' or '.join(map(repr, names))}",
                where=where,
                fix=f"choose with --column {kind[0]}={names[0]!r}",
            )
