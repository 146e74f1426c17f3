"""Workload files: networks with rates, which share one board."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import InputError, UsageError
from mansard.core.precision import parse_precision
from mansard.core.storage.documents import read_toml
from mansard.core.units import Interval, parse_interval, parse_optional, parse_quantity

_KEYS = ("model", "rate", "batch", "precision", "max_latency")
_USUAL_UNITS = {"rate": "/s", "max_latency": "ms", "switch": "ms", "period": "s"}
_IDLE_EXAMPLE = 'write idle = "4.4W", or [idle] with a power for each mode: 15W = "4.4W"'
_EXAMPLE = 'write [[network]] with model = "detector.onnx" and rate = "30/s"'


class WorkloadNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """One network of the file. ``model``: a path or a name; ``batch`` None: any.

    ``rate_per_s`` is 0 only where no rate is required, see ``read_network``.
    """

    model: str
    rate_per_s: float
    batch: int | None
    precision: str | None
    max_latency_s: float | None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload file. ``switch_s``: time of a change of mode; ``period_s``: time of a round.

    ``idle``: the idle power, W, of all modes or of each by its name.
    """

    lines: tuple[WorkloadNetwork, ...]
    switch_s: float | None
    period_s: float | None
    idle: Interval | dict[str, Interval] | None


def read_workload(path: Path) -> Workload:
    """The workload in ``path``; paths of models are relative to it. Raises InputError."""
    content = read_toml(path, "a workload")
    unknown_keys = sorted(content.keys() - {"network", "switch", "period", "idle"})
    entries = content.get("network")
    if unknown_keys or not isinstance(entries, list) or not entries:
        what = f"has an unknown key {unknown_keys[0]!r}" if unknown_keys else "names no network"
        raise InputError(what, where=str(path), fix=_EXAMPLE)
    try:
        lines = tuple(read_network(entry, path.parent) for entry in entries)
        switch_s = parse_optional("switch", _text(content, "switch"), "time")
        period_s = parse_optional("period", _text(content, "period"), "time")
        idle = _read_idle(content.get("idle"))
    except UsageError as error:
        raise InputError(error.what, where=str(path), fix=error.fix) from error
    return Workload(lines=lines, switch_s=switch_s, period_s=period_s, idle=idle)


def _read_idle(value: Any) -> Interval | dict[str, Interval] | None:
    """``"4.4W"``, ``"4.4W±0.1W"``, or a table of modes with such powers; raises UsageError."""
    if isinstance(value, dict):
        if not value:
            raise UsageError("[idle] names no mode", fix=_IDLE_EXAMPLE)
        return {mode: _read_power(f"idle of {mode}", power) for mode, power in value.items()}
    return None if value is None else _read_power("idle", value)


def _read_power(key: str, value: Any) -> Interval:
    if not isinstance(value, str):
        raise UsageError(f"{key} = {value!r} is not a power", fix=_IDLE_EXAMPLE)
    return parse_interval(key, value, "power")


def read_network(entry: Any, folder: Path, *, needs_rate: bool = True) -> WorkloadNetwork:
    """One ``[[network]]`` of a file in ``folder``; raises UsageError.

    An entry without a rate is an error if ``needs_rate``; otherwise its rate is 0.
    """
    if not isinstance(entry, dict):
        raise UsageError("network is not a table", fix=_EXAMPLE)
    unknown_keys = sorted(entry.keys() - set(_KEYS))
    if unknown_keys:
        raise UsageError(f"unknown key {unknown_keys[0]!r}", fix=f"keys are {', '.join(_KEYS)}")
    model, rate = _text(entry, "model"), _text(entry, "rate")
    if not model or (rate is None and needs_rate):
        needed = "a model and a rate" if needs_rate else "a model"
        raise UsageError(f"a network needs {needed}", fix=_EXAMPLE)
    batch, precision = entry.get("batch"), _text(entry, "precision")
    is_size = isinstance(batch, int) and not isinstance(batch, bool) and 1 <= batch < 1 << 31
    if batch is not None and not is_size:
        raise UsageError(f"batch {batch!r} is not a size", fix="write batch = 8")
    inside = folder / model
    return WorkloadNetwork(
        model=str(inside) if os.path.exists(inside) else model,  # noqa: PTH110 - any text may be there
        rate_per_s=0.0 if rate is None else parse_quantity("rate", rate, "rate"),
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
    raise UsageError(f"{key} = {value!r} is not text", fix=_EXAMPLE)
