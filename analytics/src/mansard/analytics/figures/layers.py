"""The slowest layers of a network by time and by energy."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.figures.charting import inline, layered, tooltips
from mansard.analytics.figures.figure import Figure, Missing, make_figure
from mansard.analytics.figures.modes import NO_NETWORK
from mansard.analytics.figures.network_points import Points
from mansard.analytics.figures.parameters import (
    Chosen,
    Name,
    equals,
    network_title,
    of_network,
)
from mansard.analytics.figures.tables import Table

TIME_BOUNDS = ("compute", "memory", "launch", "power")


ENERGY_BOUNDS = ("work", "traffic", "constant")


MOST_BARS = 14  # layers of one network


_BAR_PX, _BARS_PX, _CURVE_PX = 21, 340, (430, 280)


_OF_PRECISION = "(precision === '' ? datum.is_main : datum.precision === precision)"


_LAYER_WORDS = {
    "layer": "layer",
    "operator": "operator",
    "time_ms": "modelled time, ms",
    "share": "of the network's time, %",
    "energy_mj": "modelled energy, mJ",
    "intensity": "FLOP/byte",
    "bound": "time bound by",
    "energy_bound": "energy mostly for",
}


def bar_chart(layers: pl.DataFrame, chosen: Chosen, first: str) -> alt.HConcatChart:
    """The slowest layers: time on the left, energy on the right, what bounds each at its bar."""
    kinds: list[tuple[str, str, Sequence[str], str]] = [
        ("time_ms", "bound", TIME_BOUNDS, "Time, ms")
    ]
    if layers["energy_mj"].is_not_null().any():
        kinds += [("energy_mj", "energy_bound", ENERGY_BOUNDS, "Energy, mJ")]
    shown = (
        f"{of_network(first)} && {equals('mode')} && {_OF_PRECISION} && datum.rank <= {MOST_BARS}"
    )
    data = inline(layers)
    bars = [
        _bars(data, kind, bound, bounds, with_names=kind == "time_ms")
        .transform_filter(shown)
        .properties(width=_BARS_PX, height=MOST_BARS * _BAR_PX, title=network_title(first, title))
        for kind, bound, bounds, title in kinds
    ]
    names: tuple[Name, ...] = ("mode", "network", "precision")
    chart: alt.HConcatChart = (
        alt.hconcat(*bars, spacing=24)
        .add_params(*[chosen.parameter(name) for name in names])
        .resolve_scale(color="independent")
        .properties(
            description="The layers of a network that take most time: their modelled time in ms "
            "and energy in mJ, coloured by what bounds them"
        )
    )
    return chart


def _bars(
    data: alt.InlineData,
    kind: str,
    bound: str,
    bounds: Sequence[str],
    *,
    with_names: bool,
) -> alt.LayerChart:
    # A bar of no length where nothing is known: its text says so, and the axis keeps an extent.
    known = f"isValid(datum.{kind})"
    base = (
        alt.Chart(data)
        .transform_calculate(
            length=f"{known} ? datum.{kind} : 0", why=f"{known} ? datum.{bound} : 'unknown'"
        )
        .encode(
            y=alt.Y(
                "layer:N",
                sort=alt.EncodingSortField("time_ms", op="max", order="descending"),
                axis=alt.Axis(title=None, labelLimit=190) if with_names else None,
            ),
            x=alt.X("length:Q", axis=alt.Axis(title=None, format=".3~r", tickCount=5)),
        )
    )
    color = alt.Color(
        f"{bound}:N", scale=alt.Scale(domain=list(bounds)), legend=alt.Legend(title=None, offset=4)
    )
    chart: alt.LayerChart = layered(
        [
            base.mark_bar(height={"band": 0.72}).encode(
                color=color, tooltip=tooltips(**_LAYER_WORDS)
            ),
            base.mark_text(style="m-rule-label", align="left", dx=5).encode(text="why:N"),
        ]
    )
    return chart


MOST_TABLE_ROWS = 400


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
        caption=f"Slowest layers of {display_name(network)}",
        columns=(
            *("Layer", "Mode", "Class", "Time, ms", "Share, %", "Bound by", "Energy, mJ"),
            *("Energy mostly for", "FLOP/byte"),
        ),
        rows=rows,
        numeric=frozenset({3, 4, 6, 8}),
    )


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.4g}"
