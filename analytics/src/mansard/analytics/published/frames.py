"""Published figures as the frames that models and decisions exchange."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.model_frames import (
    COEFFICIENT_SCHEMA,
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
)
from mansard.analytics.published.names import device_names
from mansard.analytics.published.store import Published

NO_INTERVAL = "published without an interval"


def published_modes(published: Published) -> pl.DataFrame:
    """MODE_SCHEMA: each mode for which a table gives rates or networks, in the tables' order."""
    names = device_names(published)
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for row in published.rows:
        device, mode = names[row.device, row.table_id], row.mode
        rows.setdefault(
            (device, mode.name),
            {
                "device": device,
                "mode": mode.name,
                "gpu_hz": mode.gpu_hz,
                "memory_hz": mode.memory_hz,
                "cpu_hz": mode.cpu_hz,
                "n_sms": mode.n_sms,
                "n_cpus": mode.n_cpus,
                "power_limit_w": mode.power_limit_w,
            },
        )
    return pl.DataFrame(list(rows.values()), schema=MODE_SCHEMA)


def published_coefficients(published: Published) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: one row for each rate; without intervals, for tables give none."""
    names = device_names(published)
    rows = [
        {
            "device": names[rate.device, rate.table_id],
            "mode": rate.mode.name,
            "quantity": rate.quantity,
            "subject": rate.subject,
            "unit": rate.unit,
            "value": rate.value,
            "source": "published",
            "is_extrapolated": False,
            "reason": NO_INTERVAL,
        }
        for rate in published.rates
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def published_observations(published: Published) -> pl.DataFrame:
    """OBSERVATION_SCHEMA: one row for each network that others ran, with its citation.

    The power of a row with a remark is to be doubted: no model and no decision sees it.
    """
    names = device_names(published)
    rows = [
        {
            "device": names[run.device, run.table_id],
            "mode": run.mode.name,
            "network": run.network,
            "batch": run.batch,
            "precision": run.precision,
            "phase": run.phase,
            "latency_s": run.latency_s,
            "power_w": None if run.remark else run.power_w,
            "source": "published",
            "citation": run.citation,
            "reason": _why(run.unknown | ({"power_w": run.remark} if run.remark else {})),
        }
        for run in published.runs
    ]
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def _why(unknown: dict[str, str]) -> str | None:
    """Why the time or the power is not known, in a line; None where both are."""
    parts = [
        f"{what}: {unknown[name]}"
        for name, what in (("latency_s", "time"), ("power_w", "power"))
        if name in unknown
    ]
    return "; ".join(parts) or None
