"""Runs, and the energy of every window, as typed frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import machine_id, processor_of
from mansard.analytics.data.frames import FrameSchema, to_json
from mansard.core.records import EnergyWindow, Manifest, Trial

RUN_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "machine_id": pl.String,
    "machine": pl.String,
    "kind": pl.String,
    "processor": pl.String,
    "gpu": pl.String,
    "is_simulated": pl.Boolean,
    "mode": pl.String,
    "mode_kind": pl.String,
    "n_cpus": pl.Int64,
    "cpu_hz": pl.Float64,
    "gpu_hz": pl.Float64,
    "memory_hz": pl.Float64,
    "dla_hz": pl.Float64,
    "n_sms": pl.Int64,
    "power_limit_w": pl.Float64,
    "profile": pl.String,
    "plan_hash": pl.String,
    "seed": pl.Int64,
    "tool_version": pl.String,
    "commit": pl.String,
    "image": pl.String,
    "image_digest": pl.String,
    "n_trials_planned": pl.Int64,
    "n_power_samples": pl.Int64,
    "meters": pl.List(pl.String),
    "total_rails": pl.List(pl.String),
    "total_rule": pl.String,
    "boundary": pl.String,
    "idle_power_w": pl.Float64,
    "started_utc": pl.String,
    "finished_utc": pl.String,
    "started_monotonic_s": pl.Float64,
    "finished_monotonic_s": pl.Float64,
    "machine_json": pl.String,
    "gpu_json": pl.String,
    "mode_requested_json": pl.String,
    "mode_read_back_json": pl.String,
    "versions_json": pl.String,
    "meters_missing_json": pl.String,
    "unknown_json": pl.String,
}
ENERGY_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,  # null: the machine was idle
    "window": pl.Int64,
    "start_s": pl.Float64,
    "window_s": pl.Float64,
    "repetitions": pl.Int64,
    "rail": pl.String,  # null: the total, by the rule of the run
    "energy_j": pl.Float64,
    "power_w": pl.Float64,
    "n_samples": pl.Int64,
    "n_changed": pl.Int64,
    "n_gaps": pl.Int64,
    "step_w": pl.Float64,
    "unknown_json": pl.String,
}


def run_frame(manifests: Sequence[Manifest], n_power_samples: dict[str, int]) -> pl.DataFrame:
    """One row per run, sorted by run id; nested parts as JSON beside their main fields."""
    rows = [_run_row(manifest, n_power_samples) for manifest in manifests]
    return pl.DataFrame(rows, schema=RUN_SCHEMA).sort("run_id")


def energy_frame(manifests: Sequence[Manifest], trials: Sequence[Trial]) -> pl.DataFrame:
    """One row per window and rail, and one without a rail for the window's total; J, W, s."""
    rows = [
        row
        for manifest in manifests
        for row in _window_rows(manifest.run_id, None, manifest.idle or ())
    ]
    rows += [
        row
        for trial in trials
        for row in _window_rows(trial.run_id, trial.trial_id, trial.energy or ())
    ]
    return pl.DataFrame(rows, schema=ENERGY_SCHEMA).sort(
        "run_id", "trial_id", "window", maintain_order=True
    )


def idle_power_w(manifest: Manifest) -> float | None:
    """Median total power of the idle windows, watts; None where no total is above 0."""
    powers = [
        window.total_j / window.window_s
        for window in manifest.idle or ()
        if window.total_j is not None and window.total_j > 0 and window.window_s > 0
    ]
    return float(np.median(powers)) if powers else None


def _run_row(manifest: Manifest, n_power_samples: dict[str, int]) -> dict[str, object]:
    machine, mode = manifest.machine, manifest.mode_read_back
    same = {name: getattr(manifest, name) for name in RUN_SCHEMA if hasattr(manifest, name)}
    same |= {name: getattr(mode, name) for name in RUN_SCHEMA if hasattr(mode, name)}
    return {
        **same,
        "machine_id": machine_id(machine),
        "machine": machine.name,
        "kind": machine.kind,
        "processor": processor_of(manifest),
        "gpu": None if manifest.gpu is None else manifest.gpu.name,
        "is_simulated": machine.is_simulated,
        "mode": mode.name,
        "mode_kind": mode.kind,
        "n_trials_planned": manifest.n_trials,
        "n_power_samples": n_power_samples.get(manifest.run_id, 0),
        "meters": list(manifest.meters),
        "total_rails": None if manifest.total_rails is None else list(manifest.total_rails),
        "idle_power_w": idle_power_w(manifest),
        "machine_json": to_json(machine),
        "gpu_json": None if manifest.gpu is None else to_json(manifest.gpu),
        "mode_requested_json": to_json(manifest.mode_requested),
        "mode_read_back_json": to_json(mode),
        "versions_json": to_json(manifest.versions),
        "meters_missing_json": to_json(manifest.meters_missing),
        "unknown_json": to_json(manifest.unknown),
    }


def _window_rows(
    run_id: str, trial_id: str | None, windows: Sequence[EnergyWindow]
) -> Iterator[dict[str, object]]:
    for at, window in enumerate(windows):
        common = {
            "run_id": run_id,
            "trial_id": trial_id,
            "window": at,
            "start_s": window.start_s,
            "window_s": window.window_s,
            "repetitions": window.repetitions,
        }
        for rail in window.rails:
            own = {name: getattr(rail, name) for name in ENERGY_SCHEMA if hasattr(rail, name)}
            yield {
                **common,
                **own,
                "power_w": _power_w(rail.energy_j, window.window_s),
                "unknown_json": to_json(rail.unknown),
            }
        yield {
            **common,
            "energy_j": window.total_j,
            "power_w": _power_w(window.total_j, window.window_s),
            "unknown_json": to_json(window.unknown),
        }


def _power_w(energy_j: float | None, window_s: float) -> float | None:
    return energy_j / window_s if energy_j is not None and window_s > 0 else None
