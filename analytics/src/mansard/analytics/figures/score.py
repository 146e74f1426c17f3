"""The layers of a score: shares of work and bytes, and work over intensity."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.figures.charting import inline, log_scale, shape_scale, tooltips
from mansard.core.records import LayerScore, ModelScore

MOST_BARS = 30  # layers of one network in the chart of shares


MOST_POINTS = 1500  # layers of one network in the scatter plot


OTHERS = "others"


_MOST_OPERATORS = 6  # told apart by colour; what is left is one category


def busy_layers(score: ModelScore) -> list[LayerScore]:
    """The layers whose work and bytes are known and that do or move something."""
    return [
        layer
        for layer in score.layers
        if layer.work_flop is not None
        and layer.traffic_bytes is not None
        and (layer.work_flop or layer.traffic_bytes)
    ]


def layer_name(layer: LayerScore) -> str:
    """How the page calls a layer; names can be empty or doubled, so its index stands before."""
    name = layer.name or layer.op_type
    return display_name(
        f"{layer.index} {layer.scope}/{name}" if layer.scope else f"{layer.index} {name}"
    )


def share_frame(layers: Sequence[LayerScore]) -> pl.DataFrame:
    """Shares of work and of bytes, in percent: two rows for each of the heaviest layers."""
    work = sum(layer.work_flop or 0 for layer in layers) or 1
    moved = sum(layer.traffic_bytes or 0 for layer in layers) or 1
    shares = [((each.work_flop or 0) / work, (each.traffic_bytes or 0) / moved) for each in layers]
    heaviest = sorted(range(len(layers)), key=lambda i: -max(shares[i]))[:MOST_BARS]
    rows = [
        {
            "layer": layer_name(layers[i]),
            "what": what,
            "share": 100 * shares[i][part],
            "text": f"{100 * shares[i][part]:.3g} %",
            "operator": display_name(layers[i].op_type),
        }
        for i in sorted(heaviest)
        for part, what in enumerate(("work", "bytes"))
    ]
    schema = {"layer": pl.String, "what": pl.String, "share": pl.Float64, "text": pl.String}
    return pl.DataFrame(rows, schema={**schema, "operator": pl.String})


def point_frame(layers: Sequence[LayerScore]) -> pl.DataFrame:
    """Intensity, work and bytes of each layer that does something and moves something."""
    drawn = [layer for layer in layers if layer.work_flop and layer.traffic_bytes]
    drawn = sorted(drawn, key=lambda layer: -(layer.work_flop or 0))[:MOST_POINTS]
    common = _common_operators(drawn)
    rows = [
        {
            "layer": layer_name(layer),
            "operator": layer.op_type if layer.op_type in common else OTHERS,
            "intensity": (layer.work_flop or 0) / (layer.traffic_bytes or 1),
            "mflop": (layer.work_flop or 0) / 1e6,
            "mbytes": (layer.traffic_bytes or 0) / 1e6,
            "text": f"{(layer.work_flop or 0) / 1e6:,.4g} MFLOP, "
            f"{(layer.traffic_bytes or 0) / 1e6:,.4g} MB, "
            f"{(layer.work_flop or 0) / (layer.traffic_bytes or 1):,.4g} FLOP/byte",
        }
        for layer in drawn
    ]
    schema = {"layer": pl.String, "operator": pl.String, "intensity": pl.Float64}
    more = {"mflop": pl.Float64, "mbytes": pl.Float64, "text": pl.String}
    return pl.DataFrame(rows, schema={**schema, **more})


def _common_operators(layers: Sequence[LayerScore]) -> set[str]:
    work: dict[str, int] = {}
    for layer in layers:
        work[layer.op_type] = work.get(layer.op_type, 0) + (layer.work_flop or 0)
    names = sorted(work, key=lambda name: -work[name])
    few = names if len(names) <= _MOST_OPERATORS else names[: _MOST_OPERATORS - 1]
    return {name for name in few if display_name(name) == name and name != OTHERS}


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
