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
from mansard.analytics.models.predict.class_fit import ClassFactors
from mansard.analytics.models.predict.prediction import predict_roofed, scale_classes
from mansard.analytics.models.predict.timed_layers import (
    LAYER_GROUP_SCHEMA,
    TimedNetworks,
    at_roofs,
)
from mansard.analytics.models.predict.totals_calibration import (
    DeviceCalibration,
    apply_totals,
    calibrate_totals,
)
from recorded.subgraphs import RUNTIME, TOTAL, Recording

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
    return _totals(recording, _roofed(recording))


def calibrated(
    recording: Recording, timed: pl.DataFrame, *, has_layers: bool = True
) -> tuple[DeviceCalibration, pl.DataFrame]:
    """By ``timed``, which are some rows of the recording: the calibration, and TOTALS by it of all.

    ``has_layers``: whether its subgraphs count as layers that were timed, or their sums alone.
    """
    roofed = _roofed(recording)
    layers = _layers(recording, timed)
    found = calibrate_totals(
        roofed, observed(timed), recording.modes, layers if has_layers else None
    )
    scaled = scale_classes(
        roofed,
        found,
        recording.groups,
        recording.scores,
        recording.coefficients,
        recording.modes,
    )
    predictions = apply_totals(scaled, found, recording.coefficients)
    (calibration,) = found.values()
    return calibration, _totals(recording, predictions)


def from_known_modes(recording: Recording, *, has_layers: bool) -> pl.DataFrame:
    """TOTALS by a calibration in KNOWN_MODES alone, by all networks."""
    known = recording.timed.filter(pl.col("mode").is_in(KNOWN_MODES))
    return calibrated(recording, known, has_layers=has_layers)[1]


def halves(recording: Recording) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The networks in alphabetical order: the first, third, … and the second, fourth, …"""
    names = recording.timed["network"].unique().sort().to_list()
    return tuple(names[::2]), tuple(names[1::2])


def by_other_networks(
    recording: Recording, seen: Sequence[str]
) -> tuple[DeviceCalibration, pl.DataFrame]:
    """A calibration on ``seen`` in all modes, and TOTALS by it of all other networks."""
    is_seen = pl.col("network").is_in(list(seen))
    calibration, totals = calibrated(recording, recording.timed.filter(is_seen))
    return calibration, totals.filter(~is_seen)


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
        pl.lit(RUNTIME).alias("engine"),
        "latency_s",
        pl.lit(None, pl.Float64).alias("latency_deviation"),
        pl.lit(None, pl.Float64).alias("power_w"),
        pl.lit(None, pl.Float64).alias("power_deviation"),
        pl.lit(None, pl.Float64).alias("energy_j"),
        pl.lit(None, pl.Float64).alias("cpu_s"),
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


def class_residuals(recording: Recording, factors: ClassFactors) -> pl.DataFrame:
    """By class and batch: share of measured time, error of the sum and of the median subgraph."""
    rows = _layers(recording, recording.timed).rows
    factor = pl.struct("op_class", "precision").map_elements(
        lambda row: factors.factor(row["op_class"], row["precision"]), return_dtype=pl.Float64
    )
    launch_s = pl.col("mode").replace_strict(factors.launches_s, return_dtype=pl.Float64)
    piece = [*TOTAL, "layer"]
    modelled = rows.group_by(piece).agg(
        modelled_s=(factor * pl.col("roof_s") + pl.col("n_launches") * launch_s).sum()
    )
    measured = pl.col("measured_s")
    return (
        recording.timed.join(modelled, on=piece)
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


def _layers(recording: Recording, timed: pl.DataFrame) -> TimedNetworks:
    """``timed`` as layers, each of one group."""
    rows = timed.with_columns(phase=pl.lit("inference"), engine=pl.lit(RUNTIME))
    return at_roofs(
        rows.select(list(LAYER_GROUP_SCHEMA)),
        recording.groups,
        recording.coefficients,
        recording.modes,
        {},
    )


def _roofed(recording: Recording) -> pl.DataFrame:
    return predict_roofed(
        recording.groups, recording.scores, recording.coefficients, recording.modes
    )


def _totals(recording: Recording, predictions: pl.DataFrame) -> pl.DataFrame:
    measured = recording.timed.group_by(TOTAL).agg(pl.col("measured_s").sum())
    modelled = predictions.select(*TOTAL, modelled_s="latency_s")
    return measured.join(modelled, on=TOTAL, validate="1:1").sort(TOTAL)
