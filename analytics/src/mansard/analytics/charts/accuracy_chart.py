"""Predicted over measured, as time and as power."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.charts.parameters import Chosen, Name, equals_or_all
from mansard.analytics.charts.sweeps import inline, layered, shape_scale, tooltips

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
