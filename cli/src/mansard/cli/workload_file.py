"""Reads the TOML file of ``--workload``: networks with rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mansard.cli.limit_options import parse_optional, parse_quantity
from mansard.core.documents import read_toml
from mansard.core.errors import InputError, UsageError
from mansard.core.precision import parse_precision

_KEYS = ("model", "rate", "batch", "precision", "max_latency")
_UNITS = {"rate": "/s", "max_latency": "ms", "switch": "ms", "period": "s"}
_EXAMPLE = 'write [[network]] with model = "detector.onnx" and rate = "30/s"'


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
    if key in _UNITS and isinstance(value, (int, float)) and not isinstance(value, bool):
        fix = f'write {key} = "{value}{_UNITS[key]}"'
        raise UsageError(f"{key} = {value!r} has no unit", fix=fix)
    raise UsageError(f"{key} = {value!r} is no text", fix=_EXAMPLE)
