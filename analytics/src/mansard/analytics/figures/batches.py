"""Batch sizes of a network: items per second and energy of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.figures.charting import (
    Chart,
    colour,
    dash,
    following,
    plot,
    shape,
    tooltips,
)
from mansard.analytics.figures.figure import (
    MILLI,
    Drawn,
    Figure,
    Missing,
    dropped_note,
    evenly,
    make_figure,
    schema_of,
)
from mansard.analytics.figures.modes import NO_NETWORK
from mansard.analytics.figures.parameters import (
    Chosen,
    Key,
    equals,
    equals_or_all,
    mode_labels,
    network_title,
    of_network,
)
from mansard.analytics.figures.tables import Column, tabulate
from mansard.analytics.results import Results

MOST_ROWS = 1500  # in all, over modes, networks, precisions and batches
_WIDTH_PX, _HEIGHT_PX = 430, 280
CAPTION = ("The items of a larger batch share the traffic of the weights and the launches.",)
ONE_BATCH = (
    "Only one batch size of each network was scored: "
    "`mansard bench model.onnx --batch 1 --batch 8` adds another."
)
# Items per second (one batch after the other), mJ of one item, ms of one batch, W.
BATCH_SCHEMA = schema_of(
    text="mode network precision bound", number="rate energy latency power", count="batch"
)
_COLUMNS = (
    *(Column.number("Batch", "batch", "d"), Column.text("Mode", "mode")),
    *(Column.name("Precision", "precision"), Column.number("Items per second", "rate")),
    *(Column.number("Latency, ms", "latency"), Column.number("Energy of one item, mJ", "energy")),
    *(Column.number("Power, W", "power"), Column.text("Bound by", "bound")),
)


def batch_figure(results: Results, chosen: Chosen, first: str) -> Figure | Missing:
    """Throughput and energy of an item over the batch size."""
    if results.predictions.is_empty():
        return Missing(NO_NETWORK)
    modes = [roof.label for roof in results.roofs]
    found = batch_points(results.predictions, mode_labels(results), modes)
    if found.frame.is_empty():
        return Missing(ONE_BATCH)
    names = set(found.frame["network"].to_list())
    network = first if first in names else min(names)
    own = found.frame.filter(pl.col("network") == network)
    table = tabulate(f"Batch sizes of {display_name(network)}", _COLUMNS, own.iter_rows(named=True))
    chart = batch_chart(found.frame, chosen, network)
    notes = dropped_note(found.n_dropped, "predictions", "their latency is unknown")
    return make_figure("batches", chart, table, CAPTION, notes)


def batch_points(
    predictions: pl.DataFrame, labels: Mapping[Key, str], modes: Sequence[str]
) -> Drawn:
    """A row for each batch of each network of which several sizes are predicted.

    ``predictions`` has PREDICTION_SCHEMA; only modes whose label is in ``modes`` are kept, an even
    choice of them where there are many. ``n_dropped``: those without a positive latency.
    """
    named = pl.DataFrame(
        [(*key, label) for key, label in labels.items() if label in set(modes)],
        schema=schema_of(text="device mode label"),
        orient="row",
    )
    # One curve holds no two kinds of predictions: some are fitted to measurements.
    is_fitted = pl.col("is_calibrated").fill_null(value=False)
    found = (
        predictions.filter((pl.col("phase") == "inference") & pl.col("batch").is_not_null())
        .join(named, on=["device", "mode"])
        .filter(~is_fitted | is_fitted.all().over("network", "precision"))
        .filter(pl.col("batch").n_unique().over("network", "precision") > 1)
    )
    known = found.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    there = [mode for mode in modes if mode in set(known["label"].to_list())]
    n_each = max(1, len(known) // max(1, len(there)))
    item_j = pl.col("energy_j") / pl.col("batch")
    frame = (
        known.filter(pl.col("label").is_in(evenly(there, max(2, MOST_ROWS // n_each))))
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


def batch_chart(points: pl.DataFrame, chosen: Chosen, first: str) -> Chart:
    """Items per second and energy of an item over the batch size, a line for each precision."""
    kinds = [("rate", "Items per second")]
    if points["energy"].is_not_null().any():
        kinds.append(("energy", "Energy of one item, mJ"))
    precisions = sorted(set(points["precision"].to_list()))
    drawn = f"{of_network(first)} && {equals('mode')} && {equals_or_all('precision')}"
    curves = [
        _curve(points, kind, precisions)
        .transform_filter(drawn)
        .properties(width=_WIDTH_PX, height=_HEIGHT_PX, title=network_title(first, title))
        for kind, title in kinds
    ]
    return following(
        alt.hconcat(*curves, spacing=30),
        chosen,
        *("mode", "network", "precision"),
        description="Items per second and energy of one item in mJ over the batch size, for "
        "each precision of the chosen network and mode",
    )


def _curve(points: pl.DataFrame, kind: str, precisions: Sequence[str]) -> Chart:
    batches = sorted(set(points["batch"].to_list()))
    base = plot(points).encode(
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
        color=colour("precision", precisions),
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
    return alt.layer(
        base.mark_line(strokeWidth=2, opacity=0.85).encode(
            strokeDash=dash("precision", precisions)
        ),
        base.mark_point(size=60, opacity=1).encode(shape=shape("precision", precisions)),
    )
