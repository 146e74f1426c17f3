"""How near the model comes to the recorded networks of an AGX Orin, as numbers to be printed.

All totals are sums over a network's subgraphs, each timed by itself: TOTALS has one row for each
network, precision, batch and mode, ``measured_s`` and ``modelled_s``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

import polars as pl

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.predict.class_calibration import Calibration, predict_calibrated
from mansard.analytics.predict.class_calibration_fit import fit_calibration
from mansard.analytics.predict.engine import predict_scores
from mansard.analytics.predict.totals_calibration import apply_totals, calibrate_totals
from recorded.subgraphs import CPU_HZ, RUNTIME, TOTAL, Recording

LARGE = 16  # batches from here on are not mostly the time that Python takes to start kernels
KNOWN_MODES = ("15W", "MAXN")
_NETWORK = ["network", "precision", "batch"]


def beaten_bounds(timed: pl.DataFrame, measured: str = "measured_s") -> pl.DataFrame:
    """The subgraphs of large batches that took less than their time under the roof; worst first."""
    large = timed.filter(pl.col("batch") >= LARGE)
    return (
        large.filter(pl.col("roof_s") > pl.col(measured))
        .with_columns(ratio=pl.col("roof_s") / pl.col(measured))
        .sort("ratio", descending=True)
    )


def roof_totals(recording: Recording) -> pl.DataFrame:
    """TOTALS of the roofs alone."""
    found = predict_scores(
        recording.groups, recording.scores, recording.coefficients, recording.modes
    ).collect()
    return _totals(recording, found)


def from_known_modes(recording: Recording) -> tuple[pl.DataFrame, pl.DataFrame]:
    """TOTALS from KNOWN_MODES alone: by the calibration, and by each network's line on top of it.

    The calibration sees all networks, the line the network itself, both in those modes only.
    """
    known = recording.timed.filter(pl.col("mode").is_in(KNOWN_MODES))
    calibration = fit_calibration(known, runtime=RUNTIME, cpu_hz=CPU_HZ)
    predictions = _predictions(recording, calibration)
    lines = calibrate_totals(predictions, observed(known), recording.modes)
    assert lines is not None  # noqa: S101 - every network is known in some modes
    on_lines = apply_totals(predictions, lines, recording.coefficients)
    return _totals(recording, predictions), _totals(recording, on_lines)


def halves(recording: Recording) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The networks in alphabetical order: the first, third, … and the second, fourth, …"""
    names = recording.timed["network"].unique().sort().to_list()
    return tuple(names[::2]), tuple(names[1::2])


def by_other_networks(
    recording: Recording, seen: Sequence[str]
) -> tuple[Calibration, pl.DataFrame]:
    """A calibration on ``seen`` in all modes, and TOTALS by it of all other networks."""
    is_seen = pl.col("network").is_in(list(seen))
    calibration = fit_calibration(recording.timed.filter(is_seen), runtime=RUNTIME)
    found = _totals(recording, _predictions(recording, calibration))
    return calibration, found.filter(~is_seen)


def observed(timed: pl.DataFrame) -> pl.DataFrame:
    """OBSERVATION_SCHEMA: the network totals of ``timed``."""
    sums = timed.group_by("device", *TOTAL).agg(latency_s=pl.col("measured_s").sum())
    cite = "branes-ai/graphs, calibration_data, commit b6c5e829c33a"
    return sums.select(
        "device",
        "mode",
        "network",
        "batch",
        "precision",
        pl.lit("inference").alias("phase"),
        pl.lit(None, pl.String).alias("engine"),
        "latency_s",
        pl.lit(None, pl.Float64).alias("latency_deviation"),
        pl.lit(None, pl.Float64).alias("power_w"),
        pl.lit(None, pl.Float64).alias("power_deviation"),
        pl.lit("published").alias("source"),
        pl.lit(cite).alias("citation"),
        pl.lit("no power was recorded").alias("reason"),
    ).select(list(OBSERVATION_SCHEMA))


def errors(totals: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Median and worst |modelled / measured - 1|, and the median with its sign, by ``by``."""
    error = pl.col("modelled_s") / pl.col("measured_s") - 1
    return (
        totals.group_by(by)
        .agg(median=error.abs().median(), worst=error.abs().max(), bias=error.median(), n=pl.len())
        .sort(by)
    )


def rankings(totals: pl.DataFrame) -> pl.DataFrame:
    """Kendall's τ of the modes by modelled and by measured time, for each network total."""
    rows = [
        {**dict(zip(_NETWORK, key, strict=True)), "tau": _tau(part)}
        for key, part in totals.group_by(_NETWORK)
    ]
    return pl.DataFrame(rows).sort(_NETWORK)


def least_tau(ranked: pl.DataFrame) -> tuple[str, float]:
    """The network whose mean τ over precisions and batches is the least, and that mean."""
    means = {str(name): fmean(part["tau"]) for (name,), part in ranked.group_by("network")}
    return min(means.items(), key=lambda found: found[1])


def class_residuals(recording: Recording, calibration: Calibration) -> pl.DataFrame:
    """By class and batch: share of measured time, error of the sum and of the median subgraph."""
    factors = recording.timed.select("op_class", "precision").unique()
    known = factors.with_columns(
        factor=pl.Series(
            [calibration.factor(*kind) for kind in factors.iter_rows()], dtype=pl.Float64
        )
    )
    costs = pl.DataFrame(
        [(cost.mode, cost.value_s) for cost in calibration.launches],
        schema={"mode": pl.String, "launch_s": pl.Float64},
        orient="row",
    )
    modelled = pl.col("factor") * pl.col("roof_s") + pl.col("n_launches") * pl.col("launch_s")
    measured = pl.col("measured_s")
    timed = recording.timed.join(known, on=["op_class", "precision"]).join(costs, on="mode")
    return (
        timed.with_columns(modelled_s=modelled)
        .group_by("op_class", "batch")
        .agg(
            share=measured.sum(),
            of_sum=pl.col("modelled_s").sum() / measured.sum() - 1,
            median=(pl.col("modelled_s") / measured - 1).median(),
        )
        .with_columns(share=pl.col("share") / pl.col("share").sum().over("batch"))
        .sort("op_class", "batch")
    )


def _tau(part: pl.DataFrame) -> float:
    """Pairs in the same order less pairs in the other one, over all pairs."""
    signs = [
        1 if (one[0] - other[0]) * (one[1] - other[1]) > 0 else -1
        for one, other in combinations(part.select("modelled_s", "measured_s").rows(), 2)
    ]
    return sum(signs) / len(signs)


def _predictions(recording: Recording, calibration: Calibration) -> pl.DataFrame:
    return predict_calibrated(
        recording.groups, recording.scores, recording.coefficients, recording.modes, calibration
    ).collect()


def _totals(recording: Recording, predictions: pl.DataFrame) -> pl.DataFrame:
    measured = recording.timed.group_by(TOTAL).agg(pl.col("measured_s").sum())
    modelled = predictions.select(*TOTAL, modelled_s="latency_s")
    return measured.join(modelled, on=TOTAL, validate="1:1").sort(TOTAL)
