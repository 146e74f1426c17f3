"""The layers of a network: time by class, the slowest layers, and what takes their energy.

Of a score alone: shares of work and bytes, and work over intensity.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.pages.figures.charting import (
    Chart,
    bar_names,
    colour,
    following,
    log_scale,
    plot,
    shape,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import (
    Figure,
    Following,
    Missing,
    make_figure,
    schema_of,
)
from mansard.analytics.pages.figures.modes import NO_NETWORK
from mansard.analytics.pages.figures.network_points import BOUNDS, Points, bound_scale
from mansard.analytics.pages.figures.parameters import (
    Chosen,
    How,
    LiveTable,
    Name,
    Shown,
    equals,
    heading,
)
from mansard.analytics.pages.figures.tables import Column
from mansard.core.precision import unit_title, work_unit
from mansard.core.records import LayerScore, ModelScore
from mansard.core.table import Table

MOST_SHARES = 30  # layers of one network in the chart of shares
MOST_POINTS = 1500  # layers of one network in the scatter plot
MOST_OPERATORS = 6  # with a colour each; the others are one category
OTHERS = "others"
_SHARES_PX, _SHARE_PX, _HEIGHT_PX = 300, 17, 330
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
    """The layers with known work and bytes that are not both zero."""
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
    shares = [((row.work_flop or 0) / work, (row.traffic_bytes or 0) / moved) for row in layers]
    heaviest = sorted(range(len(layers)), key=lambda i: -max(shares[i]))[:MOST_SHARES]
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
        with_tooltip(plot(frame), layer="layer", operator="operator", what="of", text="share")
        .mark_bar(style="m-share")
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(title="share, %")),
            y=alt.Y("layer:N", sort=layers, axis=alt.Axis(title=None, labelLimit=260)),
            column=alt.Column("what:N", sort=["work", "bytes"], header=alt.Header(title=None)),
        )
    )
    return bars.properties(width=_SHARES_PX, height=_SHARE_PX * max(len(layers), 1))


def spread_chart(frame: pl.DataFrame) -> Chart:
    """Work over intensity, both logarithmic: one point for each layer."""
    operators = in_order(frame["operator"].to_list())
    intensity, work = (unit_title(form, frame["precision"]) for form in ("{}/byte", "M{}"))
    return (
        with_tooltip(plot(frame), layer="layer", operator="operator", text="counts")
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
        .properties(width=2 * _SHARES_PX, height=_HEIGHT_PX)
    )


def _scale(values: pl.Series) -> alt.Scale:
    above_zero = values.filter(values > 0).to_list() or [1.0]
    return log_scale(min(above_zero) / 2, max(above_zero) * 2)


ENERGY_BOUNDS = ("work", "traffic", "constant")
MOST_BARS = 14  # layers of one network
_BAR_PX, _WIDTH_PX = 19, 220
HEADING = "{network}, batch {batch}, {precision}, {mode}"
_BY: dict[Name, How] = {"mode": "equal", "network": "first", "precision": "main"}
CLASS_CAPTION = (
    "Colour: what limits the time, as in the roofline. Modelled, at best, at the smallest batch.",
)
LAYER_CAPTION = (f"The slowest fused layers, at most {MOST_BARS}, modelled at best.",)
ENERGY_CAPTION = (
    "Modelled energy of the slowest layers, and its largest part: work, traffic or constant power.",
)
NONE = (
    "The layers of {network} in {precision} have no times in {mode}. `mansard bench model.onnx` "
    "scores the network and measures the roofs."
)
EQUAL = (
    "The slowest layers of {network} in {mode} take equal time: at best {time_ms} ms each, "
    "{share} % of the network, limited by {bound}."
)
EQUAL_ENERGY = (
    "The slowest layers of {network} in {mode} take equal energy: at best {energy_mj} mJ each, "
    "mostly for {energy_bound}."
)
_COLUMNS = (
    *(Column.text("Layer", "layer"), Column.text("Class", "operator")),
    Column.number("Time at best, ms", "time_ms"),
    *(Column.number("Share, %", "share"), Column.text("Bound by", "bound")),
)
_ENERGY_COLUMNS = (
    Column.number("Energy at best, mJ", "energy_mj"),
    Column.text("Energy mostly for", "energy_bound"),
)
_CLASS_COLUMNS = (
    *(Column.text("Class", "operator"), Column.text("Bound by", "bound")),
    *(Column.number("Fused layers", "n_layers", "d"), Column.number("Time at best, ms", "time_ms")),
    Column.number("Share, %", "share"),
)


def layer_figures(
    points: Points, chosen: Chosen, first: str, why_empty: str = NO_NETWORK
) -> dict[str, Figure | Missing]:
    """The figures about the layers of a network, by name; of ``first`` where none is chosen.

    ``why_empty``: why there may be no layers. Energy is among them where any is known.
    """
    if points.layers.is_empty():
        return {"classes": Missing(why_empty), "layers": Missing(why_empty)}
    names = set(points.layers["network"].to_list())
    network = first if first in names else min(names)
    slowest = Shown(points.layers, _BY, network, {"rank": MOST_BARS})
    every = Shown(points.layers, _BY, network)
    shown_choice = slowest.resolve(chosen)[0]
    has_energy = bool(points.layers["energy_mj"].is_not_null().any())
    precisions = points.layers["precision"].to_list()
    columns = (
        *_COLUMNS,
        *(Column.number(unit_title("M{}", precisions), "mflop"), Column.number("MB", "mbytes")),
        Column.number(unit_title("{}/byte", precisions), "intensity"),
        *(_ENERGY_COLUMNS if has_energy else ()),
    )
    caption = f"Layers of {HEADING}: the slowest of {{n_layers}} fused layers"
    table = LiveTable("layers", caption, columns, every, order="rank")
    follows = Following(slowest, chosen, HEADING, NONE, ("time_ms", EQUAL))
    figures: dict[str, Figure | Missing] = {
        "classes": class_figure(points.classes, chosen, network),
        "layers": make_figure(
            "layers", bar_chart(points.layers, shown_choice), table, LAYER_CAPTION, follows=follows
        ),
    }
    if has_energy:
        chart = bar_chart(points.layers, shown_choice, "energy")
        few = LiveTable("layer-energy", f"Energy of {HEADING}", columns, slowest, order="rank")
        figures["layer_energy"] = make_figure(
            "layer-energy",
            chart,
            few,
            ENERGY_CAPTION,
            follows=Following(slowest, chosen, HEADING, NONE, ("energy_mj", EQUAL_ENERGY)),
        )
    return figures


def class_figure(classes: pl.DataFrame, chosen: Chosen, network: str) -> Figure:
    """Time by class of layers, each cut by what binds it."""
    shown = Shown(classes, _BY, network)
    table = LiveTable("layer-classes", f"Classes of layers of {HEADING}", _CLASS_COLUMNS, shown)
    chart = class_chart(classes, shown.resolve(chosen)[0])
    follows = Following(shown, chosen, HEADING, NONE)
    return make_figure("layer-classes", chart, table, CLASS_CAPTION, follows=follows)


def _longest_first(field: str) -> alt.EncodingSortField:
    return alt.EncodingSortField(field, op="max", order="descending")


def class_chart(classes: pl.DataFrame, chosen: Chosen) -> Chart:
    """A bar for each class, the longest first; its words say how much of the time it takes."""
    data = plot(classes).transform_filter(_own("network", "mode", "precision"))
    base = with_tooltip(
        data,
        operator="class",
        bound="bound by",
        n_layers="layers",
        time_ms="time at best, ms",
        share="of the network's time, %",
    ).encode(y=bar_names("operator", _longest_first("class_ms")))
    bars = base.mark_bar(height={"band": 0.74}).encode(
        x=alt.X("time_ms:Q", axis=_axis("Time at best, ms")),
        color=alt.Color("bound:N", scale=bound_scale(), legend=None),
        order=alt.Order("share:Q", sort="descending"),
    )
    words = f"{_share('class_share')} + datum.said"
    return following(
        alt.layer(bars, _words(base.transform_filter("datum.is_first"), words)),
        chosen,
        *("mode", "network", "precision"),
        width=_WIDTH_PX,
        height=alt.Step(_BAR_PX),
        title=_title("Time by class"),
        description="Modelled time of the layers of a network by their class, coloured by what "
        "bounds them",
    )


def bar_chart(layers: pl.DataFrame, chosen: Chosen, kind: str = "time") -> Chart:
    """The slowest layers: their time, or their energy, and what bounds each beside its bar."""
    field, bound, bounds, named = {
        "time": ("time_ms", "bound", BOUNDS, "Time at best, ms"),
        "energy": ("energy_mj", "energy_bound", ENERGY_BOUNDS, "Energy at best, mJ"),
    }[kind]
    # An unknown value is a bar of no length with a text: so the axis keeps an extent.
    known = f"isValid(datum.{field})"
    base = with_tooltip(
        plot(layers)
        .transform_filter(f"{_own('network', 'mode', 'precision')} && datum.rank <= {MOST_BARS}")
        .transform_calculate(length=f"{known} ? datum.{field} : 0"),
        layer="layer",
        operator="class",
        time_ms="time at best, ms",
        share="of the network's time, %",
        energy_mj="energy at best, mJ",
        intensity=unit_title("{}/byte", layers["precision"]),
        bound="time bound by",
        energy_bound="energy mostly for",
    ).encode(y=bar_names("layer", _longest_first("time_ms")))
    bars = base.mark_bar(height={"band": 0.74}).encode(
        x=alt.X("length:Q", axis=_axis(named)),
        color=alt.Color(f"{bound}:N", scale=alt.Scale(domain=list(bounds)), legend=None),
    )
    share = f"{_share('share')} + " if kind == "time" else ""
    words = f"{known} ? {share}datum.{bound} : '{UNKNOWN}'"
    return following(
        alt.layer(bars, _words(base, words)),
        chosen,
        *("mode", "network", "precision"),
        width=_WIDTH_PX,
        height=alt.Step(_BAR_PX),
        title=_title("Slowest fused layers" if kind == "time" else "Their energy"),
        description=f"The layers of a network that take most time: their modelled {kind}, "
        "coloured by what bounds it",
    )


def _own(*names: Name) -> str:
    return " && ".join(equals(name) for name in names)


def _axis(title: str) -> alt.Axis:
    return alt.Axis(title=title, format=".3~r", tickCount=4)


def _share(name: str) -> str:
    """A share in percent, for Vega."""
    return f"(datum.{name} < 0.1 ? '< 0.1' : format(datum.{name}, '.2r')) + ' %, '"


def _words(base: Chart, words: str) -> Chart:
    """A column of words right of the bars, where they cover nothing."""
    return base.mark_text(
        style="m-network-label", align="left", baseline="middle", x=alt.ExprRef("width + 8")
    ).encode(text=alt.value(alt.ExprRef(words)))


def _title(text: str) -> alt.TitleParams:
    title = heading(text)
    title.offset = 16
    return title
