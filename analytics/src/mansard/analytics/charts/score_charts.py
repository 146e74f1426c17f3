"""Charts about the layers of a score: functions from frames to Altair charts."""

from __future__ import annotations

import altair as alt
import polars as pl

from mansard.analytics.charts.sweeps import inline, log_scale, shape_scale, tooltips
from mansard.analytics.data.names import in_order

_WIDTH_PX, _BAR_PX, _HEIGHT_PX = 300, 17, 330


def share_chart(frame: pl.DataFrame, description: str) -> alt.FacetChart:
    """Two columns of bars, shares of work and of bytes, one row for each layer."""
    n_layers = max(frame["layer"].n_unique(), 1)
    order = list(dict.fromkeys(frame["layer"].to_list()))
    bars = (
        alt.Chart(inline(frame))
        .mark_bar(style="m-share")
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(title="share, %")),
            y=alt.Y("layer:N", sort=order, axis=alt.Axis(title=None, labelLimit=260)),
            tooltip=tooltips(layer="layer", operator="operator", what="of", text="share"),
        )
        .properties(width=_WIDTH_PX, height=_BAR_PX * n_layers)
    )
    facet = alt.Column("what:N", sort=["work", "bytes"], header=alt.Header(title=None))
    chart: alt.FacetChart = bars.encode(column=facet).properties(description=description)
    return chart


def spread_chart(frame: pl.DataFrame, description: str) -> alt.Chart:
    """Work over intensity, both logarithmic: one point for each layer."""
    operators = in_order(frame["operator"].to_list())
    x_low, x_high = _window(frame["intensity"])
    y_low, y_high = _window(frame["mflop"])
    size = alt.Size("mbytes:Q", scale=alt.Scale(type="sqrt", range=[20, 700]), legend=None)
    chart: alt.Chart = (
        alt.Chart(inline(frame))
        .mark_point(opacity=0.75)
        .encode(
            x=alt.X(
                "intensity:Q",
                scale=log_scale(x_low, x_high),
                axis=alt.Axis(title="Arithmetic intensity, FLOP/byte", format="~g"),
            ),
            y=alt.Y(
                "mflop:Q", scale=log_scale(y_low, y_high), axis=alt.Axis(title="MFLOP", format="~g")
            ),
            size=size,
            color=alt.Color("operator:N", scale=alt.Scale(domain=operators), title=None),
            shape=alt.Shape("operator:N", scale=shape_scale(operators), title=None),
            tooltip=tooltips(layer="layer", operator="operator", text="counts"),
        )
        .properties(width=2 * _WIDTH_PX, height=_HEIGHT_PX, description=description)
    )
    return chart


def _window(values: pl.Series) -> tuple[float, float]:
    found = [value for value in values.to_list() if value > 0] or [1.0]
    return min(found) / 2, max(found) * 2
