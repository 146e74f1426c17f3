"""Figures about networks: layers by time and energy, batch sizes, predicted beside measured."""

from __future__ import annotations

import polars as pl

from mansard.analytics.charts.accuracy_chart import accuracy_chart
from mansard.analytics.charts.accuracy_data import Accuracy, accuracy_points, band
from mansard.analytics.charts.batch_data import batch_points
from mansard.analytics.charts.network_charts import (
    MOST_BARS,
    bar_chart,
    batch_chart,
)
from mansard.analytics.charts.parameters import Chosen
from mansard.analytics.data.names import shown
from mansard.analytics.data.quantities import UNKNOWN, percent
from mansard.analytics.report.figures import Figure, dropped_note, make_figure
from mansard.analytics.report.mode_figures import NO_NETWORK
from mansard.analytics.report.mode_labels import mode_labels
from mansard.analytics.report.page_parts import Missing, Table
from mansard.analytics.report.roof_figures import Points
from mansard.analytics.results import Results

MOST_TABLE_ROWS = 400
ONE_BATCH = (
    "Only one batch size of each network was scored: "
    "`mansard bench model.onnx --batch 1 --batch 8` adds another."
)
NO_OBSERVATIONS = (
    "No network was run and timed in a mode that is predicted: `mansard import` takes a table of "
    "measured times, and predictions are calibrated against them."
)


def layer_figure(points: Points, chosen: Chosen, first: str) -> Figure | Missing:
    """The slowest layers of a network by time and by energy."""
    if points.layers.is_empty():
        return Missing(NO_NETWORK)
    names = set(points.layers["network"].to_list())
    shown_first = first if first in names else min(names)
    chart = bar_chart(points.layers, chosen, shown_first)
    top = points.layers.filter(pl.col("rank") <= MOST_BARS)
    own = top.filter((pl.col("network") == shown_first) & pl.col("is_main"))
    note = (
        f"The {MOST_BARS} fused layers of each network that take most time, at its smallest batch."
    )
    return make_figure("layers", chart, _layer_table(own, shown_first), (note,))


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


def accuracy_figure(results: Results, chosen: Chosen) -> Figure | Missing:
    """Predicted beside measured, with the error in words."""
    # Networks that were measured and not scored are predicted from their own measurements:
    # such a prediction would be compared with itself.
    counted = results.dataset.layers["score_id"].unique().to_list()
    scored = results.predictions.filter(pl.col("score_id").is_in(counted))
    found = accuracy_points(results.observations, scored, mode_labels(results))
    if found.frame.is_empty():
        return Missing(NO_OBSERVATIONS)
    panels = [("measured", "predicted", "ms"), ("measured_w", "predicted_w", "W")]
    there = [
        (*panel, band(found.frame, panel[0], panel[1]))
        for panel in panels
        if found.frame[panel[0]].is_not_null().any() and found.frame[panel[1]].is_not_null().any()
    ]
    chart = accuracy_chart(found.frame, there, chosen)
    notes = (*_accuracy_notes(found), *_calibration_notes(results))
    return make_figure("accuracy", chart, _accuracy_table(found.frame), notes)


def _accuracy_notes(found: Accuracy) -> tuple[str, ...]:
    if found.median_error is None or found.worst_error is None:
        return ()
    how = "calibrated" if found.is_calibrated else "not calibrated"
    errors = (
        f"{found.n_matched:,} observations; the predictions, {how}, miss their time by "
        f"{percent(found.median_error)} (median), {percent(found.worst_error)} at most."
    )
    power = found.median_power_error
    watts = () if power is None else (f"They miss the power by {percent(power)} (median).",)
    n_left = found.n_unmatched
    left = dropped_note(n_left, "observations", "nothing is predicted for their mode and network")
    return (errors, *watts, *left)


def _calibration_notes(results: Results) -> tuple[str, ...]:
    """What a calibration by these observations would do; the page is not calibrated by it."""
    found = results.calibration
    if found is None:
        return ()
    steps = [("as modelled", found.before), ("calibrated", found.after)]
    unseen = [
        ("calibrated by the other modes alone", found.unseen_modes),
        ("calibrated by other networks alone", found.unseen_networks),
    ]
    steps += [(what, misfit) for what, misfit in unseen if misfit is not None]
    parts = [f"{percent(misfit.median)} {what}" for what, misfit in steps]
    return (f"Median error of the times: {', '.join(parts)}.",)


def _layer_table(own: pl.DataFrame, network: str) -> Table:
    rows = [
        [
            row["layer"],
            row["mode"],
            row["operator"],
            f"{row['time_ms']:,.4g}",
            f"{row['share']:,.3g}",
            row["bound"] or UNKNOWN,
            _number(row["energy_mj"]),
            row["energy_bound"] or UNKNOWN,
            UNKNOWN if row["intensity"] is None else f"{row['intensity']:,.3g}",
        ]
        for row in own.sort("mode", "rank").head(MOST_TABLE_ROWS).iter_rows(named=True)
    ]
    return Table(
        caption=f"Slowest layers of {shown(network)}",
        columns=(
            *("Layer", "Mode", "Class", "Time, ms", "Share, %", "Bound by", "Energy, mJ"),
            *("Energy mostly for", "FLOP/byte"),
        ),
        rows=rows,
        numeric=frozenset({3, 4, 6, 8}),
    )


def _batch_table(own: pl.DataFrame, network: str) -> Table:
    rows = [
        [
            str(row["batch"]),
            row["mode"],
            shown(row["precision"]),
            f"{row['rate']:,.4g}",
            f"{row['latency']:,.4g}",
            _number(row["energy"]),
            _number(row["power"]),
            row["bound"] or UNKNOWN,
        ]
        for row in own.head(MOST_TABLE_ROWS).iter_rows(named=True)
    ]
    return Table(
        caption=f"Batch sizes of {shown(network)}",
        columns=(
            *("Batch", "Mode", "Precision", "Items per second", "Latency, ms"),
            *("Energy of one item, mJ", "Power, W", "Bound by"),
        ),
        rows=rows,
        numeric=frozenset({0, 3, 4, 5, 6}),
    )


def _accuracy_table(frame: pl.DataFrame) -> Table:
    rows = [
        [
            row["network"],
            row["mode"],
            UNKNOWN if row["batch"] is None else str(row["batch"]),
            shown(row["precision"]),
            row["source"],
            f"{row['measured']:,.4g}",
            f"{row['predicted']:,.4g}",
            f"{row['error']:+.3g}\u00a0%",
            _number(row["measured_w"]),
            _number(row["predicted_w"]),
        ]
        for row in frame.head(MOST_TABLE_ROWS).iter_rows(named=True)
    ]
    return Table(
        caption="Predicted and measured",
        columns=(
            *("Network", "Mode", "Batch", "Precision", "Source", "Measured, ms"),
            *("Predicted, ms", "Error", "Measured, W", "Predicted, W"),
        ),
        rows=rows,
        numeric=frozenset({2, 5, 6, 7, 8, 9}),
    )


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.4g}"
