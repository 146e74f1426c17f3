"""The report's charts: functions from frames to Altair charts that compute nothing.

Marks name styles of ``theme`` instead of colours, so that one specification serves
light and dark. All charts follow the parameter ``mode``, which the page sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import altair as alt
import polars as pl

from mansard.analytics.charts.parameters import Chosen, equals
from mansard.analytics.charts.roof_geometry import WIDTH_PX
from mansard.analytics.charts.theme import SHAPES

HEIGHT_PX = 330
LINE_PX = 15  # of text
CALM = "!datum.is_disturbed"
CROSS = "M-1,-1L1,1M1,-1L-1,1"
SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~g') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + ' MiB'"
    " : format(datum.value / 1024, '~g') + ' KiB'"
)


def staircase_chart(
    points: pl.DataFrame,
    caches: pl.DataFrame,
    steps: pl.DataFrame,
    chosen: Chosen,
    kernels: Sequence[str],
    window: tuple[float, float, float, float],
) -> alt.LayerChart:
    """Bandwidth over working set, both logarithmic; one line per kernel."""
    x_low, x_high, y_low, y_high = window
    x_scale = log_scale(x_low, x_high, base=2)
    y = alt.Y("rate:Q", scale=log_scale(y_low, y_high), axis=rate_axis("GB/s"))
    kernels = list(kernels)
    base = alt.Chart(inline(points)).encode(
        x=alt.X("working_set_bytes:Q", scale=x_scale, axis=size_axis(x_low, x_high)),
        y=y,
        color=alt.Color("kernel:N", scale=alt.Scale(domain=kernels), title=None),
        tooltip=tooltips(kernel="kernel", size="working set", interval="bandwidth", trial="trial"),
    )
    calm = base.transform_filter(CALM)
    layers = [
        *_level_marks(steps, caches, x_scale, y),
        calm.mark_line(strokeWidth=2, opacity=0.85).encode(
            strokeDash=alt.StrokeDash("kernel:N", scale=alt.Scale(domain=kernels), title=None)
        ),
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        crosses(base),
        calm.mark_point(size=46, opacity=1).encode(
            shape=alt.Shape("kernel:N", scale=shape_scale(kernels), title=None),
        ),
    ]
    return sweep(
        layers,
        chosen,
        "Bandwidth in GB/s of each stream kernel over the working set, with the caches' capacities",
    )


def _level_marks(
    steps: pl.DataFrame, caches: pl.DataFrame, x_scale: alt.Scale, y: alt.Y
) -> list[alt.Chart]:
    return [
        alt.Chart(inline(steps))
        .mark_rule(style="m-ceiling", strokeCap="butt")
        .encode(x=alt.X("from_bytes:Q", scale=x_scale), x2="to_bytes:Q", y=y, tooltip="text:N"),
        alt.Chart(inline(caches))
        .mark_rule(style="m-cache")
        .encode(x=alt.X("capacity_bytes:Q", scale=x_scale)),
        *cache_labels(caches, x_scale),
    ]


def cache_labels(caches: pl.DataFrame, x_scale: alt.Scale) -> list[alt.Chart]:
    """The names of the cache levels at the top, each a line lower: capacities can be close."""
    return [
        alt.Chart(inline(caches.filter(pl.col("row") == row)))
        .mark_text(style="m-rule-label", align="left", dx=5, baseline="top", y=2 + LINE_PX * row)
        .encode(x=alt.X("capacity_bytes:Q", scale=x_scale), text="text:N")
        for row in sorted(set(caches["row"].to_list()))
    ]


def chain_chart(
    points: pl.DataFrame,
    peaks: pl.DataFrame,
    chosen: Chosen,
    precisions: Sequence[str],
    highest: float,
) -> alt.LayerChart:
    """FLOP/s over FMA per element: a roof one can trust is flat at its right end."""
    x = alt.X(
        "fma_per_element:Q",
        scale=log_scale(0.9, 1150, base=2),
        axis=alt.Axis(
            title="FMA per element", values=[4**power for power in range(6)], format="~g"
        ),
    )
    y = alt.Y("rate:Q", scale=alt.Scale(domain=[0, highest]), axis=rate_axis("GFLOP/s"))
    base = alt.Chart(inline(points)).encode(
        x=x,
        y=y,
        color=alt.Color("precision:N", scale=alt.Scale(domain=list(precisions)), title=None),
        tooltip=tooltips(
            precision="precision",
            fma_per_element="FMA per element",
            interval="rate",
            trial="trial",
        ),
    )
    peak = alt.Chart(inline(peaks)).encode(y=y)
    calm = base.transform_filter(CALM)
    layers = [
        peak.mark_rule(style="m-peak"),
        peak.mark_text(style="m-rule-label", align="left", x=6, dy=-9).encode(text="text:N"),
        calm.mark_line(strokeWidth=2, opacity=0.85),
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        crosses(base),
        calm.mark_point(size=56, opacity=1).encode(
            shape=alt.Shape("precision:N", scale=shape_scale(precisions), title=None)
        ),
    ]
    return sweep(layers, chosen, "GFLOP/s of the FMA chains over the FMA done on each element")


def crosses(base: alt.Chart) -> alt.Chart:
    """Trials that something disturbed: they are seen, and no line leads through them."""
    crosses: alt.Chart = base.transform_filter(f"!({CALM})").mark_point(
        shape=CROSS, size=60, filled=False, strokeWidth=2, opacity=1
    )
    return crosses


def tooltips(**titles: str) -> list[alt.Tooltip]:
    """Fields to show as they are, each under its title; numbers are rounded beforehand."""
    return [alt.Tooltip(field, type="nominal", title=title) for field, title in titles.items()]


def log_scale(low: float, high: float, base: int = 10) -> alt.Scale:
    """A logarithmic scale that ends exactly where it is told to."""
    return alt.Scale(type="log", base=base, domain=[low, high], nice=False, clamp=False)


def size_axis(low: float, high: float) -> alt.Axis:
    """An axis of working sets between ``low`` and ``high`` bytes, in binary units."""
    ticks = [1024.0 * 4**power for power in range(18) if low <= 1024.0 * 4**power <= high]
    return alt.Axis(title="Working set in all", labelExpr=SIZE_LABEL, values=ticks)


def rate_axis(title: str) -> alt.Axis:
    """An axis of rates, without SI prefixes: 0.1 must not read 100m."""
    return alt.Axis(title=title, format=".12~g", tickCount=6)


def shape_scale(domain: Sequence[str]) -> alt.Scale:
    """A shape for each category, beside its colour."""
    return alt.Scale(domain=list(domain), range=list(SHAPES))


class Rows(alt.InlineData):
    """Rows that never change: Altair copies a chart at every step, and these with it."""

    _class_is_valid_at_instantiation = False

    def __deepcopy__(self, _memo: object) -> Rows:
        return self


def inline(frame: pl.DataFrame) -> alt.InlineData:
    """A frame as part of the specification."""
    return Rows(values=frame.to_dicts())


def sweep(layers: Sequence[alt.Chart], chosen: Chosen, description: str) -> alt.LayerChart:
    """``layers`` of the chosen mode, as one chart of the usual size."""
    in_mode = [layer.transform_filter(equals("mode")) for layer in layers]
    chart = layered(in_mode).add_params(chosen.parameter("mode"))
    return cast(
        "alt.LayerChart",
        chart.properties(width=WIDTH_PX, height=HEIGHT_PX, description=description),
    )


def layered(charts: Sequence[alt.Chart]) -> Any:
    """``charts`` over each other. Altair's versions differ in what they say layer returns."""
    return alt.layer(*charts)
