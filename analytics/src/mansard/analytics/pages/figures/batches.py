"""Batch sizes of a network: items per second and energy of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import MILLI, UNKNOWN, joules, rate, seconds, watts
from mansard.analytics.models.predict.row_times import NetworkTimes
from mansard.analytics.pages.figures.charting import (
    Chart,
    colour,
    dash,
    following,
    plot,
    shape,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import (
    Drawn,
    Figure,
    Following,
    Missing,
    dropped_note,
    evenly,
    make_figure,
    schema_of,
)
from mansard.analytics.pages.figures.modes import COST_COLUMNS, why_no_network, with_cost_texts
from mansard.analytics.pages.figures.parameters import (
    Chosen,
    Key,
    LiveTable,
    Shown,
    equals,
    equals_or_all,
    heading,
    mode_labels,
)
from mansard.analytics.pages.figures.tables import Column
from mansard.analytics.pages.results import Results
from mansard.core.units import Interval

MOST_ROWS = 1500  # in all, over modes, networks, precisions and batches
_WIDTH_PX, _HEIGHT_PX = 430, 280
CAPTION = ("Larger batches share weight traffic and launches. At best: real rates are lower.",)
ONE_BATCH = (
    "Only one batch size of each network was scored: "
    "`mansard bench model.onnx --batch 1,8` adds another."
)
# Items per second (one batch after the other), mJ of one item; as texts with their intervals
# also the latency of one batch and the power.
# is_priced: the energy of every batch is known.
BATCH_SCHEMA = schema_of(
    text="mode network precision bound reading items time item watts",
    number="rate energy",
    count="batch",
    flag="is_priced",
)
NONE = (
    "{network} has one batch size in {mode}, {precision}: "
    "`mansard bench model.onnx --batch 1,8` adds more."
)
_COLUMNS = (
    *(Column.number("Batch", "batch", "d"), Column.name("Precision", "precision")),
    Column.text("Items per second", "items", is_numeric=True),
    *(Column.text(name, field, is_numeric=True) for name, field in COST_COLUMNS),
    Column.text("Bound by", "bound"),
)


def batch_figure(results: Results, chosen: Chosen, first: str) -> Figure | Missing:
    """Throughput and energy of an item over the batch size."""
    if results.predictions.is_empty():
        return Missing(why_no_network(results))
    modes = [roof.label for roof in results.roofs]
    labels = mode_labels(results)
    drawn = batch_points(results.predictions, labels, modes)
    if drawn.frame.is_empty():
        return Missing(ONE_BATCH)
    names = set(drawn.frame["network"].to_list())
    network = first if first in names else min(names)
    shown = Shown(drawn.frame, {"mode": "equal", "network": "first", "precision": "all"}, network)
    measured = measured_batches(results.measured, labels, drawn.frame)
    columns, listed = _COLUMNS, shown
    if not measured.is_empty():
        columns = (*_COLUMNS, Column.text("Source", "engine"))
        both = pl.concat([drawn.frame.with_columns(engine=pl.lit("predicted")), measured])
        listed = Shown(both.sort(*BATCH_ORDER), shown.by, network)
    table = LiveTable("batches", "Batch sizes of {network} in {mode}", columns, listed)
    chart = batch_chart(drawn.frame, shown.resolve(chosen)[0], measured)
    notes = dropped_note(drawn.n_dropped, "predictions", "their latency is unknown")
    if not measured.is_empty():
        notes = (*notes, "Solid marks were measured, hollow ones are predicted.")
    follows = Following(shown, chosen, "{network}, {mode}: {reading}", NONE)
    return make_figure("batches", chart, table, CAPTION, notes, follows=follows)


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
    batches = (
        predictions.filter((pl.col("phase") == "inference") & pl.col("batch").is_not_null())
        .join(named, on=["device", "mode"])
        .filter(~is_fitted | is_fitted.all().over("network", "precision"))
        .filter(pl.col("batch").n_unique().over("network", "precision") > 1)
    )
    known = batches.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    there = [mode for mode in modes if mode in set(known["label"].to_list())]
    n_each = max(1, len(known) // max(1, len(there)))
    item_j = pl.col("energy_j") / pl.col("batch")
    few = known.filter(pl.col("label").is_in(evenly(there, max(2, MOST_ROWS // n_each))))
    frame = (
        with_cost_texts(few)
        .with_columns(
            mode="label",
            rate=(pl.col("batch") / pl.col("latency_s")).round_sig_figs(4),
            energy=(item_j / MILLI).round_sig_figs(4),
            items=pl.Series([_items(row) for row in few.iter_rows(named=True)], dtype=pl.String),
            bound="time_bound",
            is_priced=pl.col("energy_j").is_not_null().all().over("label", "network", "precision"),
        )
        .select(list(BATCH_SCHEMA))
        .sort(*BATCH_ORDER)
    )
    return Drawn(frame, len(batches) - len(known))


BATCH_ORDER = ("mode", "network", "precision", "batch")


def measured_batches(
    measured: Sequence[NetworkTimes], labels: Mapping[Key, str], drawn: pl.DataFrame
) -> pl.DataFrame:
    """BATCH_SCHEMA and the engine: networks that were run, of the curves of ``drawn``."""
    rows = [
        {
            "mode": labels[row.device, row.mode],
            "network": row.network,
            "precision": row.precision,
            "bound": "measured",
            "reading": "measured",
            "items": rate(
                row.batch / row.time_s,
                None if row.high_s is None else row.batch / row.high_s,
                None if row.low_s is None else row.batch / row.low_s,
            ),
            "time": seconds(row.time_s, row.low_s, row.high_s),
            "item": joules(None if row.energy_j is None else row.energy_j / row.batch),
            "watts": watts(row.power_w),
            "rate": row.batch / row.time_s,
            "energy": None if row.energy_j is None else row.energy_j / row.batch / MILLI,
            "batch": row.batch,
            "is_priced": row.energy_j is not None,
            "engine": row.engine,
        }
        for row in measured
        if row.time_s and row.batch and not row.remark
    ]
    frame = pl.DataFrame(rows, schema={**BATCH_SCHEMA, "engine": pl.String})
    curves = drawn.select("mode", "network", "precision").unique()
    beside = frame.join(curves, on=["mode", "network", "precision"], how="semi")
    rounded = (pl.col("rate", "energy")).round_sig_figs(4)
    return beside.with_columns(rounded).sort(*BATCH_ORDER, "engine")


def _items(row: dict[str, Any]) -> str:
    """Items per second; the shortest time gives the highest rate."""
    columns = ("latency_s", "latency_low_s", "latency_high_s", "interval")
    items = Interval(*(row[name] for name in columns)).inverse(row["batch"])
    return rate(items.value, items.low, items.high, items.kind)


def batch_chart(points: pl.DataFrame, chosen: Chosen, measured: pl.DataFrame) -> Chart:
    """Items per second and energy of an item over the batch size, a line for each precision.

    ``measured``: of ``measured_batches``; its marks are solid, and those of predictions hollow.
    """
    ran = None if measured.is_empty() else measured
    kinds = [("rate", "Items per second")]
    if points["energy"].is_not_null().any():
        kinds.append(("energy", "Energy of one item, mJ"))
    precisions = sorted(set(points["precision"].to_list()))
    curves = [
        _curve(points, kind, precisions, ran).properties(
            width=_WIDTH_PX, height=_HEIGHT_PX, title=heading(title)
        )
        for kind, title in kinds
    ]
    return following(
        alt.hconcat(*curves, spacing=30),
        chosen,
        *("mode", "network", "precision"),
        description="Items per second and energy of one item in mJ over the batch size, for "
        "each precision of the chosen network and mode",
    )


def _curve(
    points: pl.DataFrame, kind: str, precisions: Sequence[str], measured: pl.DataFrame | None
) -> Chart:
    frames = [points] if measured is None else [points, measured]
    batches = sorted({batch for frame in frames for batch in frame["batch"].to_list()})
    ends = [batches[0], batches[-1]]  # in a mode where nothing was run its marks have no extent
    is_known = f"isValid(datum.{kind})"
    # An unknown value is a text on the axis and no mark: so the axis keeps an extent.
    placed = plot(points).transform_calculate(
        height=f"{is_known} ? datum.{kind} : 0", why=f"{is_known} ? '' : '{UNKNOWN}'"
    )
    base = with_tooltip(
        placed,
        network="network",
        mode="mode",
        precision="precision",
        batch="batch",
        items="items per second",
        time="latency",
        item="energy of one item",
        watts="power",
        bound="bound by",
    ).encode(
        x=alt.X(
            "batch:Q",
            scale=alt.Scale(type="log", base=2, nice=False, padding=32, domain=ends),
            axis=alt.Axis(title="Batch", values=batches, format="d"),
        ),
        y=alt.Y(
            "height:Q",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(title=None, format=".3~s" if kind == "rate" else ".3~r", tickCount=5),
        ),
        color=colour("precision", precisions),
    )
    is_line = is_known if kind == "rate" else "datum.is_priced"
    # Of each layer: a filter around them does not reach those that have data of their own.
    drawn = f"{equals('network')} && {equals('mode')} && {equals_or_all('precision')}"
    layers = (
        base.mark_line(strokeWidth=2).encode(
            strokeDash=dash("precision", precisions),
            opacity=alt.condition(is_line, alt.value(0.85), alt.value(0)),
        ),
        base.mark_point(opacity=1, filled=measured is None).encode(
            shape=shape("precision", precisions),
            size=alt.condition(is_known, alt.value(60), alt.value(0)),
        ),
        base.mark_text(style="m-rule-label").encode(text="why:N", y=alt.value(_HEIGHT_PX / 2)),
        *_measured_marks(measured, kind, precisions),
    )
    return alt.layer(*(layer.transform_filter(drawn) for layer in layers))


def _measured_marks(
    measured: pl.DataFrame | None, kind: str, precisions: Sequence[str]
) -> list[Chart]:
    if measured is None:
        return []
    marks = with_tooltip(
        plot(measured.filter(pl.col(kind).is_not_null())),
        network="network",
        mode="mode",
        precision="precision",
        batch="batch",
        engine="engine",
        items="items per second, measured",
        time="latency, measured",
        item="energy of one item, measured",
        watts="power, measured",
    )
    return [
        marks.mark_point(opacity=1, size=90).encode(
            x="batch:Q",
            y=f"{kind}:Q",
            color=colour("precision", precisions),
            shape=shape("precision", precisions),
        )
    ]
