"""What the two sweep charts draw: the staircase and the FMA chains, as tidy frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from mansard.analytics.ceilings import Ceiling
from mansard.analytics.chart_data import GIGA, Drawn, ceiling_text, in_giga, positive
from mansard.analytics.levels import Level
from mansard.analytics.names import shown_long
from mansard.analytics.quantities import capacity, quantity
from mansard.analytics.rates import TrialRate
from mansard.analytics.roofline import Roofline


def staircase(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Bandwidth of each stream trial over its working set."""
    schema = {
        "mode": pl.String,
        "kernel": pl.String,
        "working_set_bytes": pl.Float64,
        "size": pl.String,
        "rate": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,
        "trial": pl.String,
        "is_disturbed": pl.Boolean,
    }
    rows = [
        {
            "mode": labels[rate.run_id],
            "kernel": rate.kernel,
            "working_set_bytes": float(rate.working_set_bytes),
            "size": capacity(rate.working_set_bytes),
            **_rate_fields(rate, "B/s"),
        }
        for rate in rates
        if rate.family == "stream"
    ]
    drawn = positive(rows, schema, "working_set_bytes", "rate")
    return Drawn(drawn.frame.sort("mode", "kernel", "working_set_bytes"), drawn.n_dropped)


def chains(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """FLOP/s of each FMA trial over the FMA done per element."""
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "fma_per_element": pl.Float64,
        "rate": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,
        "trial": pl.String,
        "is_disturbed": pl.Boolean,
    }
    rows = [
        {
            "mode": labels[rate.run_id],
            "precision": rate.precision,
            "fma_per_element": rate.fma_per_element,
            **_rate_fields(rate, "FLOP/s"),
        }
        for rate in rates
        if rate.family == "fma"
    ]
    drawn = positive(rows, schema, "fma_per_element", "rate")
    return Drawn(drawn.frame.sort("mode", "precision", "fma_per_element"), drawn.n_dropped)


def cache_rules(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The capacity of each cache in use, one row per mode and level."""
    rows = [
        {
            "mode": roof.label,
            "level": level.name,
            "capacity_bytes": float(level.capacity_bytes),
            "text": f"{level.name} {capacity(level.capacity_bytes)}",
        }
        for roof in roofs
        for level in roof.levels
        if level.capacity_bytes
    ]
    schema = {
        "mode": pl.String,
        "level": pl.String,
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
    """The peak of each precision, one row per mode."""
    rows = [
        {
            "mode": roof.label,
            "precision": peak.subject,
            "rate": peak.value / GIGA,
            "text": f"{peak.subject} peak {ceiling_text(peak)}",
        }
        for roof in roofs
        for peak in roof.peaks
        if peak.value is not None
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


def _rate_fields(rate: TrialRate, unit: str) -> dict[str, object]:
    found = rate.estimate
    return {
        "rate": found.value / GIGA,
        "low": in_giga(found.low),
        "high": in_giga(found.high),
        "interval": quantity(found.value, unit, found.low, found.high),
        "trial": _state(rate),
        "is_disturbed": bool(rate.disturbances),
    }


def _state(rate: TrialRate) -> str:
    if rate.disturbances:
        return f"disturbed, in no ceiling: {shown_long('; '.join(rate.disturbances))}"
    return "unstable" if rate.unstable else "stable"
