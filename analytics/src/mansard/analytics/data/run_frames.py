"""Runs, trials, repetitions, energy windows and readings of meters as typed frames.

One column per field. Where the mode locks the GPU's clock, a sample more than 1 % off the median
of its trial, or a median more than 1 % off the mode's clock, disturbs the trial
(docs/understand/energy.md). A clock that is left to the governor may change: rates are then
compared with the limit at the clock measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import polars as pl

from mansard.analytics.data.frames import FrameSchema, to_json
from mansard.analytics.data.machines import machine_id, processor_of
from mansard.analytics.data.totals import idle_power_w
from mansard.core.records import Conditions, EnergyWindow, Manifest, PowerSample, Spread, Trial

RUN_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "run_kind": pl.String,  # the kind of the manifest
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
    "error_j": pl.Float64,  # at most, by a counter that moves in steps
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
    """One row per window and rail, and one without a rail for the window's total; J, W, s.

    A window that other work disturbed has no energies, but the reason.
    """
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


def _run_row(manifest: Manifest, n_power_samples: dict[str, int]) -> dict[str, object]:
    machine, mode = manifest.machine, manifest.mode_read_back
    same = {name: getattr(manifest, name) for name in RUN_SCHEMA if hasattr(manifest, name)}
    same |= {name: getattr(mode, name) for name in RUN_SCHEMA if hasattr(mode, name)}
    return {
        **same,
        "run_kind": manifest.kind,
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
        if window.is_disturbed:
            window = _without_energy(window)  # noqa: PLW2901
        for rail in window.rails:
            rail_fields = {
                name: getattr(rail, name) for name in ENERGY_SCHEMA if hasattr(rail, name)
            }
            yield {
                **common,
                **rail_fields,
                "power_w": _power_w(rail.energy_j, window.window_s),
                "unknown_json": to_json(rail.unknown),
            }
        yield {
            **common,
            "energy_j": window.total_j,
            "error_j": window.error_j,
            "power_w": _power_w(window.total_j, window.window_s),
            "unknown_json": to_json(window.unknown),
        }


def _without_energy(window: EnergyWindow) -> EnergyWindow:
    why = f"other work disturbed {window.disturbed_share:.0%} of the window"
    names = ("energy_j", "error_j")
    rails = tuple(
        msgspec.structs.replace(
            rail,
            energy_j=None,
            error_j=None,
            unknown={**dict.fromkeys(names, why), **rail.unknown},
        )
        for rail in window.rails
    )
    return msgspec.structs.replace(
        window,
        rails=rails,
        total_j=None,
        error_j=None,
        unknown={**window.unknown, **dict.fromkeys(("total_j", "error_j"), why)},
    )


def _power_w(energy_j: float | None, window_s: float) -> float | None:
    return energy_j / window_s if energy_j is not None and window_s > 0 else None


MOST_DRIFT = 0.01
_LOCKING = frozenset({"nvpmodel", "clocks", "card"})


def median_clock_hz(trial: Trial) -> float | None:
    """The SM clock of the median sample, Hz; None where the kernel did not measure it."""
    return float(np.median(trial.clock_hz)) if trial.clock_hz else None


def clock_disturbances(trial: Trial, run: Mapping[str, object]) -> tuple[str, ...]:
    """Disturbances of ``trial`` seen in its clocks; ``run`` is its row of the run frame.

    Nothing where the measuring side has said it already.
    """
    cap_hz, middle_hz = run["gpu_hz"], median_clock_hz(trial)
    said = any("clock" in reason for reason in trial.disturbances)
    if run["mode_kind"] not in _LOCKING or not isinstance(cap_hz, float) or said:
        return ()
    if not trial.clock_hz or middle_hz is None:
        return ()
    if any(abs(hz - middle_hz) > MOST_DRIFT * middle_hz for hz in trial.clock_hz):
        ends = f"{_mhz(min(trial.clock_hz))} and {_mhz(max(trial.clock_hz))}"
        return (f"the SM clock drifted between {ends}",)
    if abs(middle_hz - cap_hz) > MOST_DRIFT * cap_hz:
        return (f"the SM clock was {_mhz(middle_hz)} instead of {_mhz(cap_hz)}",)
    return ()


def _mhz(clock_hz: float) -> str:
    return f"{clock_hz / 1e6:.4g} MHz"


# The readings of Conditions that are a Spread, by the name and the unit of their columns.
_SPREADS = (
    *(("cpu_clock", "hz"), ("gpu_clock", "hz"), ("memory_clock", "hz"), ("temperature", "c")),
    *(("fan_speed", "rpm"), ("fan_drive", "share")),
)
_MEMORY_USE = ("mean_share", "low_share", "high_share")
_LISTS = ("gpu_processes", "settings_changed", "engines")
CONDITION_SCHEMA: FrameSchema = {
    **{
        f"{name}_{when}_{unit}": pl.Float64
        for name, unit in _SPREADS
        for when in Spread.__struct_fields__[1:]  # not "unknown"
    },
    "temperature_slope_c_per_s": pl.Float64,
    "n_throttle_events": pl.Int64,
    "n_overcurrent_events": pl.Int64,
    "swapped_bytes": pl.Int64,
    **{name: pl.List(pl.String) for name in _LISTS},
    **{f"memory_use_{name}": pl.Float64 for name in _MEMORY_USE},
    "memory_use_source": pl.String,
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
    "failure": pl.String,
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
    key = ("run_id", "trial_id")
    lists = {n: k if n in key else pl.List(k) for n, k in REPETITION_SCHEMA.items()}
    frame = pl.DataFrame(columns, schema=lists).filter(pl.col("seconds_s").list.len() > 0)
    frame = frame.sort(key, maintain_order=True)
    return frame.explode([name for name in REPETITION_SCHEMA if name not in key])


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


def _conditions(conditions: Conditions) -> dict[str, object]:
    spreads = {
        f"{name}_{when}_{unit}": getattr(getattr(conditions, f"{name}_{unit}"), when, None)
        for name, unit in _SPREADS
        for when in Spread.__struct_fields__[1:]
    }
    use = conditions.memory_use
    return {
        **spreads,
        "temperature_slope_c_per_s": conditions.temperature_slope_c_per_s,
        "n_throttle_events": conditions.n_throttle_events,
        "n_overcurrent_events": conditions.n_overcurrent_events,
        "swapped_bytes": conditions.swapped_bytes,
        **{name: _list(getattr(conditions, name)) for name in _LISTS},
        **{f"memory_use_{name}": getattr(use, name, None) for name in (*_MEMORY_USE, "source")},
    }


def _list(words: Sequence[str] | None) -> list[str] | None:
    return None if words is None else list(words)


def _clocks_hz(trial: Trial) -> Sequence[float | None]:
    return trial.clock_hz or [None] * len(trial.seconds_s)


SAMPLE_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "rail": pl.String,
    "monotonic_s": pl.Float64,
    "power_w": pl.Float64,
    "energy_j": pl.Float64,
    "unknown_json": pl.String,
}


def sample_frame(run_id: str, samples: Sequence[PowerSample]) -> pl.DataFrame:
    """One row per reading of a rail, in the order they were read; seconds, watts, joules."""
    columns = {
        "rail": [sample.rail for sample in samples],
        "monotonic_s": [sample.monotonic_s for sample in samples],
        "power_w": [sample.power_w for sample in samples],
        "energy_j": [sample.energy_j for sample in samples],
        "unknown_json": [to_json(sample.unknown) for sample in samples],
    }
    schema = {name: kind for name, kind in SAMPLE_SCHEMA.items() if name != "run_id"}
    frame = pl.DataFrame(columns, schema=schema).with_columns(run_id=pl.lit(run_id))
    return frame.select(list(SAMPLE_SCHEMA))
