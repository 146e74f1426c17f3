"""Predicted beside measured times and powers of the networks that were run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import UNKNOWN, percent
from mansard.analytics.figures.charting import inline, layered, shape_scale, tooltips
from mansard.analytics.figures.figure import (
    MILLI,
    Figure,
    Missing,
    dropped_note,
    evenly,
    make_figure,
)
from mansard.analytics.figures.layers import MOST_TABLE_ROWS, _number
from mansard.analytics.figures.parameters import Chosen, Name, equals_or_all, mode_labels
from mansard.analytics.figures.tables import Table
from mansard.analytics.results import Results

MOST_POINTS = 1200


WITHIN = 0.2  # the band that is drawn around equality


_KEYS = ["device", "mode", "network", "batch", "precision", "phase"]


ACCURACY_SCHEMA = {
    "mode": pl.String,
    "network": pl.String,
    "precision": pl.String,
    "batch": pl.Int64,
    "source": pl.String,
    "measured": pl.Float64,  # ms of one batch
    "predicted": pl.Float64,
    "error": pl.Float64,  # predicted / measured - 1, %
    "measured_w": pl.Float64,
    "predicted_w": pl.Float64,
}


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Points, and what they say over all observations; errors are shares, None where none is."""

    frame: pl.DataFrame
    n_matched: int
    n_unmatched: int  # observations without a prediction
    median_error: float | None
    worst_error: float | None
    median_power_error: float | None
    is_calibrated: bool


def accuracy_points(
    observations: pl.DataFrame, predictions: pl.DataFrame, labels: Mapping[tuple[str, str], str]
) -> Accuracy:
    """OBSERVATION_SCHEMA beside PREDICTION_SCHEMA, matched by _KEYS."""
    seen = observations.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    wanted = predictions.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite()).select(
        *_KEYS, "is_calibrated", predicted_s="latency_s", predicted_w="power_w"
    )
    both = seen.join(wanted.unique(_KEYS), on=_KEYS, nulls_equal=True)
    error = pl.col("predicted_s") / pl.col("latency_s") - 1
    names = pl.struct("device", "mode").map_elements(
        lambda row: labels.get((row["device"], row["mode"]), row["mode"]), return_dtype=pl.String
    )
    frame = both.select(
        mode=names,
        network="network",
        precision="precision",
        batch="batch",
        source="source",
        measured=(pl.col("latency_s") / MILLI).round_sig_figs(4),
        predicted=(pl.col("predicted_s") / MILLI).round_sig_figs(4),
        error=(100 * error).round_sig_figs(3),
        measured_w=pl.when(pl.col("power_w") > 0).then(pl.col("power_w").round_sig_figs(4)),
        predicted_w=pl.when(pl.col("predicted_w") > 0).then(
            pl.col("predicted_w").round_sig_figs(4)
        ),
    ).sort("mode", "network", "precision", "batch", "measured")
    apart = both.select(error.abs())["predicted_s"]
    watts = frame.filter(pl.col("measured_w").is_not_null() & pl.col("predicted_w").is_not_null())
    power = (watts["predicted_w"] / watts["measured_w"] - 1).abs()
    rows = evenly(range(len(frame)), MOST_POINTS)
    return Accuracy(
        frame=frame[rows] if rows else frame,
        n_matched=len(both),
        n_unmatched=len(observations) - len(both),
        median_error=_float(apart.median()),
        worst_error=_float(apart.max()),
        median_power_error=_float(power.median()),
        is_calibrated=bool(both["is_calibrated"].any()),
    )


def band(frame: pl.DataFrame, measured: str, predicted: str) -> pl.DataFrame:
    """Equality, and a fifth above and below, from the least to the most of either."""
    known = frame.filter(pl.col(measured).is_not_null() & pl.col(predicted).is_not_null())
    values = [*known[measured].to_list(), *known[predicted].to_list()] or [1.0, 10.0]
    ends = (min(values) / 1.3, max(values) * 1.3)
    rows = [{"x": x, "y": x, "low": x * (1 - WITHIN), "high": x * (1 + WITHIN)} for x in ends]
    return pl.DataFrame(rows)


def _float(value: object) -> float | None:
    return None if value is None else float(str(value))


_PLOT_PX = (400, 340)


_WORDS = {
    "network": "network",
    "mode": "mode",
    "batch": "batch",
    "precision": "precision",
    "measured": "measured, ms",
    "predicted": "predicted, ms",
    "error": "error, %",
    "measured_w": "measured, W",
    "predicted_w": "predicted, W",
    "source": "source",
}


def accuracy_chart(
    points: pl.DataFrame, bands: Sequence[tuple[str, str, str, pl.DataFrame]], chosen: Chosen
) -> alt.HConcatChart:
    """Predicted over measured, both logarithmic; the band is a fifth to either side.

    ``bands``: for each panel the columns of measured and predicted, the unit, and its band.
    """
    by = "mode" if points["mode"].n_unique() <= len(points["network"].unique()) else "network"
    names = sorted(set(points[by].to_list()))
    panels = [
        _panel(points, measured, predicted, unit, ground, (by, names))
        for measured, predicted, unit, ground in bands
    ]
    own: tuple[Name, ...] = ("network", "precision")
    chart: alt.HConcatChart = (
        alt.hconcat(*panels, spacing=30)
        .add_params(*[chosen.parameter(name) for name in own])
        .properties(
            description="Predicted over measured for each network, batch and mode; on the dashed "
            "line they are equal, the shaded band is 20 % to either side"
        )
    )
    return chart


def _panel(
    points: pl.DataFrame,
    measured: str,
    predicted: str,
    unit: str,
    ground: pl.DataFrame,
    groups: tuple[str, Sequence[str]],
) -> alt.LayerChart:
    by, names = groups
    known = points.filter(pl.col(measured).is_not_null() & pl.col(predicted).is_not_null())
    low, high = ground["x"][0], ground["x"][-1]
    scale = alt.Scale(type="log", domain=[low, high], nice=False)

    def axis(word: str) -> alt.Axis:
        return alt.Axis(title=f"{word}, {unit}", format=".3~r", tickCount=6, labelOverlap="greedy")

    across = alt.Chart(inline(ground)).encode(x=alt.X("x:Q", scale=scale, axis=axis("Measured")))
    dots = alt.Chart(inline(known)).encode(
        x=alt.X(f"{measured}:Q", scale=scale),
        y=alt.Y(f"{predicted}:Q", scale=scale, axis=axis("Predicted")),
        color=alt.Color(f"{by}:N", scale=alt.Scale(domain=list(names)), title=None),
        shape=alt.Shape(f"{by}:N", scale=shape_scale(names), title=None),
        tooltip=tooltips(**_WORDS),
    )
    shown = f"{equals_or_all('network')} && {equals_or_all('precision')}"
    chart: alt.LayerChart = layered(
        [
            across.mark_area(style="m-roof-area", clip=True).encode(y="low:Q", y2="high:Q"),
            across.mark_line(style="m-diagonal").encode(y="y:Q"),
            dots.mark_point(size=60, opacity=0.85).transform_filter(shown),
        ]
    ).properties(width=_PLOT_PX[0], height=_PLOT_PX[1])
    return chart


NO_OBSERVATIONS = (
    "No network was run and timed in a mode that is predicted: `mansard import` takes a table of "
    "measured times, and predictions are calibrated against them."
)


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


def _accuracy_table(frame: pl.DataFrame) -> Table:
    rows = [
        [
            row["network"],
            row["mode"],
            UNKNOWN if row["batch"] is None else str(row["batch"]),
            display_name(row["precision"]),
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
