"""The roofs of each run as frames that layers are joined with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

import polars as pl

from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.levels import DRAM
from mansard.analytics.roofs.roofline import Roofline

_UNITS = ("tensor core", "CUDA core", "none")  # of LayerScore
# Only tensor cores round to it: elsewhere numbers that may be rounded are what they were.
_ROUNDED = MappingProxyType({"tf32": "fp32"})
_PEAK_SCHEMA = {
    "run_id": pl.String,
    "layer_precision": pl.String,
    "unit": pl.String,
    "peak": pl.Float64,
    "peak_low": pl.Float64,
    "peak_high": pl.Float64,
    "peak_reason": pl.String,
}
_MEMORY_SCHEMA = {
    "run_id": pl.String,
    "label": pl.String,
    "roof": pl.Float64,
    "roof_low": pl.Float64,
    "roof_high": pl.Float64,
    "roof_reason": pl.String,
}


def memory_roofs(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The bandwidth of main memory: one row for each run."""
    return pl.DataFrame([_memory_row(roof) for roof in roofs], schema=_MEMORY_SCHEMA)


def peak_roofs(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The peak of each precision for work on each unit: one row for each run and both."""
    rows = [row for roof in roofs for row in _peak_rows(roof)]
    return pl.DataFrame(rows, schema=_PEAK_SCHEMA)


def _peak_rows(roof: Roofline) -> Iterator[dict[str, object]]:
    for precision in dict.fromkeys((*(peak.subject for peak in roof.peaks), *_ROUNDED)):
        for unit in _UNITS:
            peak = _peak_on(roof, precision, unit)
            yield {
                "run_id": roof.run_id,
                "layer_precision": precision,
                "unit": unit,
                "peak": peak.value,
                "peak_low": peak.low,
                "peak_high": peak.high,
                "peak_reason": peak.unknown.get("value"),
            }


def _peak_on(roof: Roofline, precision: str, unit: str) -> Ceiling:
    """The roof of work on ``unit``: the tensor cores' where it is theirs and they have one."""
    if unit == "tensor core":
        tensor = roof.peak(precision, "tensor")
        if tensor.value is not None:
            return tensor
    return roof.peak(_ROUNDED.get(precision, precision))


def _memory_row(roof: Roofline) -> dict[str, object]:
    dram = roof.bandwidth(DRAM)
    return {
        "run_id": roof.run_id,
        "label": roof.label,
        "roof": dram.value,
        "roof_low": dram.low,
        "roof_high": dram.high,
        "roof_reason": dram.unknown.get("value"),
    }
