"""Rates, times and energies of the rows of runs, without the libraries of the extra ``report``.

``bench`` and ``measure`` need these libraries only for predictions, intervals of ceilings and the
report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from mansard.analytics.data.names import device_labels, display_name, label_text
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.predict.generation_times import GenerationTimes, generation_times
from mansard.analytics.models.predict.row_times import (
    NetworkTimes,
    ProgramTimes,
    network_times,
    program_times,
)
from mansard.core.precision import rate_unit
from mansard.core.records import GenerationRun, Manifest, Measurement, ProgramRun, Trial
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows


class KernelRate(msgspec.Struct, frozen=True):
    """The best rate of a kernel in one precision and mode: the median of its blocks."""

    machine: str
    mode: str
    kernel: str
    precision: str
    unit: str  # FLOP/s or OP/s; B/s of a stream
    rate: float
    working_set_bytes: int  # of the trial with this rate
    is_largest_set: bool  # of streams: the rate at the largest working set, not the best


class KernelRates(msgspec.Struct, frozen=True):
    """The rates of kernels, and how many trials have none: they failed or were disturbed."""

    rates: tuple[KernelRate, ...]
    n_failed: int
    n_disturbed: int


def kernel_rates(runs: Path, run_ids: Iterable[str]) -> KernelRates:
    """The rates of the kernels of these runs, in the order in which they were measured."""
    rates: list[KernelRate] = []
    n_failed = n_disturbed = 0
    for run_id in run_ids:
        manifest = read_document(runs / run_id / "manifest.json", Manifest, runs)
        path = runs / run_id / "trials.jsonl"
        trials = read_rows(path, Trial, runs).rows if path.is_file() else []
        n_failed += sum(trial.failure is not None for trial in trials)
        n_disturbed += sum(bool(trial.disturbances) for trial in trials)
        rates += _rates_of(manifest, trials)
    return KernelRates(tuple(rates), n_failed, n_disturbed)


def _rates_of(manifest: Manifest, trials: Sequence[Trial]) -> list[KernelRate]:
    usable: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        counts = trial.operands != "constant" and not trial.disturbances and trial.seconds_s
        if counts and _amount(trial) > 0:
            usable.setdefault((trial.kernel, trial.precision), []).append(trial)
    rates = []
    for (kernel, precision), same in usable.items():
        is_stream = same[0].family == "stream"
        chosen = [(max(same, key=_rate), False)]
        largest = max(same, key=lambda trial: trial.working_set_bytes)
        if is_stream and largest is not chosen[0][0]:
            chosen.append((largest, True))
        rates += [
            KernelRate(
                machine=manifest.machine.name,
                mode=manifest.mode_read_back.name,
                kernel=display_name(kernel),
                precision=display_name(precision),
                unit="B/s" if is_stream else rate_unit(precision),
                rate=_rate(trial),
                working_set_bytes=trial.working_set_bytes,
                is_largest_set=is_largest,
            )
            for trial, is_largest in chosen
        ]
    return rates


def _amount(trial: Trial) -> int:
    """Work or traffic of one repetition; 0 for kernels that have no such rate."""
    if trial.family == "stream":
        return trial.traffic_bytes
    return trial.work_flop if trial.family in {"fma", "tensor"} else 0


def _rate(trial: Trial) -> float:
    """The median over blocks of the rate at the median time of each, as the ceilings have it."""
    blocks: dict[int, list[float]] = {}
    for block, time_s in zip(trial.block, trial.seconds_s, strict=True):
        blocks.setdefault(block, []).append(time_s)
    return median(_amount(trial) / median(times_s) for times_s in blocks.values())


def times_of_networks(
    rows: Sequence[tuple[Manifest, Measurement]],
) -> tuple[NetworkTimes, ...]:
    """The times of each row of a network, without predictions."""
    devices = device_labels([manifest for manifest, _ in rows])
    return tuple(
        network_times(
            row,
            {
                "run_ids": (row.run_id,),
                "device": devices[manifest.run_id],
                "network": display_name(row.model),
                "batch": row.batch,
                "precision": row.precision,
                "phase": row.phase,
                "mode": manifest.mode_read_back.name,
                "label": label_text(manifest.label),
            },
            idle_power_w(manifest),
            {},
        )
        for manifest, row in rows
    )


def times_of_programs(
    rows: Sequence[tuple[Manifest, ProgramRun]],
) -> list[tuple[ProgramTimes, ...]]:
    """The times of each program as a whole, and of each of its windows by name."""
    devices = device_labels([manifest for manifest, _ in rows])
    return [
        program_times(
            row, devices[manifest.run_id], manifest.mode_read_back.name, label=manifest.label
        )
        for manifest, row in rows
    ]


def times_of_generations(
    rows: Sequence[tuple[Manifest, GenerationRun]],
) -> list[GenerationTimes]:
    """The times of each row of a server."""
    devices = device_labels([manifest for manifest, _ in rows])
    return [
        generation_times(
            row, devices[manifest.run_id], manifest.mode_read_back.name, label=manifest.label
        )
        for manifest, row in rows
    ]
