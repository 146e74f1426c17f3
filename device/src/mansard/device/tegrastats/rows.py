"""A sample as one row of a table, or as one JSON document: everything that its line has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mansard.device.tegrastats.energy import numbered
from mansard.device.tegrastats.sample import FreeBlocks, TegrastatsSample, Usage

Cell = float | str | None

TEXT_COLUMNS = ("log", "time", "unparsed")  # all others hold numbers
_USAGES = (("RAM", "ram"), ("SWAP", "swap"), ("IRAM", "iram"))


def row(sample: TegrastatsSample, log: str, time_s: float | None) -> dict[str, Cell]:
    """Column → cell. A cell is None where the line has no such number: a core that is off.

    ``time_s`` counts from 1970, or from the first line of a live board.
    """
    cells: dict[str, Cell] = {"log": log, "time": clean(sample.prefix) or None, "time_s": time_s}
    _add_memory(cells, sample)
    for number, cpu in enumerate(sample.cpus):
        cells[f"CPU{number}_load_percent"] = cpu.load_percent
        cells[f"CPU{number}_clock_hz"] = cpu.clock_hz
    _add_engines(cells, sample)
    for each, name in zip(sample.temperatures, _names(sample.temperatures), strict=True):
        cells[f"{name}_celsius"] = each.celsius
        if each.maximum_celsius is not None:
            cells[f"{name}_maximum_celsius"] = each.maximum_celsius
    _add_rails(cells, sample)
    if sample.unparsed:
        cells["unparsed"] = clean(" ".join(sample.unparsed))
    return cells


def line_document(sample: TegrastatsSample, log: str, time_s: float | None) -> dict[str, Any]:
    """The same for JSON, with the structure of ``TegrastatsSample``."""
    fields: dict[str, Any] = msgspec.to_builtins(sample)
    for column in ("prefix", "shape", "rail_names", "powers_w", "averages_w", "maximums_w"):
        del fields[column]
    rails = msgspec.to_builtins(sample.rails)
    return {"log": log, "time": clean(sample.prefix), "time_s": time_s, **fields, "rails": rails}


def clean(text: str) -> str:
    """``text`` on one line, without the marks that scripts put between time and fields."""
    return " ".join(text.split()).strip(" -:,;|")


def _add_memory(cells: dict[str, Cell], sample: TegrastatsSample) -> None:
    for name, field in _USAGES:
        usage: Usage | None = getattr(sample, field)
        if usage is not None:
            cells[f"{name}_used_bytes"] = usage.used_bytes
            cells[f"{name}_total_bytes"] = usage.total_bytes
        free: FreeBlocks | None = getattr(sample, f"{field}_free", None)
        if free is not None:
            cells[f"{name}_free_blocks"] = free.n_blocks
            cells[f"{name}_block_bytes"] = free.block_bytes
    if sample.swap_cached is not None:
        cells["SWAP_cached_bytes"] = sample.swap_cached.size_bytes


def _add_rails(cells: dict[str, Cell], sample: TegrastatsSample) -> None:
    for rail, name in zip(sample.rails, numbered(sample.rail_names), strict=True):
        cells[f"{name}_w"] = rail.power_w
        if rail.average_w is not None:
            cells[f"{name}_average_w"] = rail.average_w
        if rail.maximum_w is not None:
            cells[f"{name}_maximum_w"] = rail.maximum_w


def _add_engines(cells: dict[str, Cell], sample: TegrastatsSample) -> None:
    for engine, name in zip(sample.engines, _names(sample.engines), strict=True):
        cells[f"{name}_on"] = int(engine.is_on)
        if engine.load_percent is not None:
            cells[f"{name}_load_percent"] = engine.load_percent
        n_clocks = len(engine.clocks_hz)
        for number, clock_hz in enumerate(engine.clocks_hz):
            label = "clock" if n_clocks == 1 else f"clock{number}"
            cells[f"{name}_{label}_hz"] = clock_hz
    if sample.mts_foreground_percent is not None:
        cells["MTS_foreground_percent"] = sample.mts_foreground_percent
        cells["MTS_background_percent"] = sample.mts_background_percent


def _names(fields: Sequence[Any]) -> tuple[str, ...]:
    return numbered(tuple(each.name for each in fields))
