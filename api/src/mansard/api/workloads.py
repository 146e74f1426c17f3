"""Workloads: quantities with their units, and the TOML file of networks with rates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from mansard.core.documents import read_toml
from mansard.core.errors import InputError, UsageError
from mansard.core.precision import parse_precision

_KEYS = ("model", "rate", "batch", "precision", "max_latency")
_USUAL_UNITS = {"rate": "/s", "max_latency": "ms", "switch": "ms", "period": "s"}
_EXAMPLE = 'write [[network]] with model = "detector.onnx" and rate = "30/s"'
Kind = Literal["time", "power", "energy", "rate"]
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Zµμ/]*)")
_UNITS: dict[Kind, dict[str, float]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6},
    "power": {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    "energy": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "μJ": 1e-6, "kJ": 1e3},
    "rate": {"/s": 1.0, "fps": 1.0, "Hz": 1.0, "/min": 1 / 60},
}
_EXAMPLES: dict[Kind, str] = {"time": "20ms", "power": "30W", "energy": "500mJ", "rate": "30/s"}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One network of the file. ``model``: a path or a name; ``batch`` None: any."""

    model: str
    rate_per_s: float
    batch: int | None
    precision: str | None
    max_latency_s: float | None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """All of the file. ``switch_s``: a change of the mode; ``period_s``: a round of modes."""

    lines: tuple[Line, ...]
    switch_s: float | None
    period_s: float | None


def read_workload(path: Path) -> Workload:
    """The workload in ``path``; paths of models are relative to it. Raises InputError."""
    content = read_toml(path, "a workload")
    strangers = sorted(content.keys() - {"network", "switch", "period"})
    entries = content.get("network")
    if strangers or not isinstance(entries, list) or not entries:
        what = f"has an unknown key {strangers[0]!r}" if strangers else "names no network"
        raise InputError(what, where=str(path), fix=_EXAMPLE)
    try:
        lines = tuple(_line(entry, path.parent) for entry in entries)
        switch_s = parse_optional("switch", _text(content, "switch"), "time")
        period_s = parse_optional("period", _text(content, "period"), "time")
    except UsageError as error:
        raise InputError(error.what, where=str(path), fix=error.fix) from error
    return Workload(lines=lines, switch_s=switch_s, period_s=period_s)


def _line(entry: Any, folder: Path) -> Line:
    if not isinstance(entry, dict):
        raise UsageError("network is no table", fix=_EXAMPLE)
    strangers = sorted(entry.keys() - set(_KEYS))
    if strangers:
        raise UsageError(f"unknown key {strangers[0]!r}", fix=f"keys are {', '.join(_KEYS)}")
    model, rate = _text(entry, "model"), _text(entry, "rate")
    if not model or rate is None:
        raise UsageError("a network needs a model and a rate", fix=_EXAMPLE)
    batch, precision = entry.get("batch"), _text(entry, "precision")
    is_size = isinstance(batch, int) and not isinstance(batch, bool) and batch >= 1
    if batch is not None and not is_size:
        raise UsageError(f"batch {batch!r} is no size", fix="write batch = 8")
    inside = folder / model
    return Line(
        model=str(inside) if inside.exists() else model,
        rate_per_s=parse_quantity("rate", rate, "rate"),
        batch=batch,
        precision=None if precision is None else parse_precision(precision).name,
        max_latency_s=parse_optional("max_latency", _text(entry, "max_latency"), "time"),
    )


def _text(table: dict[str, Any], key: str) -> str | None:
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    if key in _USUAL_UNITS and isinstance(value, (int, float)) and not isinstance(value, bool):
        fix = f'write {key} = "{value}{_USUAL_UNITS[key]}"'
        raise UsageError(f"{key} = {value!r} has no unit", fix=fix)
    raise UsageError(f"{key} = {value!r} is no text", fix=_EXAMPLE)


def parse_quantity(option: str, text: str, kind: Kind) -> float:
    """The value in s, W, J or 1/s; raises UsageError for another unit, none, or nothing above 0."""
    match = _QUANTITY.fullmatch(text.strip())
    example = _EXAMPLES[kind]
    if match is None:
        raise UsageError(f"{option} {text!r} is no {kind}", fix=f"write {option} {example}")
    units = _UNITS[kind]
    factor = units.get(match[2])
    if factor is None:
        said = f"has the unit {match[2]!r}" if match[2] else "has no unit"
        known = ", ".join(unit for unit in units if unit.isascii())
        raise UsageError(f"{option} {text!r} {said}", fix=f"write {example}; units are {known}")
    value = float(match[1]) * factor
    if value <= 0:
        raise UsageError(f"{option} {text!r} bounds nothing", fix="write a quantity above 0")
    return value


def parse_optional(option: str, text: str | None, kind: Kind) -> float | None:
    """As ``parse_quantity``; None where the option was not given."""
    return None if text is None else parse_quantity(option, text, kind)


def parse_rate(option: str, text: str | None) -> float | None:
    """Items per second: ``30``, ``30/s`` or ``30fps``; None where the option was not given."""
    if text is None:
        return None
    # Frames per second is what the option is called: a bare number is one of them.
    bare = re.fullmatch(r"[0-9.]+", text.strip())
    return parse_quantity(option, f"{text.strip()}/s" if bare else text, "rate")
