"""Records to typed Polars frames; one function per frame, one column per field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import polars as pl
from polars.datatypes import DataType, DataTypeClass

from mansard.analytics.dataset import machine_id, score_id
from mansard.core.records import LAYER_COUNTS, Manifest, ModelScore, Trial

FrameSchema: TypeAlias = "dict[str, DataTypeClass | DataType]"

RUN_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "machine_id": pl.String,
    "machine": pl.String,
    "mode": pl.String,
    "n_cpus": pl.Int64,
    "cpu_hz": pl.Float64,
    "gpu_hz": pl.Float64,
    "memory_hz": pl.Float64,
    "profile": pl.String,
    "plan_hash": pl.String,
    "tool_version": pl.String,
    "commit": pl.String,
    "n_trials_planned": pl.Int64,
    "n_power_samples": pl.Int64,
    "idle_power_w": pl.Float64,
    "started_utc": pl.String,
    "finished_utc": pl.String,
}
TRIAL_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "machine_id": pl.String,
    "mode": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "kernel": pl.String,
    "family": pl.String,
    "backend": pl.String,
    "precision": pl.String,
    "fma_per_element": pl.Int64,
    "cpus": pl.List(pl.Int64),
    "working_set_bytes": pl.Int64,
    "work_flop": pl.Int64,
    "traffic_bytes": pl.Int64,
    "traffic_counting": pl.String,
    "repetitions_per_sample": pl.Int64,
    "n_accepted": pl.Int64,
    "n_rejected": pl.Int64,
    "stability": pl.String,
    "stability_interval": pl.Float64,
    "clock_before_hz": pl.Float64,
    "clock_after_hz": pl.Float64,
    "temperature_before_c": pl.Float64,
    "temperature_after_c": pl.Float64,
    "throttled": pl.Boolean,
    "energy_json": pl.String,
    "unknown_json": pl.String,
    "source_hash": pl.String,
    "started_utc": pl.String,
    "duration_s": pl.Float64,
}
LAYER_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "model": pl.String,
    "model_hash": pl.String,
    "phase": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "dimensions_json": pl.String,
    "optimizer": pl.String,
    "recompute": pl.Boolean,
    "cache_bytes": pl.Int64,
    "index": pl.Int64,
    "layer": pl.String,
    "op_type": pl.String,
    "domain": pl.String,
    "scope": pl.String,
    "runs": pl.Int64,
    "layer_precision": pl.String,
    "unit": pl.String,
    **dict.fromkeys((*LAYER_COUNTS, "fused_group"), pl.Int64),
    "unknown_json": pl.String,
}
REPETITION_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "accepted": pl.Boolean,
    "block": pl.Int64,
    "seconds_s": pl.Float64,
    "rejected_reason": pl.String,
}


def run_frame(manifests: Sequence[Manifest], n_power_samples: dict[str, int]) -> pl.DataFrame:
    """One row per run, sorted by run id."""
    rows = [
        {
            "run_id": manifest.run_id,
            "machine_id": machine_id(manifest.machine),
            "machine": manifest.machine.name,
            "mode": manifest.mode_read_back.name,
            "n_cpus": manifest.mode_read_back.n_cpus,
            "cpu_hz": manifest.mode_read_back.cpu_hz,
            "gpu_hz": manifest.mode_read_back.gpu_hz,
            "memory_hz": manifest.mode_read_back.memory_hz,
            "profile": manifest.profile,
            "plan_hash": manifest.plan_hash,
            "tool_version": manifest.tool_version,
            "commit": manifest.commit,
            "n_trials_planned": manifest.n_trials,
            "n_power_samples": n_power_samples.get(manifest.run_id, 0),
            "idle_power_w": manifest.idle_power_w,
            "started_utc": manifest.started_utc,
            "finished_utc": manifest.finished_utc,
        }
        for manifest in manifests
    ]
    return pl.DataFrame(rows, schema=RUN_SCHEMA).sort("run_id")


def trial_frame(trials: Sequence[Trial], runs: pl.DataFrame) -> pl.DataFrame:
    """One row per trial, sorted by run and trial id; repetitions are a frame of their own."""
    machines = {row["run_id"]: row for row in runs.iter_rows(named=True)}
    rows = [_trial_row(trial, machines[trial.run_id]) for trial in trials]
    return pl.DataFrame(rows, schema=TRIAL_SCHEMA).sort("run_id", "trial_id")


def repetition_frame(trials: Sequence[Trial]) -> pl.DataFrame:
    """One row per repetition, seconds; blocks are null where a repetition was rejected."""
    n_each = [(len(trial.seconds_s), len(trial.rejected_s)) for trial in trials]
    n_rows = np.asarray([accepted + rejected for accepted, rejected in n_each], dtype=np.int64)
    repeat = np.repeat(np.arange(len(trials)), n_rows)
    columns = {
        "run_id": [trials[at].run_id for at in repeat.tolist()],
        "trial_id": [trials[at].trial_id for at in repeat.tolist()],
        "accepted": [flag for n, m in n_each for flag in [True] * n + [False] * m],
        "block": [b for t in trials for b in (*t.block, *[None] * len(t.rejected_s))],
        "seconds_s": [s for t in trials for s in (*t.seconds_s, *t.rejected_s)],
        "rejected_reason": [
            r for t in trials for r in (*[None] * len(t.seconds_s), *t.rejected_reason)
        ],
    }
    return pl.DataFrame(columns, schema=REPETITION_SCHEMA).sort(
        "run_id", "trial_id", maintain_order=True
    )


def layer_frame(scores: Sequence[ModelScore]) -> pl.DataFrame:
    """One row per layer of each score, in the order of the network."""
    rows = [
        {
            "score_id": identity,
            "model": score.model,
            "model_hash": score.model_hash,
            "phase": score.phase,
            "batch": score.batch,
            "precision": score.precision,
            "dimensions_json": dimensions,
            "optimizer": score.optimizer,
            "recompute": score.recompute,
            "cache_bytes": score.cache_bytes,
            "index": layer.index,
            "layer": layer.name,
            "op_type": layer.op_type,
            "domain": layer.domain,
            "scope": layer.scope,
            "runs": layer.runs,
            "layer_precision": layer.precision,
            "unit": layer.unit,
            **{name: getattr(layer, name) for name in (*LAYER_COUNTS, "fused_group")},
            "unknown_json": _json(layer.unknown),
        }
        for score in scores
        # Both look at the whole score: once, not for each of its rows.
        for identity, dimensions in ((score_id(score), _json(score.dimensions)),)
        for layer in score.layers
    ]
    return pl.DataFrame(rows, schema=LAYER_SCHEMA).sort("score_id", "index", maintain_order=True)


def _trial_row(trial: Trial, run: dict[str, object]) -> dict[str, object]:
    direct = {name: getattr(trial, name) for name in TRIAL_SCHEMA if hasattr(trial, name)}
    return {
        **direct,
        "machine_id": run["machine_id"],
        "mode": run["mode"],
        "cpus": list(trial.cpus),
        "n_accepted": len(trial.seconds_s),
        "n_rejected": len(trial.rejected_s),
        "energy_json": None if trial.energy is None else _json(trial.energy),
        "unknown_json": _json(trial.unknown),
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
