"""From raw repetitions to one rate per trial, with its interval and its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.dataset import Dataset
from mansard.analytics.names import shown
from mansard.analytics.plateau import Estimate, Rates, estimate
from mansard.analytics.quantities import capacity
from mansard.core.records import Source

TRIAL_ORDER = ("mode", "run_id", "kernel", "precision", "fma_per_element", "working_set_bytes")


@dataclass(frozen=True, eq=False)
class TrialRate:
    """What one trial reached: FLOP/s for the fma family, bytes/s for the stream family."""

    run_id: str
    trial_id: str
    kernel: str
    family: str
    precision: str
    fma_per_element: int | None
    working_set_bytes: int
    cpus: tuple[int, ...]
    n_accepted: int
    n_rejected: int
    source: Source
    unstable: bool  # it did not meet its stopping rule
    disturbances: tuple[str, ...]  # what else the machine did; not empty: in no ceiling
    blocks: Rates  # one rate per block, from the median time of the block
    estimate: Estimate


def trial_rates(dataset: Dataset) -> tuple[TrialRate, ...]:
    """One rate per trial that has accepted repetitions, sorted by run and trial id.

    Rate of a block = work (FLOP) or traffic (bytes) of one repetition / median
    seconds of the block's accepted repetitions.
    """
    medians = (
        dataset.repetitions.filter("accepted")
        .group_by("run_id", "trial_id", "block")
        .agg(pl.col("seconds_s").median())
        .sort("run_id", "trial_id", "block")
        .group_by("run_id", "trial_id", maintain_order=True)
        .agg(pl.col("seconds_s").alias("block_seconds_s"))
    )
    rows = dataset.trials.join(medians, on=["run_id", "trial_id"], how="inner").sort(
        "run_id", "trial_id"
    )
    return tuple(_rate(row) for row in rows.iter_rows(named=True) if _amount(row) > 0)


def unused_trials(dataset: Dataset) -> tuple[str, ...]:
    """One line for each trial that gives no rate, with the reason."""
    return tuple(
        f"{shown(row['mode'])}: {describe(row)}: {_why_unused(row)}"
        for row in dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["n_accepted"] == 0 or _amount(row) <= 0
    )


def describe(row: Mapping[str, object]) -> str:
    """What a trial ran, in a few words; names from outside are made printable."""
    ran = f"{shown(str(row['kernel']))} {shown(str(row['precision']))}"
    if row["family"] == "fma":
        return f"{ran}, {row['fma_per_element']} per element"
    return f"{ran}, {capacity(_size(row))}"


def _size(row: Mapping[str, object]) -> float:
    return float(str(row["working_set_bytes"]))


def _why_unused(row: Mapping[str, object]) -> str:
    if row["n_accepted"] == 0:
        return f"no repetition was accepted, {row['n_rejected']} were rejected"
    return "the trial states no work or traffic"


def _amount(row: Mapping[str, object]) -> int:
    amount = row["work_flop" if row["family"] == "fma" else "traffic_bytes"]
    assert isinstance(amount, int)  # noqa: S101 - the column is not nullable in the record
    return amount


def _rate(row: Mapping[str, object]) -> TrialRate:
    blocks: Rates = _amount(row) / np.asarray(row["block_seconds_s"], dtype=np.float64)
    fields = {name: row[name] for name in TrialRate.__dataclass_fields__ if name in row}
    for name in ("cpus", "disturbances"):
        fields[name] = tuple(fields[name])  # type: ignore[arg-type]
    return TrialRate(
        **fields,  # type: ignore[arg-type]
        unstable=row["stability"] == "unstable",
        blocks=blocks,
        estimate=estimate([blocks]),
    )
