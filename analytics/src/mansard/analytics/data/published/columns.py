"""The meaning of a table's columns, by name and unit, or as the user says.

A quantity whose unit does not stand in the name is refused: a factor of a thousand is the
commonest error of tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from mansard.core.errors import InputError, UsageError
from mansard.core.precision import PRECISIONS
from mansard.core.records import RateWorkUnit

Dimension = Literal["work rate", "byte rate", "time", "power", "energy", "frequency", "images/s"]


@dataclass(frozen=True)
class Unit:
    """The factor from a column's unit to FLOP/s, B/s, s, W, J, Hz or 1/s."""

    dimension: Dimension
    factor: float


_GIGA = (("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12))
_BINARY = (("ki", 2.0**10), ("mi", 2.0**20), ("gi", 2.0**30), ("ti", 2.0**40))


def _table() -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for prefix, factor in _GIGA:
        for word in ("flop/s", "flops/s", "op/s", "ops/s"):
            units[prefix + word] = Unit("work rate", factor)
        units[f"{prefix}hz"] = Unit("frequency", factor)
        if prefix:  # "flops" alone may be work as well as a rate
            units[f"{prefix}flops"] = Unit("work rate", factor)
    units["tops"] = Unit("work rate", 1e12)
    for prefix, factor in (*_GIGA, *_BINARY):
        units[f"{prefix}b/s"] = units[f"{prefix}bytes/s"] = Unit("byte rate", factor)
    for words, factor in (
        (("s", "sec", "secs", "seconds"), 1.0),
        (("ms", "msec", "milliseconds"), 1e-3),
        (("us", "usec", "microseconds"), 1e-6),
        (("ns", "nanoseconds"), 1e-9),
    ):
        units |= dict.fromkeys(words, Unit("time", factor))
    # Of watts and joules m is milli, whatever the case: no table lists megawatts of a board.
    units |= dict.fromkeys(("w", "watt", "watts"), Unit("power", 1.0))
    units |= dict.fromkeys(("mw", "milliwatts"), Unit("power", 1e-3))
    units |= dict.fromkeys(("j", "joule", "joules"), Unit("energy", 1.0))
    units |= dict.fromkeys(("mj", "millijoules"), Unit("energy", 1e-3))
    items = ("img", "imgs", "images", "frames", "samples", "inf", "inferences")
    images = ("fps", "ips", "qps", *(f"{item}/s" for item in items))
    return units | dict.fromkeys(images, Unit("images/s", 1.0))


UNITS = MappingProxyType(_table())
_PER_SECOND = re.compile(r"[\s_\-]*(?:/|(?<![a-z])per)[\s_\-]*(?:s|sec|second)(?![a-z])", re.I)
# "gb_s", "inf_s" and "tok_s" are rates; a lone "s" would be taken for seconds.
_SHORT = re.compile(
    r"(?<![A-Za-z])([kmgt]i?b|[kmgt]?flops?|inf|inferences|imgs?|images|frames|samples"
    r"|tok|tokens|req|requests|queries|steps|iter|iterations)[\s_\-]s(?![A-Za-z])",
    re.IGNORECASE,
)
# A small b after a capital prefix is a bit; so is "gbps" to those who build networks.
_BITS = re.compile(r"[KMGT]b/s|[kmgt]bps", re.IGNORECASE)


def words_of(column: str) -> list[str]:
    """The words of a column's name as they are written; "per s" becomes part of its unit.

    A slash between a quantity and a unit of it ("time/ms", ISO 80000-1) is left out; any other is
    the word "per".
    """
    text = _PER_SECOND.sub("/s", _spaced(column.replace("µ", "u").replace("μ", "u")))
    words: list[str] = re.findall(r"[A-Za-z0-9]+(?:/s)?|/", _SHORT.sub(r"\1/s", text))
    return ["per" if word == "/" else word for word in words]


def _spaced(column: str) -> str:
    """ "time/ms" as "time ms", "bandwidth / (GB/s)" as "bandwidth GB/s"; "perf/W" as it is."""
    match = _OVER_UNIT.fullmatch(column)
    if match is None:
        return column
    words = [word.casefold() for word in re.findall(r"[A-Za-z0-9]+", match[1])]
    unit = unit_of(match[2])
    is_quantity = unit is not None and unit.dimension in {_QUANTITIES.get(word) for word in words}
    if not is_quantity or any(unit_of(word) for word in words):
        return column
    return f"{match[1]} {match[2]}{match[3]}"


def unit_of(word: str) -> Unit | None:
    """The unit that ``word`` is, or None."""
    if word.endswith("Bps"):  # GBps, with a capital B
        word = f"{word[:-2]}/s"
    return UNITS.get(word.casefold())


def may_be_bits(word: str) -> bool:
    """Whether ``word`` may count bits: "Gb/s", "gbps", but not "GB/s", "gb/s" or "GBps"."""
    if not _BITS.fullmatch(word) or word.endswith("Bps"):
        return False
    return word.endswith("bps") or (word[0].isupper() and word[1] == "b")


# What a column may be. Those with a dimension need a unit.
FIELDS: Mapping[str, Dimension | None] = MappingProxyType(
    {
        "mode": None,
        "network": None,
        "batch": None,
        "precision": None,
        "unit": None,
        "level": None,
        "phase": None,
        "method": None,
        "remark": None,
        "repeat": None,
        "meter": None,
        "sms": None,
        "cpus": None,
        "peak": "work rate",
        "bandwidth": "byte rate",
        "launch": "time",
        "time": "time",
        "deviation": "time",
        "p90": "time",
        "p95": "time",
        "p99": "time",
        "throughput": "images/s",
        "power": "power",
        "energy": "energy",
        "power_limit": "power",
        "gpu": "frequency",
        "emc": "frequency",
        "cpu": "frequency",
    }
)
NAMES = MappingProxyType(
    {
        **dict.fromkeys(
            ("mode", "power mode", "powermode", "mode name", "power mode name", "nvpmodel"), "mode"
        ),
        **dict.fromkeys(
            ("network", "net", "model", "model name", "modelname", "dnn", "workload", "app"),
            "network",
        ),
        **dict.fromkeys(("batch", "batch size", "batchsize", "bs"), "batch"),
        **dict.fromkeys(("precision", "dtype", "datatype", "data type"), "precision"),
        **dict.fromkeys(("unit", "compute unit", "core type"), "unit"),
        **dict.fromkeys(("level", "memory level"), "level"),
        **dict.fromkeys(("method", "kernel", "engine", "framework", "operation"), "method"),
        **dict.fromkeys(("remark", "remarks", "doubt"), "remark"),
        # What tells repeats of one setting apart; not how many there were ("trials", "reps").
        **dict.fromkeys(
            ("repeat", "rep", "repetition", "replicate", "iteration", "trial", "run", "seed"),
            "repeat",
        ),
        **dict.fromkeys(("meter", "power meter", "sensor", "power source"), "meter"),
        **dict.fromkeys(("sms", "n sms", "num sms", "sm count", "active sms"), "sms"),
        **dict.fromkeys(("cpus", "n cpus", "cores", "n cores", "cpu cores"), "cpus"),
        "phase": "phase",
    }
)
SPREADS = frozenset({"std", "stdev", "stddev", "sd", "sem", "var", "variance", "error", "ci"})
TAILS = ("p90", "p95", "p99")  # percentiles above the mean that a table may have of a time
_DEVIATIONS = frozenset({"std", "stdev", "stddev", "sd"})
# Times and powers that are not a run's, or not its usual ones: read only where the user says so.
OTHERS = frozenset(
    {
        *("min", "max", "peak", "p50", "p75", "p90", "p95", "p99", "best", "worst"),
        *("idle", "baseline", "static", "warmup", "timestamp", "start", "end"),
        *("build", "compile", "load", "setup"),
    }
)
# One rail's power is not the board's: read only where the user says so.
RAILS = frozenset(
    {
        *("gpu", "cpu", "soc", "cv", "ddr", "dram", "mem", "memory", "wifi", "rail"),
        *("5v0", "sys5v", "vddq", "vddrq"),  # of AGX boards, beside others
    }
)
# What a time or an energy may be "per" without being that of a batch.
ITEMS = frozenset(
    {"image", "img", "inference", "inf", "frame", "sample", "item", "input", "request"}
)
LAUNCH = frozenset({"launch", "dispatch"})
LIMIT = frozenset({"limit", "budget", "cap", "tdp"})
CLOCKS = MappingProxyType(
    {
        **dict.fromkeys(("gpu", "gpc", "sm"), "gpu"),
        **dict.fromkeys(("emc", "mem", "memory", "dram", "ddr"), "emc"),
        "cpu": "cpu",
    }
)
BARE = MappingProxyType(  # quantities that say no unit
    {
        **dict.fromkeys(("time", "latency", "duration", "runtime"), "time"),
        **dict.fromkeys(("bandwidth", "bw"), "bandwidth"),
        **dict.fromkeys(("flops", "performance", "perf"), "peak"),
        "power": "power",
        "energy": "energy",
        "throughput": "throughput",
    }
)
FORMATS = MappingProxyType(
    {
        **{name: name for name in PRECISIONS},
        **dict.fromkeys(("float64", "double", "f64"), "fp64"),
        **dict.fromkeys(("float32", "single", "f32"), "fp32"),
        **dict.fromkeys(("float16", "half", "f16"), "fp16"),
        "bfloat16": "bf16",
    }
)
WORK_UNITS: Mapping[str, RateWorkUnit] = MappingProxyType(
    {
        **dict.fromkeys(("tensor", "tensor core", "tensor cores", "tc"), "tensor core"),
        **dict.fromkeys(("cuda", "cuda core", "cuda cores", "fma", "cpu"), "CUDA core"),
    }
)
LEVELS = MappingProxyType({"dram": "DRAM", "l1": "L1", "l2": "L2", "l3": "L3"})


def parse_precision_name(text: str) -> str | None:
    """The precision that a table means by ``text``, or None."""
    return FORMATS.get(text.casefold())


def parse_unit_name(text: str) -> RateWorkUnit | None:
    """ "tensor core" or "CUDA core" for what a table calls so, or None."""
    return WORK_UNITS.get(" ".join(words_of(text)).casefold())


def parse_level_name(text: str) -> str | None:
    """DRAM, L1, L2 or L3 for what a table calls so, or None."""
    return LEVELS.get(text.casefold())


_OVER_UNIT = re.compile(r"([^/]*?)\s*/\s*[(\[]?([A-Za-z]+(?:/s)?)[)\]]?((?:\s.*)?)")
_QUANTITIES: Mapping[str, Dimension | None] = MappingProxyType(
    {
        **{word: FIELDS[field] for word, field in BARE.items()},
        **dict.fromkeys((*CLOCKS, "frequency", "freq", "clock"), "frequency"),
        "t": "time",
        "p": "power",
        "e": "energy",  # as formulas have them
    }
)


@dataclass(frozen=True)
class KnownColumn:
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
) -> tuple[tuple[KnownColumn, ...], tuple[str, ...]]:
    """The columns that are understood, and the names of the others.

    ``said`` maps a field, with or without a unit ("time", "time_ms"), to a column's name, or to
    "" where no column is to be taken for it. Raises UsageError for a field or column that does
    not exist, InputError for a quantity without a unit or with two readings.
    """
    mapped = [
        _as_said(key, name, names, where)
        for key, text in said.items()
        for name in _columns_said(key, text, names)
    ]
    decided = {column.field for column in mapped}
    taken = {column.name for column in mapped}
    columns = [column for column in mapped if column.name]
    bare: list[tuple[str, str]] = []
    for name in names:
        if name in taken:
            continue
        column = _by_name(name, where)
        if column is not None and column.field not in decided:
            columns.append(column)
        elif column is None and (field := _bare_field(name)) is not None:
            bare.append((field, name))
    known = {column.field for column in columns} | decided
    for field, name in bare:
        if field not in known and not (field == "peak" and "network" in known):
            raise _without_unit(field, name, where)
    columns = _without_twin_spreads(columns + _bare_spreads(names, columns))
    _refuse_twins(columns, where)
    understood = {column.name for column in columns}
    return tuple(columns), tuple(name for name in names if name not in understood)


def _columns_said(key: str, text: str, names: Sequence[str]) -> list[str]:
    """The columns of ``--column repeat=load+clocks``, of which several tell repeats apart."""
    parts = text.split("+")
    return parts if key == "repeat" and set(parts) <= set(names) else [text]


def _as_said(key: str, name: str, names: Sequence[str], where: str) -> KnownColumn:
    """The column that the user names for a field; its name is "" where there shall be none."""
    field, unit = _field_and_unit(key)
    if not name:
        return KnownColumn("", field)
    if name not in names:
        raise UsageError(
            f"{where} has no column {name!r}", fix=f"it has {', '.join(map(repr, names))}"
        )
    dimension = FIELDS[field]
    if dimension is None:
        return KnownColumn(name, field)
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
    """The field and the unit, if any, of "time" or "time_ms"."""
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


def _by_name(name: str, where: str) -> KnownColumn | None:
    """The meaning of a column by its name, or None if it is not used."""
    words = [word.casefold() for word in words_of(name)]
    plain = NAMES.get(" ".join(words))
    if plain is not None:
        return KnownColumn(name, plain)
    unit = _unit_in(name, where)
    if unit is not None and unit.dimension == "time" and _is_deviation(words):
        return _qualified(name, "deviation", unit)
    if unit is not None and unit.dimension == "time" and (tail := _tail_of(words)) is not None:
        return _qualified(name, tail, unit)
    if unit is None or _is_other(words, unit.dimension):
        return None
    bare = _bare_field(name)
    if bare is not None and FIELDS[bare] != unit.dimension:  # "throughput" in seconds
        return None
    field = _field_of(unit, words)
    return None if field is None else _qualified(name, field, unit)


def _is_deviation(words: Sequence[str]) -> bool:
    """Whether a time is the standard deviation of a run's time, and of nothing else."""
    others = set(words) - _DEVIATIONS
    return bool(_DEVIATIONS & set(words)) and not others & (
        OTHERS | LAUNCH | (SPREADS - _DEVIATIONS)
    )


def _tail_of(words: Sequence[str]) -> str | None:
    """Which percentile of a run's time it is, and of nothing else; None: none."""
    tails = set(TAILS) & set(words)
    others = {word for word in words if unit_of(word) is None} - tails
    return tails.pop() if len(tails) == 1 and others <= _BARE_TIMES else None


def _is_other(words: Sequence[str], dimension: Dimension | None) -> bool:
    """Whether a column is about something else than a run: a spread, a start, one rail."""
    names = set(words)
    if SPREADS & names:
        return True
    if dimension not in {"time", "power", "energy"} or (dimension == "power" and LIMIT & names):
        return False
    return bool(OTHERS & names or (dimension != "time" and RAILS & names))


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


def _qualified(name: str, field: str, unit: Unit) -> KnownColumn:
    words = [word.casefold() for word in words_of(name)]
    return KnownColumn(
        name=name,
        field=field,
        factor=unit.factor,
        precision=next((FORMATS[word] for word in words if word in FORMATS), None),
        unit=next(
            (WORK_UNITS[word] for word in words if word in WORK_UNITS and word != "cpu"), None
        ),
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


def _bare_spreads(names: Sequence[str], columns: Sequence[KnownColumn]) -> list[KnownColumn]:
    """ "latency_std" and "latency_p95" beside "latency_ms" are in milliseconds as well."""
    times = [column for column in columns if column.field == "time"]
    if len(times) != 1:
        return []
    known = {column.field for column in columns}
    plain = {name: {word.casefold() for word in words_of(name)} for name in names}
    kinds = (("deviation", _DEVIATIONS), *((tail, frozenset({tail})) for tail in TAILS))
    return [
        KnownColumn(name, field, times[0].factor)
        for field, its in kinds
        if field not in known
        for name, words in plain.items()
        if words & its and words - its <= _BARE_TIMES
    ]


_BARE_TIMES = frozenset(word for word, field in BARE.items() if field == "time")


def _without_twin_spreads(columns: list[KnownColumn]) -> list[KnownColumn]:
    """Drop deviations, or percentiles, of which there are several: none names its time."""
    counts = Counter(column.field for column in columns)
    return [
        column
        for column in columns
        if column.field not in {"deviation", *TAILS} or counts[column.field] == 1
    ]


def _refuse_twins(columns: Sequence[KnownColumn], where: str) -> None:
    """Two columns for one thing: wide tables may have a peak for each precision and unit."""
    kinds: dict[tuple[str | None, ...], list[str]] = {}
    for column in columns:
        kind: tuple[str | None, ...] = (column.field,)
        if column.field in {"peak", "bandwidth"}:
            kind = (column.field, column.precision, column.unit, column.level)
        kinds.setdefault(kind, []).append(column.name)
    for kind, names in kinds.items():
        if len(names) > 1 and kind[0] not in {"repeat", "power"}:  # meters: see ``importing``
            raise InputError(
                f"the {kind[0]} may be in {' or '.join(map(repr, names))}",
                where=where,
                fix=f"choose with --column {kind[0]}={names[0]!r}",
            )
