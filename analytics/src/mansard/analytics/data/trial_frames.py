"""Trials and their repetitions as typed Polars frames; one column per field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from mansard.analytics.data.clocks import clock_disturbances, median_clock_hz
from mansard.analytics.data.frames import FrameSchema, to_json
from mansard.core.records import Conditions, Spread, Trial

# The readings of Conditions that are a Spread, by the name and the unit of their columns.
_SPREADS = (("cpu_clock", "hz"), ("gpu_clock", "hz"), ("memory_clock", "hz"), ("temperature", "c"))
CONDITION_SCHEMA: FrameSchema = {
    **{
        f"{name}_{when}_{unit}": pl.Float64
        for name, unit in _SPREADS
        for when in Spread.__struct_fields__[1:]  # not "unknown"
    },
    "temperature_slope_c_per_s": pl.Float64,
    "n_throttle_events": pl.Int64,
    "n_overcurrent_events": pl.Int64,
    "gpu_processes": pl.List(pl.String),
}

TRIAL_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "machine_id": pl.String,
    "mode": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "kernel": pl.String,
    "family": pl.String,
    "processor": pl.String,
    "backend": pl.String,
    "precision": pl.String,
    "fma_per_element": pl.Int64,
    "operands": pl.String,
    "scope": pl.String,
    "memory": pl.String,
    "cpus": pl.List(pl.Int64),
    "n_sms": pl.Int64,
    "working_set_bytes": pl.Int64,
    "work_flop": pl.Int64,
    "traffic_bytes": pl.Int64,
    "traffic_counting": pl.String,
    "repetitions_per_sample": pl.Int64,
    "n_accepted": pl.Int64,
    "n_rejected": pl.Int64,
    "stability": pl.String,
    "stability_interval": pl.Float64,
    "clock_hz": pl.Float64,  # median of the accepted samples
    **CONDITION_SCHEMA,
    "disturbances": pl.List(pl.String),
    "n_energy_windows": pl.Int64,
    "unknown_json": pl.String,
    "conditions_unknown_json": pl.String,
    "source_hash": pl.String,
    "started_utc": pl.String,
    "duration_s": pl.Float64,
}
REPETITION_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "accepted": pl.Boolean,
    "block": pl.Int64,
    "seconds_s": pl.Float64,
    "clock_hz": pl.Float64,
    "rejected_reason": pl.String,
}


def trial_frame(trials: Sequence[Trial], runs: pl.DataFrame) -> pl.DataFrame:
    """One row per trial, sorted by run and trial id; repetitions are a frame of their own."""
    by_run = {row["run_id"]: row for row in runs.iter_rows(named=True)}
    rows = [_trial_row(trial, by_run[trial.run_id]) for trial in trials]
    return pl.DataFrame(rows, schema=TRIAL_SCHEMA).sort("run_id", "trial_id")


def repetition_frame(trials: Sequence[Trial]) -> pl.DataFrame:
    """One row per repetition, seconds; blocks are null where a repetition was rejected."""
    columns = {
        "run_id": [trial.run_id for trial in trials],
        "trial_id": [trial.trial_id for trial in trials],
        "accepted": [[True] * len(t.seconds_s) + [False] * len(t.rejected_s) for t in trials],
        "block": [[*t.block, *[None] * len(t.rejected_s)] for t in trials],
        "seconds_s": [[*t.seconds_s, *t.rejected_s] for t in trials],
        "clock_hz": [[*_clocks_hz(t), *[None] * len(t.rejected_s)] for t in trials],
        "rejected_reason": [[*[None] * len(t.seconds_s), *t.rejected_reason] for t in trials],
    }
    each = ("run_id", "trial_id")
    lists = {n: k if n in each else pl.List(k) for n, k in REPETITION_SCHEMA.items()}
    frame = pl.DataFrame(columns, schema=lists).filter(pl.col("seconds_s").list.len() > 0)
    frame = frame.sort(each, maintain_order=True)
    return frame.explode([name for name in REPETITION_SCHEMA if name not in each])


def _trial_row(trial: Trial, run: Mapping[str, object]) -> dict[str, object]:
    direct = {name: getattr(trial, name) for name in TRIAL_SCHEMA if hasattr(trial, name)}
    return {
        **direct,
        "machine_id": run["machine_id"],
        "mode": run["mode"],
        "cpus": list(trial.cpus),
        "clock_hz": median_clock_hz(trial),
        "n_accepted": len(trial.seconds_s),
        "n_rejected": len(trial.rejected_s),
        **_conditions(trial.conditions),
        "disturbances": [*trial.disturbances, *clock_disturbances(trial, run)],
        "n_energy_windows": None if trial.energy is None else len(trial.energy),
        "unknown_json": to_json(trial.unknown),
        "conditions_unknown_json": to_json(trial.conditions.unknown),
    }


def _conditions(found: Conditions) -> dict[str, object]:
    spreads = {
        f"{name}_{when}_{unit}": getattr(getattr(found, f"{name}_{unit}"), when, None)
        for name, unit in _SPREADS
        for when in Spread.__struct_fields__[1:]
    }
    return {
        **spreads,
        "temperature_slope_c_per_s": found.temperature_slope_c_per_s,
        "n_throttle_events": found.n_throttle_events,
        "n_overcurrent_events": found.n_overcurrent_events,
        "gpu_processes": None if found.gpu_processes is None else list(found.gpu_processes),
    }


def _clocks_hz(trial: Trial) -> Sequence[float | None]:
    return trial.clock_hz or [None] * len(trial.seconds_s)
