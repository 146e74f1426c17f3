"""Predicted beside measured times and powers of the networks that were run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import MILLI, counted, percent
from mansard.analytics.data.statistics import pool_repeats
from mansard.analytics.models.scaling.observations import PROGRAM
from mansard.analytics.pages.figures.charting import (
    Chart,
    colour,
    following,
    plot,
    shape,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import (
    Figure,
    Following,
    Missing,
    dropped_note,
    evenly,
    make_figure,
)
from mansard.analytics.pages.figures.parameters import (
    Chosen,
    Key,
    LiveTable,
    Name,
    Shown,
    equals_or_all,
    mode_labels,
)
from mansard.analytics.pages.figures.tables import Column
from mansard.analytics.pages.results import Results

MOST_POINTS = 1200
WITHIN = 0.2  # the band that is drawn around equality
_PLOT_PX = (400, 340)
_KEYS = ["device", "mode", "network", "batch", "precision", "phase"]
FOLLOWED: tuple[Name, ...] = ("device", "network", "precision")
CAPTION = ("Dashed: predicted equals measured. Band: ± 20 %. The tooltip has the source.",)
NONE = (
    "No measured time of {network} in {precision} on {device}: `mansard measure` runs it, "
    "`mansard data import` reads a table."
)
NO_OBSERVATIONS = (
    "No network ran in a predicted mode: `mansard measure` runs networks, `mansard data import` "
    "reads a table of times. Predictions can then be calibrated."
)
NONE_COUNTS = (
    "No measured time can be compared with a prediction; the table of all runs has the reasons."
)
NONE_PREDICTED = (
    "The networks that ran have no predictions: `mansard bench` measures the roofs that they need."
)
_COLUMNS = (
    *(Column.text("Network", "network"), Column.text("Mode", "mode")),
    *(Column.number("Batch", "batch", "d"), Column.name("Precision", "precision")),
    *(Column.text("Engine", "engine"), Column.text("Source", "source")),
    Column.number("Measured, ms", "measured"),
    Column.number("Predicted, ms", "predicted"),
    Column.number("Error, %", "error", "+.3g"),
    *(Column.number("Measured, W", "measured_w"), Column.number("Predicted, W", "predicted_w")),
)


@dataclass(frozen=True, eq=False)
class AccuracyPoints:
    """Points, and the errors of all observations as shares; None without observations.

    ``frame``: times in ms of one batch, ``error`` in percent: predicted / measured - 1.
    """

    frame: pl.DataFrame
    n_matched: int
    n_unmatched: int  # observations without a prediction
    median_error: float | None
    worst_error: float | None
    median_power_error: float | None
    is_calibrated: bool


def accuracy_figure(results: Results, chosen: Chosen) -> Figure | Missing:
    """Predicted beside measured, with the error in words."""
    # Networks that were measured and not scored are predicted from their own measurements:
    # such a prediction would be compared with itself.
    is_scored = pl.col("score_id").is_in(results.dataset.layers["score_id"].unique().to_list())
    scored = results.predictions.filter(is_scored)
    points = accuracy_points(results.observations, scored, mode_labels(results))
    if points.frame.is_empty():
        if not results.measured:
            return Missing(NO_OBSERVATIONS)
        counts = any(row.time_s is not None and not row.remark for row in results.measured)
        return Missing(NONE_PREDICTED if counts else NONE_COUNTS)
    panels = [("measured", "predicted", "ms"), ("measured_w", "predicted_w", "W")]
    there = [
        (*panel, band(points.frame, panel[0], panel[1]))
        for panel in panels
        if points.frame[panel[0]].is_not_null().any() and points.frame[panel[1]].is_not_null().any()
    ]
    shown = Shown(points.frame, dict.fromkeys(FOLLOWED, "all"))
    chart = accuracy_chart(points.frame, there, chosen)
    table = LiveTable("accuracy", "Predicted and measured: {network}", _COLUMNS, shown)
    follows = Following(shown, chosen, "", NONE)
    return make_figure("accuracy", chart, table, CAPTION, _accuracy_notes(points), follows=follows)


def accuracy_points(
    observations: pl.DataFrame, predictions: pl.DataFrame, labels: Mapping[Key, str]
) -> AccuracyPoints:
    """OBSERVATION_SCHEMA beside PREDICTION_SCHEMA, matched by _KEYS; repeats are one point.

    Programs are left out: nothing but their own times predicts them.
    """
    observations = observations.filter(pl.col("engine").ne_missing(PROGRAM))
    is_timed = (pl.col("latency_s") > 0) & pl.col("latency_s").is_finite()
    observations = pool_repeats(observations, [*_KEYS, "source", "engine"])
    wanted = predictions.filter(is_timed).select(
        *_KEYS, "is_calibrated", predicted_s="latency_s", predicted_w="power_w"
    )
    both = observations.filter(is_timed).join(wanted.unique(_KEYS), on=_KEYS, nulls_equal=True)
    error = pl.col("predicted_s") / pl.col("latency_s") - 1
    label = pl.struct("device", "mode").map_elements(
        lambda row: labels.get((row["device"], row["mode"]), row["mode"]), return_dtype=pl.String
    )
    frame = both.select(
        *("device", "network", "precision", "batch", "source"),
        engine=pl.col("engine").fill_null("not told"),
        mode=label,
        measured=(pl.col("latency_s") / MILLI).round_sig_figs(4),
        predicted=(pl.col("predicted_s") / MILLI).round_sig_figs(4),
        error=(100 * error).round_sig_figs(3),
        measured_w=pl.when(pl.col("power_w") > 0).then(pl.col("power_w").round_sig_figs(4)),
        predicted_w=pl.when(pl.col("predicted_w") > 0).then(
            pl.col("predicted_w").round_sig_figs(4)
        ),
    ).sort("mode", "network", "precision", "batch", "measured")
    errors = both.select(error.abs())["predicted_s"]
    power = (frame["predicted_w"] / frame["measured_w"] - 1).abs()
    rows = evenly(range(len(frame)), MOST_POINTS)
    return AccuracyPoints(
        frame=frame[rows] if rows else frame,
        n_matched=len(both),
        n_unmatched=len(observations) - len(both),
        median_error=_float(errors.median()),
        worst_error=_float(errors.max()),
        median_power_error=_float(power.median()),
        is_calibrated=bool(both["is_calibrated"].any()),
    )


def band(frame: pl.DataFrame, measured: str, predicted: str) -> pl.DataFrame:
    """The line of equality and those 20 % above and below it, over the range of both columns."""
    known = frame.drop_nulls([measured, predicted])
    values = [*known[measured].to_list(), *known[predicted].to_list()] or [1.0, 10.0]
    ends = (min(values) / 1.3, max(values) * 1.3)
    rows = [{"x": x, "y": x, "low": x * (1 - WITHIN), "high": x * (1 + WITHIN)} for x in ends]
    return pl.DataFrame(rows)


def accuracy_chart(
    points: pl.DataFrame, bands: Sequence[tuple[str, str, str, pl.DataFrame]], chosen: Chosen
) -> Chart:
    """Predicted over measured, both logarithmic.

    ``bands``: for each panel the columns of measured and predicted, the unit, and its band.
    """
    by = "mode" if points["mode"].n_unique() <= points["network"].n_unique() else "network"
    names = sorted(set(points[by].to_list()))
    return following(
        alt.hconcat(*[_panel(points, quantity, by, names) for quantity in bands], spacing=30),
        chosen,
        *FOLLOWED,
        description="Predicted over measured for each network, batch and mode; on the dashed "
        "line they are equal, the shaded band is 20 % to either side",
    )


def _panel(
    points: pl.DataFrame,
    within: tuple[str, str, str, pl.DataFrame],
    by: str,
    names: Sequence[str],
) -> Chart:
    measured, predicted, unit, ground = within
    scale = alt.Scale(type="log", domain=[ground["x"][0], ground["x"][-1]], nice=False)

    def axis(word: str) -> alt.Axis:
        return alt.Axis(title=f"{word}, {unit}", format=".3~r", tickCount=6, labelOverlap="greedy")

    across = plot(ground).encode(x=alt.X("x:Q", scale=scale, axis=axis("Measured")))
    known = points.drop_nulls([measured, predicted])
    dots = with_tooltip(
        plot(known),
        network="network",
        mode="mode",
        batch="batch",
        precision="precision",
        measured="measured, ms",
        predicted="predicted, ms",
        error="error, %",
        measured_w="measured, W",
        predicted_w="predicted, W",
        engine="engine",
        source="source of the measured",
    ).encode(
        x=alt.X(f"{measured}:Q", scale=scale),
        y=alt.Y(f"{predicted}:Q", scale=scale, axis=axis("Predicted")),
        color=colour(by, names),
        shape=shape(by, names),
    )
    chosen = " && ".join(equals_or_all(name) for name in FOLLOWED)
    return alt.layer(
        across.mark_area(style="m-roof-area", clip=True).encode(y="low:Q", y2="high:Q"),
        across.mark_line(style="m-diagonal").encode(y="y:Q").properties(name=f"ground-{unit}"),
        dots.mark_point(size=60, opacity=0.85).transform_filter(chosen),
    ).properties(width=_PLOT_PX[0], height=_PLOT_PX[1])


def _accuracy_notes(points: AccuracyPoints) -> tuple[str, ...]:
    if points.median_error is None:
        return ()
    how = "calibrated" if points.is_calibrated else "not calibrated"
    errors = (
        f"{counted(points.n_matched, 'observation')}; the predictions, {how}, miss their time by "
        f"{percent(points.median_error)} (median), {percent(points.worst_error)} at most."
    )
    power = points.median_power_error
    watts = () if power is None else (f"They miss the power by {percent(power)} (median).",)
    why = "nothing is predicted for their mode and network"
    return (errors, *watts, *dropped_note(points.n_unmatched, "observations", why))


def _float(value: object) -> float | None:
    return None if value is None else float(str(value))
