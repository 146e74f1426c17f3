"""Batch sizes of a network: items per second and energy of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.figures.charting import inline, layered, shape_scale, tooltips
from mansard.analytics.figures.figure import (
    MILLI,
    Drawn,
    Figure,
    Missing,
    dropped_note,
    evenly,
    make_figure,
)
from mansard.analytics.figures.layers import MOST_TABLE_ROWS, _number
from mansard.analytics.figures.modes import NO_NETWORK
from mansard.analytics.figures.parameters import (
    Chosen,
    Name,
    equals,
    equals_or_all,
    mode_labels,
    network_title,
    of_network,
)
from mansard.analytics.figures.tables import Table
from mansard.analytics.results import Results

MOST_ROWS = 1500  # in all, over modes, networks, precisions and batches


BATCH_SCHEMA = {
    "mode": pl.String,
    "network": pl.String,
    "precision": pl.String,
    "batch": pl.Int64,
    "rate": pl.Float64,  # items per second, one batch after the other
    "energy": pl.Float64,  # mJ of one item
    "latency": pl.Float64,  # ms of one batch
    "power": pl.Float64,  # W
    "bound": pl.String,
}


def batch_points(
    predictions: pl.DataFrame, labels: Mapping[tuple[str, str], str], modes: Sequence[str]
) -> Drawn:
    """A row for each batch of each network of which several sizes are predicted.

    ``predictions`` has PREDICTION_SCHEMA; only modes whose label is in ``modes`` are kept, an even
    choice of them where there are many. ``n_dropped``: those without a positive latency.
    """
    named = pl.DataFrame(
        [(*key, label) for key, label in labels.items() if label in set(modes)],
        schema={"device": pl.String, "mode": pl.String, "label": pl.String},
        orient="row",
    )
    found = (
        predictions.filter((pl.col("phase") == "inference") & pl.col("batch").is_not_null())
        .join(named, on=["device", "mode"])
        .filter(~_is_fitted() | _is_fitted().all().over("network", "precision"))
        .filter(pl.col("batch").n_unique().over("network", "precision") > 1)
    )
    known = found.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    kept = _kept_modes(known, modes)
    item_j = pl.col("energy_j") / pl.col("batch")
    frame = (
        known.filter(pl.col("label").is_in(kept))
        .with_columns(
            mode="label",
            rate=(pl.col("batch") / pl.col("latency_s")).round_sig_figs(4),
            energy=(item_j / MILLI).round_sig_figs(4),
            latency=(pl.col("latency_s") / MILLI).round_sig_figs(4),
            power=pl.col("power_w").round_sig_figs(4),
            bound="time_bound",
        )
        .select(list(BATCH_SCHEMA))
        .sort("mode", "network", "precision", "batch")
    )
    return Drawn(frame, len(found) - len(known))


def _is_fitted() -> pl.Expr:
    """Whether a prediction is a fit to measurements; one curve holds no two kinds."""
    return pl.col("is_calibrated").fill_null(False)


def _kept_modes(known: pl.DataFrame, modes: Sequence[str]) -> list[str]:
    there = [mode for mode in modes if mode in set(known["label"].to_list())]
    if not there:
        return []
    n_each = max(1, len(known) // len(there))
    return evenly(there, max(2, MOST_ROWS // n_each))


def batch_chart(points: pl.DataFrame, chosen: Chosen, first: str) -> alt.HConcatChart:
    """Items per second and energy of an item over the batch size, a line for each precision."""
    kinds = [("rate", "Items per second")]
    kinds += [("energy", "Energy of one item, mJ")] if points["energy"].is_not_null().any() else []
    precisions = sorted(set(points["precision"].to_list()))
    shown = f"{of_network(first)} && {equals('mode')} && {equals_or_all('precision')}"
    curves = [
        _curve(points, kind, precisions)
        .transform_filter(shown)
        .properties(width=430, height=280, title=network_title(first, title))
        for kind, title in kinds
    ]
    names: tuple[Name, ...] = ("mode", "network", "precision")
    chart: alt.HConcatChart = (
        alt.hconcat(*curves, spacing=30)
        .add_params(*[chosen.parameter(name) for name in names])
        .properties(
            description="Items per second and energy of one item in mJ over the batch size, for "
            "each precision of the chosen network and mode"
        )
    )
    return chart


def _curve(points: pl.DataFrame, kind: str, precisions: Sequence[str]) -> alt.LayerChart:
    batches = sorted(set(points["batch"].to_list()))
    base = alt.Chart(inline(points)).encode(
        x=alt.X(
            "batch:Q",
            scale=alt.Scale(type="log", base=2, nice=False, padding=14),
            axis=alt.Axis(title="Batch", values=batches, format="d"),
        ),
        y=alt.Y(
            f"{kind}:Q",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(title=None, format=".3~s" if kind == "rate" else ".3~r", tickCount=5),
        ),
        color=alt.Color("precision:N", scale=alt.Scale(domain=list(precisions)), title=None),
        tooltip=tooltips(
            network="network",
            mode="mode",
            precision="precision",
            batch="batch",
            rate="items per second",
            latency="latency, ms",
            energy="energy of one item, mJ",
            power="power, W",
            bound="bound by",
        ),
    )
    dash = alt.StrokeDash("precision:N", scale=alt.Scale(domain=list(precisions)), title=None)
    shape = alt.Shape("precision:N", scale=shape_scale(precisions), title=None)
    chart: alt.LayerChart = layered(
        [
            base.mark_line(strokeWidth=2, opacity=0.85).encode(strokeDash=dash),
            base.mark_point(size=60, opacity=1).encode(shape=shape),
        ]
    )
    return chart


ONE_BATCH = (
    "Only one batch size of each network was scored: "
    "`mansard bench model.onnx --batch 1 --batch 8` adds another."
)


def batch_figure(results: Results, chosen: Chosen, first: str) -> Figure | Missing:
    """Throughput and energy of an item over the batch size."""
    modes = [roof.label for roof in results.roofs]
    found = batch_points(results.predictions, mode_labels(results), modes)
    if results.predictions.is_empty():
        return Missing(NO_NETWORK)
    if found.frame.is_empty():
        return Missing(ONE_BATCH)
    names = set(found.frame["network"].to_list())
    shown_first = first if first in names else min(names)
    chart = batch_chart(found.frame, chosen, shown_first)
    own = found.frame.filter(pl.col("network") == shown_first)
    notes = dropped_note(found.n_dropped, "predictions", "their latency is unknown")
    return make_figure("batches", chart, _batch_table(own, shown_first), notes)


def _batch_table(own: pl.DataFrame, network: str) -> Table:
    rows = [
        [
            str(row["batch"]),
            row["mode"],
            display_name(row["precision"]),
            f"{row['rate']:,.4g}",
            f"{row['latency']:,.4g}",
            _number(row["energy"]),
            _number(row["power"]),
            row["bound"] or UNKNOWN,
        ]
        for row in own.head(MOST_TABLE_ROWS).iter_rows(named=True)
    ]
    return Table(
        caption=f"Batch sizes of {display_name(network)}",
        columns=(
            *("Batch", "Mode", "Precision", "Items per second", "Latency, ms"),
            *("Energy of one item, mJ", "Power, W", "Bound by"),
        ),
        rows=rows,
        numeric=frozenset({0, 3, 4, 5, 6}),
    )
