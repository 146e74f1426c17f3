"""The layers of a score: shares of work and bytes, and work over intensity."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.pages.figures.charting import Chart, colour, log_scale, plot, shape, told
from mansard.analytics.pages.figures.figure import Figure, make_figure, schema_of
from mansard.analytics.pages.figures.tables import Table
from mansard.core.precision import unit_title, work_unit
from mansard.core.records import LayerScore, ModelScore

MOST_BARS = 30  # layers of one network in the chart of shares
MOST_POINTS = 1500  # layers of one network in the scatter plot
MOST_OPERATORS = 6  # with a colour each; the others are one category
OTHERS = "others"
_WIDTH_PX, _BAR_PX, _HEIGHT_PX = 300, 17, 330
SHARES_CAPTION = (
    "The layers with the largest share of the work or of the bytes, in the order in which they "
    "run.",
)
SPREAD_CAPTION = (
    "Each point is a layer: its work for each byte that it moves, and its work in all. Larger "
    "points move more bytes.",
)


def share_figure(number: int, name: str, layers: Sequence[LayerScore], table: Table) -> Figure:
    """Shares of work and of bytes of the heaviest layers of network ``number`` of a page."""
    chart = share_chart(share_frame(layers))
    chart = chart.properties(description=f"Shares of work and bytes of the layers of {name}")
    return make_figure(f"shares-{number}", chart, table, SHARES_CAPTION)


def spread_figure(number: int, name: str, layers: Sequence[LayerScore], table: Table) -> Figure:
    """Work over intensity of the layers of network ``number`` of a page."""
    chart = spread_chart(point_frame(layers))
    chart = chart.properties(description=f"Work over intensity of the layers of {name}")
    return make_figure(f"spread-{number}", chart, table, SPREAD_CAPTION)


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
    """The name of a layer on the page, after its index: names can be empty or doubled."""
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
    return pl.DataFrame(rows, schema=schema_of(text="layer what text operator", number="share"))


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
            "text": f"{(layer.work_flop or 0) / 1e6:,.4g} M{work_unit(layer.precision)}, "
            f"{(layer.traffic_bytes or 0) / 1e6:,.4g} MB, "
            f"{(layer.work_flop or 0) / (layer.traffic_bytes or 1):,.4g} "
            f"{work_unit(layer.precision)}/byte",
            "precision": layer.precision,
        }
        for layer in drawn
    ]
    schema = schema_of(text="layer operator text precision", number="intensity mflop mbytes")
    return pl.DataFrame(rows, schema=schema)


def _common_operators(layers: Sequence[LayerScore]) -> set[str]:
    work: dict[str, int] = {}
    for layer in layers:
        work[layer.op_type] = work.get(layer.op_type, 0) + (layer.work_flop or 0)
    names = sorted(work, key=lambda name: -work[name])
    few = names if len(names) <= MOST_OPERATORS else names[: MOST_OPERATORS - 1]
    return {name for name in few if display_name(name) == name and name != OTHERS}


def share_chart(frame: pl.DataFrame) -> Chart:
    """Two columns of bars, shares of work and of bytes, one row for each layer."""
    layers = list(dict.fromkeys(frame["layer"].to_list()))
    bars = (
        told(plot(frame), layer="layer", operator="operator", what="of", text="share")
        .mark_bar(style="m-share")
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(title="share, %")),
            y=alt.Y("layer:N", sort=layers, axis=alt.Axis(title=None, labelLimit=260)),
            column=alt.Column("what:N", sort=["work", "bytes"], header=alt.Header(title=None)),
        )
    )
    return bars.properties(width=_WIDTH_PX, height=_BAR_PX * max(len(layers), 1))


def spread_chart(frame: pl.DataFrame) -> Chart:
    """Work over intensity, both logarithmic: one point for each layer."""
    operators = in_order(frame["operator"].to_list())
    intensity, work = (unit_title(form, frame["precision"]) for form in ("{}/byte", "M{}"))
    return (
        told(plot(frame), layer="layer", operator="operator", text="counts")
        .mark_point(opacity=0.75)
        .encode(
            x=alt.X(
                "intensity:Q",
                scale=_scale(frame["intensity"]),
                axis=alt.Axis(title=f"Arithmetic intensity, {intensity}", format="~g"),
            ),
            y=alt.Y(
                "mflop:Q", scale=_scale(frame["mflop"]), axis=alt.Axis(title=work, format="~g")
            ),
            size=alt.Size("mbytes:Q", scale=alt.Scale(type="sqrt", range=[20, 700]), legend=None),
            color=colour("operator", operators),
            shape=shape("operator", operators),
        )
        .properties(width=2 * _WIDTH_PX, height=_HEIGHT_PX)
    )


def _scale(values: pl.Series) -> alt.Scale:
    found = values.filter(values > 0).to_list() or [1.0]
    return log_scale(min(found) / 2, max(found) * 2)
