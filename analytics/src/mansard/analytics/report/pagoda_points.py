"""Pagoda's table and points beside our estimates: frames for tables and charts.

Two estimates of a time, neither of which has seen Pagoda's points. ``least_s`` is the time at
the published roofs with fused traffic, in fp32 and in tf32: what a runtime as good as the kernels
behind the roofs would take, not the hardware's bound. ``estimate_s`` is that of a
framework which starts every operator by itself: unfused traffic, PyTorch's usual number formats,
and the published cost of starting an operator. Roofs are branes-ai's figures of an AGX Orin.

A power needs costs that nobody published for the board. They are fitted on Pagoda's own points
(docs/energy.md), each network's on those of the four others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.energy.least_squares import Array, solve_non_negative
from mansard.analytics.predict.engine import predict_scores
from mansard.analytics.predict.groups import group_frame
from mansard.analytics.predict.scores import score_frame
from mansard.analytics.published.frames import published_coefficients, published_modes
from mansard.analytics.published.pagoda import (
    MODE,
    NETWORKS,
    OPERATOR_LAUNCH_S,
    USUAL_FORMATS,
    read_counts,
)
from mansard.analytics.published.reference import PAGODA_RUNS, RATES
from mansard.analytics.published.store import Published
from mansard.core.records import LAYER_COUNTS, ModelScore

_KEYS = ["network", "batch"]


@dataclass(frozen=True, eq=False)
class Pagoda:
    """``counts``: 55 rows of work and traffic; ``points``: the 25 that were measured."""

    published: Published
    counts: pl.DataFrame
    points: pl.DataFrame


def pagoda_points(scores: Sequence[ModelScore]) -> Pagoda:
    """Everything that the page shows, from our scores of the five networks.

    ``scores`` need fp32 at every batch of the table, and tf32 at the measured ones.
    """
    published = Published(
        rates=next(table for table in RATES if table.device == PAGODA_RUNS.device).read().rates,
        runs=PAGODA_RUNS.read().runs,
    )
    layers = layer_frame(scores)
    counts = _counts(layers)
    points = _measured(published).join(_work(layers), on=_KEYS, how="left")
    timed = layers.join(points, left_on=["model", "batch"], right_on=_KEYS, how="semi")
    points = points.join(counts.select(*_KEYS, "their_flop", "their_bytes"), on=_KEYS, how="left")
    at_roofs = _times(timed, published, None).rename({"latency_s": "least_s"})
    for precision in ("fp32", "tf32"):
        of_format = at_roofs.filter(pl.col("precision") == precision).drop("precision")
        named = of_format.rename({"least_s": f"least_{precision}_s"})
        points = points.join(named, on=_KEYS, how="left")
    usual = pl.col("network").replace_strict(dict(USUAL_FORMATS))
    alone = _times(_alone(timed), published, OPERATOR_LAUNCH_S)
    chosen = alone.filter(pl.col("precision") == usual).drop("precision")
    points = points.join(chosen.rename({"latency_s": "estimate_s"}), on=_KEYS, how="left")
    return Pagoda(published, counts, points.with_columns(estimate_w=_powers(points)))


def _counts(layers: pl.DataFrame) -> pl.DataFrame:
    """Their counts and ours of each network and batch; bytes unfused and fused."""
    theirs = pl.DataFrame(
        [
            {
                "network": count.network,
                "batch": count.batch,
                "their_flop": count.work_flop,
                "their_bytes": count.traffic_bytes,
            }
            for count in read_counts()
        ]
    )
    return theirs.join(_work(layers), on=_KEYS, how="left", maintain_order="left")


def _work(layers: pl.DataFrame) -> pl.DataFrame:
    """Our sums over the layers of each fp32 score; null as soon as one layer's is."""
    sums = [
        pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).alias(f"our_{short}")
        for name, short in (
            ("work_flop", "flop"),
            ("traffic_bytes", "bytes"),
            ("fused_traffic_bytes", "fused_bytes"),
        )
    ]
    fp32 = layers.filter(pl.col("precision") == "fp32")
    return fp32.group_by(pl.col("model").alias("network"), "batch").agg(sums)


def _measured(published: Published) -> pl.DataFrame:
    order = {name: at for at, name in enumerate(NETWORKS)}
    runs = sorted(published.runs, key=lambda run: (order[run.network], run.batch or 0))
    return pl.DataFrame(
        [
            {
                "network": run.network,
                "batch": run.batch,
                "measured_s": run.latency_s,
                "measured_w": run.power_w,
                "remark": run.remark,
            }
            for run in runs
        ]
    )


def _times(layers: pl.DataFrame, published: Published, launch_s: float | None) -> pl.DataFrame:
    """network, batch, precision, latency_s in MAXN; with another cost of a launch where given."""
    coefficients = published_coefficients(published).filter(pl.col("mode") == MODE)
    if launch_s is not None:
        is_launch = pl.col("quantity") == "launch"
        value = pl.when(is_launch).then(launch_s).otherwise(pl.col("value"))
        coefficients = coefficients.with_columns(value=value)
    modes = published_modes(published).filter(pl.col("mode") == MODE)
    found = predict_scores(group_frame(layers), score_frame(layers), coefficients, modes)
    return found.select(*_KEYS, "precision", "latency_s").collect()


def _alone(layers: pl.DataFrame) -> pl.DataFrame:
    """The layers as an eager framework runs them: each a group of its own, nothing fused."""
    fused = [name for name in LAYER_COUNTS if name.startswith("fused_")]
    unfused = {name: pl.col(name.removeprefix("fused_")) for name in fused}
    is_run = pl.col("fused_group").is_not_null()
    return layers.with_columns(fused_group=pl.when(is_run).then(pl.col("index")), **unfused)


def _powers(points: pl.DataFrame) -> pl.Series:
    """Watts of each point by the energy model fitted on the other networks' points.

    E = ε_flop W + ε_byte Q + π₀ T with the measured time; a point with a remark (an outlier) is
    in no fit.
    """
    rows = points.select("our_flop", "our_bytes", "measured_s").to_numpy().astype(float)
    energies_j = (points["measured_s"] * points["measured_w"]).to_numpy()
    names = points["network"].to_numpy()
    is_fit = points["remark"].is_null().to_numpy()
    watts: Array = np.zeros(len(points))
    for name in NETWORKS:
        own, others = names == name, (names != name) & is_fit
        solution = solve_non_negative(
            rows[others] / energies_j[others, None], np.ones(int(others.sum()))
        )
        watts[own] = rows[own] @ solution.values / rows[own, 2]
    return pl.Series(watts)
