"""The slowest layers of a network by time and by energy."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.figures.charting import Chart, following, plot, told
from mansard.analytics.figures.figure import Figure, Following, Missing, make_figure
from mansard.analytics.figures.modes import NO_NETWORK
from mansard.analytics.figures.network_points import BOUNDS, Points
from mansard.analytics.figures.parameters import Chosen, Name, equals
from mansard.analytics.figures.selection import How, LiveTable, Shown, heading
from mansard.analytics.figures.tables import Column

ENERGY_BOUNDS = ("work", "traffic", "constant")
MOST_BARS = 14  # layers of one network
_BAR_PX, _WIDTH_PX = 21, 340
HEADING = "{network}, batch {batch}, {precision}, {mode}"
CAPTION = (
    "What takes the time and what takes the energy of one network; choose it above. Its layers "
    "are in the rooflines as well. Times and energies are modelled: the best that the roofs allow.",
)
NONE = (
    "The layers of {network} in {precision} have no times in {mode}: it takes the network's ONNX "
    "file and the roofs of the mode. `mansard bench model.onnx` gives both."
)
NOTE = f"The {MOST_BARS} fused layers of each network that take most time, at its smallest batch."
_COLUMNS = (
    *(Column.text("Layer", "layer"), Column.text("Class", "operator")),
    Column.number("Time at best, ms", "time_ms"),
    *(Column.number("Share, %", "share", ",.3g"), Column.text("Bound by", "bound")),
    *(
        Column.number("Energy at best, mJ", "energy_mj"),
        Column.text("Energy mostly for", "energy_bound"),
    ),
    Column.number("FLOP/byte", "intensity", ",.3g"),
)


def layer_figure(points: Points, chosen: Chosen, first: str) -> Figure | Missing:
    """The slowest layers of a network; of ``first`` where none is chosen."""
    if points.layers.is_empty():
        return Missing(NO_NETWORK)
    names = set(points.layers["network"].to_list())
    network = first if first in names else min(names)
    by: dict[Name, How] = {"mode": "equal", "network": "first", "precision": "main"}
    shown = Shown(points.layers, by, network, {"rank": MOST_BARS})
    table = LiveTable("layers", f"Slowest layers of {HEADING}", _COLUMNS, shown, order="rank")
    chart = bar_chart(points.layers, shown.resolve(chosen)[0])
    follows = Following(shown, chosen, HEADING, NONE)
    return make_figure("layers", chart, table, CAPTION, (NOTE,), follows=follows)


def bar_chart(layers: pl.DataFrame, chosen: Chosen) -> Chart:
    """The slowest layers: time on the left, energy on the right, what bounds each at its bar."""
    kinds: list[tuple[str, str, Sequence[str], str]] = [
        ("time_ms", "bound", BOUNDS, "Time at best, ms")
    ]
    if layers["energy_mj"].is_not_null().any():
        kinds.append(("energy_mj", "energy_bound", ENERGY_BOUNDS, "Energy at best, mJ"))
    chosen_ones = " && ".join(equals(name) for name in ("network", "mode", "precision"))
    drawn = f"{chosen_ones} && datum.rank <= {MOST_BARS}"
    data = plot(layers)
    bars = [
        _bars(data, kind, bound, bounds, with_names=kind == "time_ms")
        .transform_filter(drawn)
        .properties(width=_WIDTH_PX, height=MOST_BARS * _BAR_PX, title=heading(title))
        for kind, bound, bounds, title in kinds
    ]
    return following(
        alt.hconcat(*bars, spacing=24).resolve_scale(color="independent"),
        chosen,
        *("mode", "network", "precision"),
        description="The layers of a network that take most time: their modelled time in ms "
        "and energy in mJ, coloured by what bounds them",
    )


def _bars(
    data: alt.Chart, kind: str, bound: str, bounds: Sequence[str], *, with_names: bool
) -> Chart:
    # An unknown value is a bar of no length with a text: so the axis keeps an extent.
    known = f"isValid(datum.{kind})"
    placed = data.transform_calculate(
        length=f"{known} ? datum.{kind} : 0", why=f"{known} ? datum.{bound} : '{UNKNOWN}'"
    )
    base = told(
        placed,
        layer="layer",
        operator="operator",
        time_ms="time at best, ms",
        share="of the network's time, %",
        energy_mj="energy at best, mJ",
        intensity="FLOP/byte",
        bound="time bound by",
        energy_bound="energy mostly for",
    ).encode(
        y=alt.Y(
            "layer:N",
            sort=alt.EncodingSortField("time_ms", op="max", order="descending"),
            axis=alt.Axis(title=None, labelLimit=190) if with_names else None,
        ),
        x=alt.X("length:Q", axis=alt.Axis(title=None, format=".3~r", tickCount=5)),
    )
    color = alt.Color(
        f"{bound}:N", scale=alt.Scale(domain=list(bounds)), legend=alt.Legend(title=None, offset=4)
    )
    return alt.layer(
        base.mark_bar(height={"band": 0.72}).encode(color=color),
        base.mark_text(style="m-rule-label", align="left", dx=5).encode(text="why:N"),
    )
