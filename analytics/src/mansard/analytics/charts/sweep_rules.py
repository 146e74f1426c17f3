"""What stands behind the curves of the sweep charts: capacities, roofs and peaks."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.charts.data import GIGA, ceiling_text, positive
from mansard.analytics.data.quantities import capacity
from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.levels import Level
from mansard.analytics.roofs.roofline import Roofline


def cache_rules(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The capacity of each cache in use, one row per mode and level."""
    rows = [
        {
            "mode": roof.label,
            "level": level.name,
            "row": number,
            "capacity_bytes": float(level.capacity_bytes),
            "text": f"{level.name} {capacity(level.capacity_bytes)}",
        }
        for roof in roofs
        for number, level in enumerate(roof.levels)
        if level.capacity_bytes
    ]
    schema = {
        "mode": pl.String,
        "level": pl.String,
        "row": pl.Int64,
        "capacity_bytes": pl.Float64,
        "text": pl.String,
    }
    return pl.DataFrame(rows, schema=schema)


def ceiling_steps(
    roofs: Sequence[Roofline], smallest_bytes: float, largest_bytes: float
) -> pl.DataFrame:
    """The roof of each level over the working sets it was taken from."""
    rows = [
        {
            "mode": roof.label,
            "level": level.name,
            "from_bytes": max(level.low_bytes, smallest_bytes),
            "to_bytes": level.high_bytes or largest_bytes,
            "rate": ceiling.value / GIGA,
            "text": ceiling_text(ceiling),
        }
        for roof in roofs
        for level, ceiling in _roofs_of(roof)
        if ceiling.value is not None and (level.high_bytes or largest_bytes) > smallest_bytes
    ]
    schema = {
        "mode": pl.String,
        "level": pl.String,
        "from_bytes": pl.Float64,
        "to_bytes": pl.Float64,
        "rate": pl.Float64,
        "text": pl.String,
    }
    return positive(rows, schema, "from_bytes", "to_bytes", "rate").frame


def peak_rules(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The peak that the chains of each precision approach, one row per mode."""
    rows = [
        {
            "mode": roof.label,
            "precision": peak.subject,
            "rate": peak.value / GIGA,
            "text": f"{peak.subject} peak {ceiling_text(peak)}",
        }
        for roof in roofs
        for peak in roof.peaks
        if peak.value is not None and peak.family == "fma"
    ]
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "rate": pl.Float64,
        "text": pl.String,
    }
    return positive(rows, schema, "rate").frame


def _roofs_of(roof: Roofline) -> list[tuple[Level, Ceiling]]:
    return [(level, roof.bandwidth(level.name)) for level in roof.levels]
