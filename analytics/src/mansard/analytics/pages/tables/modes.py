"""Power modes in tables: their clocks, and what modelled modes rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from mansard.analytics.data.model_frames import quantity_unit
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import NBSP, UNKNOWN, counted, percent
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.modes import MOST_TABLE_ROWS as MOST_ROWS
from mansard.analytics.pages.results import Results
from mansard.core.table import Table


def known_modes_table(results: Results) -> Table:
    """Clocks, SMs and limits of the modes, the measured ones and others up to a limit."""
    measured = results.coefficients.filter(pl.col("source") != "modelled")
    sources = {
        (row["device"], row["mode"]): row["source"] for row in measured.iter_rows(named=True)
    }
    ordered = sorted(
        results.modes.iter_rows(named=True),
        key=lambda row: (row["device"], row["mode"]) not in sources,
    )
    rows = [
        [
            display_name(row["mode"]),
            display_name(row["device"]),
            sources.get((row["device"], row["mode"]), "modelled"),
            _megahertz(row["gpu_hz"]),
            _megahertz(row["memory_hz"]),
            _megahertz(row["cpu_hz"]),
            _count(row["n_sms"]),
            _count(row["n_cpus"]),
            "none named" if row["power_limit_w"] is None else f"{row['power_limit_w']:g} W",
        ]
        for row in ordered[:MOST_ROWS]
    ]
    more = f", {MOST_ROWS} of {len(ordered):,}" if len(ordered) > MOST_ROWS else ""
    columns = (
        *("Mode", "Device", "Roofs", "GPU MHz", "Memory MHz", "CPU MHz", "SMs", "CPUs"),
        "Power limit",
    )
    return Table(f"Power modes and their clocks{more}", columns, rows, frozenset({3, 4, 5, 6, 7}))


def scaling_table(results: Results) -> Table:
    """What the values of modelled modes rest on: their error when a measured mode is left out."""
    modelled = results.coefficients.filter(pl.col("source") == "modelled")
    summed = modelled.group_by("device", "quantity", "subject", "unit").agg(
        pl.len().alias("n"),
        pl.col("error").max().alias("error"),
        pl.col("n_fitted").max().alias("n_fitted"),
        pl.col("is_extrapolated").sum().alias("n_outside"),
        pl.col("value").is_null().sum().alias("n_unknown"),
        pl.col("reason").drop_nulls().first().alias("reason"),
    )
    rows = [
        [
            _quantity_name(row),
            display_name(row["device"]),
            str(row["n_fitted"] or UNKNOWN),
            UNKNOWN if row["error"] is None else percent(row["error"]),
            f"{row['n'] - row['n_unknown']:,} of {row['n']:,}",
            f"{row['n_outside']:,}",
            "" if row["reason"] is None else display_text(row["reason"]),
        ]
        for row in summed.sort("device", "quantity", "subject", "unit").iter_rows(named=True)
    ]
    columns = (
        *("Quantity", "Device", "Modes fitted", "Error with one left out (median)"),
        *("Modes with a value", "Extrapolated", "Remark"),
    )
    return Table("What modelled modes rest on", columns, rows, frozenset({2, 3, 4, 5}))


def _quantity_name(row: dict[str, str]) -> str:
    words = row["quantity"].replace("_", " ")
    on = f" on {row['unit']}s" if row["unit"] else ""
    subject = f", {display_name(row['subject'])}" if row["subject"] else ""
    return f"{words}{subject}{on}, {quantity_unit(row['quantity'], row['subject'])}"


def _megahertz(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value / 1e6:,.5g}"


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def settings_words(results: Results, roof: Roofline) -> str:
    """What the mode of ``roof`` sets, in a few words: ``2 CPU cores, clocks as found``."""
    manifests = {run.run_id: run for run in results.dataset.manifests}
    manifest = manifests.get(roof.run_id)
    if manifest is None:
        of_mode = results.modes.filter(pl.col("mode") == roof.mode)
        of_machine = of_mode.filter(pl.col("device") == roof.machine)
        rows = (of_machine if len(of_machine) else of_mode).rows(named=True)
        return clock_words(rows[0]) if len(rows) == 1 else ""
    mode = manifest.mode_read_back
    return clock_words(
        {
            "n_cpus": mode.n_cpus,
            "cpu_hz": mode.cpu_hz,
            "gpu_hz": mode.gpu_hz,
            "memory_hz": mode.memory_hz,
            "n_sms": mode.n_sms,
            "power_limit_w": mode.power_limit_w,
        }
    )


def clock_words(mode: Mapping[str, Any]) -> str:
    """A row of MODE_SCHEMA in words; what is not known of it is left out."""
    parts = []
    if mode["gpu_hz"] or mode["n_sms"]:
        sms = counted(mode["n_sms"], "SM") if mode["n_sms"] else "GPU"
        parts.append(f"{sms}{_at(mode['gpu_hz'])}")
    if mode["n_cpus"]:
        parts.append(f"{counted(mode['n_cpus'], 'CPU core')}{_at(mode['cpu_hz'])}")
    elif mode["cpu_hz"]:
        parts.append(f"CPU{_at(mode['cpu_hz'])}")
    if mode["memory_hz"]:
        parts.append(f"memory{_at(mode['memory_hz'])}")
    if mode["power_limit_w"]:
        parts.append(f"at most {mode['power_limit_w']:g}{NBSP}W")
    if parts and not any(mode[name] for name in ("gpu_hz", "cpu_hz", "memory_hz")):
        parts.append("clocks as found")
    return ", ".join(parts)


def _at(clock_hz: float | None) -> str:
    return f" at {clock_hz / 1e6:,.4g}{NBSP}MHz" if clock_hz else ""
