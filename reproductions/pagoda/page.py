"""The page that reproduces Pagoda: its table, its points, and our estimates beside them.

There are two estimates of a time; neither is fitted on Pagoda's points. ``least_s`` is the time at
the published roofs with fused traffic, in fp32 and in tf32: the time of a runtime as good as the
kernels behind the roofs, not the hardware's bound. ``estimate_s`` is that of a
framework which starts every operator by itself: unfused traffic, PyTorch's usual number formats,
and the published cost of starting an operator. Roofs are branes-ai's figures of an AGX Orin.

A power needs costs that are not published for the board. They are fitted on Pagoda's own points
(docs/understand/energy.md): those of each network on the points of the four others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES
from mansard.analytics.data.published.store import (
    Published,
    published_coefficients,
    published_modes,
)
from mansard.analytics.data.quantities import UNKNOWN, digits, percent, quantity
from mansard.analytics.models.energy.least_squares import Array, solve_non_negative
from mansard.analytics.models.predict.engine import predict_scores
from mansard.analytics.models.predict.groups import group_frame, score_frame
from mansard.analytics.pages.figures.figure import pool
from mansard.analytics.pages.figures.tables import Column, scaled, tabulate
from mansard.analytics.pages.report.page import write_page
from mansard.analytics.pages.tables.provenance import published_table, source_table
from mansard.core.records import LAYER_COUNTS, ModelScore
from mansard.core.table import Table
from reproductions.pagoda.figures import comparison_figure, point_table, roofs_figure
from reproductions.pagoda.table import (
    MODE,
    NETWORKS,
    OPERATOR_LAUNCH_S,
    USUAL_FORMATS,
    read_counts,
)

_KEYS = ["network", "batch"]
# Why the counts differ, network by network: docs/understand/pagoda.md derives each.
WHY = (
    (
        "mobilenet_v3_large",
        "Pagoda scored an export with batch normalisations folded into convolutions, ours keeps "
        "them: 2 operations an element instead of 1, and a tensor more to write and to read.",
    ),
    ("resnet50", "The same; its table is rebuilt exactly from ours with the folding undone."),
    ("yolov8n", "The same, and its softmax takes 7 operations an element where ours takes 5."),
    (
        "word_lstm",
        "Pagoda counts a multiply-add of the recurrent layers as one operation and does not "
        "multiply them by the batch: at batch 64 its figure is 0.88 of the work.",
    ),
    (
        "bert_large",
        "Normalisations and softmax are spelled out in its export. Of its activations' bytes "
        "4 to 7 % could not be assigned.",
    ),
)


@dataclass(frozen=True, eq=False)
class Pagoda:
    """``counts``: 55 rows of work and traffic; ``points``: the 25 that were measured."""

    published: Published
    counts: pl.DataFrame
    points: pl.DataFrame


def write_pagoda_page(scores: Sequence[ModelScore], path: Path) -> Pagoda:
    """Write the page to ``path``, whole or not at all; returns what it shows.

    ``scores``: see ``pagoda_points``. Raises StorageError.
    """
    pagoda = pagoda_points(scores)
    roofs = roofs_figure(pagoda.points, pagoda.published)
    comparison = comparison_figure(pagoda.points)
    context: dict[str, Any] = {
        "title": "Pagoda's table and points, with Mansard's estimates",
        "findings": findings(pagoda.points),
        "mode": MODE,
        "roofs": roofs,
        "comparison": comparison,
        "counts": count_table(pagoda.counts),
        "why": Table("Why the counts differ", ("Network", "Reason"), WHY),
        "points": point_table(pagoda.points),
        "rates": published_table(pagoda.published),
        "sources": source_table(pagoda.published),
        "figures": [roofs, comparison],
        "datasets": pool([roofs, comparison]),
    }
    write_page(Path(__file__).with_name("page.html.j2"), context, path)
    return pagoda


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


def count_table(counts: pl.DataFrame) -> Table:
    """Pagoda's analytical table, with our counts beside it."""

    def number(title: str, name: str, unit: float) -> Column:
        return Column(title, lambda row: scaled(row[name], unit), is_numeric=True)

    def ratio(title: str, one: str, other: str, n_digits: int = 4) -> Column:
        def cell(row: dict[str, float | None]) -> str:
            above, below = row[one], row[other]
            return UNKNOWN if above is None or not below else digits(above / below, n_digits)

        return Column(title, cell, is_numeric=True)

    columns = (
        Column.name("Network", "network"),
        Column.number("Batch", "batch", "d"),
        number("GFLOP, Pagoda", "their_flop", 1e9),
        number("GFLOP, ours", "our_flop", 1e9),
        ratio("Ours / theirs", "our_flop", "their_flop", 3),
        number("MB, Pagoda", "their_bytes", 1e6),
        number("MB, ours", "our_bytes", 1e6),
        ratio("Ours / theirs", "our_bytes", "their_bytes", 3),
        number("MB, ours fused", "our_fused_bytes", 1e6),
        ratio("FLOP/byte, Pagoda", "their_flop", "their_bytes"),
        ratio("FLOP/byte, ours", "our_flop", "our_bytes"),
        ratio("FLOP/byte, ours fused", "our_flop", "our_fused_bytes"),
    )
    rows = counts.iter_rows(named=True)
    return tabulate("Pagoda's analytical table, and ours", columns, rows)


def findings(points: pl.DataFrame) -> list[str]:
    """What the comparison comes to, in sentences with figures from the points themselves."""
    n = len(points)
    kept = points.filter(pl.col("remark").is_null())
    times, powers = (
        _errors(points, "estimate_s", "measured_s"),
        _errors(kept, "estimate_w", "measured_w"),
    )
    return [
        f"Time: the estimate is {percent(_middle(times))} off in the median of {n} points and "
        f"{percent(max(times))} at worst. Nothing of it was fitted on them.",
        f"At the published roofs, fused, {_n_above(points, 'tf32')} of {n} points would take "
        f"longer than was measured in TF32, {_n_above(points, 'fp32')} in FP32: these ran in "
        "TF32, or in FP32 nearer to the hardware's limit than the matrix product behind the roof.",
        f"Power: {percent(_middle(powers))} off in the median of {len(kept)} points and "
        f"{percent(max(powers))} at worst, each network with costs fitted on the other four.",
        *_outliers(points),
    ]


def _outliers(points: pl.DataFrame) -> list[str]:
    rows = points.filter(pl.col("remark").is_not_null()).iter_rows(named=True)
    return [
        f"Left out of every fit: {row['network']} at batch {row['batch']}, {row['remark']}; the "
        f"estimate is {quantity(row['estimate_w'], 'W', n_digits=3)} beside the published "
        f"{quantity(row['measured_w'], 'W', n_digits=3)}."
        for row in rows
    ]


def _n_above(points: pl.DataFrame, precision: str) -> int:
    return len(points.filter(pl.col(f"least_{precision}_s") > pl.col("measured_s")))


def _errors(points: pl.DataFrame, estimate: str, measured: str) -> list[float]:
    shares = (points[estimate] / points[measured] - 1).abs().drop_nulls()
    return [float(share) for share in shares]


def _middle(values: Sequence[float]) -> float:
    return float(str(pl.Series(values).median()))
