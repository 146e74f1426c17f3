"""The rooflines of energy and of power: arches over intensity, networks under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.charts.energy_data import BALANCES, Kind
from mansard.analytics.charts.parameters import Chosen, Name, equals, equals_or_all
from mansard.analytics.charts.roof_chart import (
    intensity_axis,
    layer_points,
    network_labels,
    network_leaders,
    network_points,
    value_axis,
)
from mansard.analytics.charts.roof_geometry import Window
from mansard.analytics.charts.sweeps import inline, log_scale, tooltips

# Of all precisions together only the best one's balance points are drawn.
_OWN = "(precision === '' ? datum.is_main : datum.precision === precision)"
_TITLES = {"efficiency": "GFLOP/J", "power": "W"}
_WORDS = {
    "efficiency": "Energy roofline: GFLOP/J over intensity in FLOP/byte at the roof of time, for "
    "each precision of the chosen power mode, with its balance points and the networks under it",
    "power": "Power roof: watts over intensity in FLOP/byte at the roof of time, for each "
    "precision of the chosen power mode, with the networks' mean power",
}
_BALANCE_SHAPES = ("diamond", "triangle-up", "square")


@dataclass(frozen=True, eq=False)
class ArchFrames:
    """What ``arch_chart`` draws; see ``energy_data``. ``names`` may be empty."""

    lines: pl.DataFrame
    labels: pl.DataFrame
    balances: pl.DataFrame
    caps: pl.DataFrame
    networks: pl.DataFrame
    names: pl.DataFrame
    layers: pl.DataFrame
    seen: Window


def arch_chart(
    frames: ArchFrames, kind: Kind, chosen: Chosen, networks: Sequence[str]
) -> alt.LayerChart:
    """FLOP/J or W over intensity, both logarithmic."""
    seen = frames.seen
    x = alt.X("x:Q", scale=log_scale(seen.x_low, seen.x_high), axis=intensity_axis(seen))
    scale, axis = log_scale(seen.y_low, seen.y_high), value_axis(_TITLES[kind], seen)
    y, height = alt.Y(f"{kind}:Q", scale=scale, axis=axis), alt.Y("y:Q", scale=scale, axis=axis)
    named = f"{equals('batch')} && {equals_or_all('network')}"
    layers: list[alt.Chart] = [
        *_arches(frames.lines, x, y),
        *_cap(frames.caps, height),
        *_names(frames.labels, x, height, only_main=kind == "power"),
        _balances(frames.balances, x, y),
        layer_points(frames.layers, kind),
        *network_leaders(frames.names, named),
        network_points(frames.networks, networks, kind, with_key=False),
        *network_labels(frames.names, x, height, named),
    ]
    shown = f"{equals('mode')} && {equals_or_all('precision')}"
    names: tuple[Name, ...] = ("mode", "batch", "network", "precision")
    chart: alt.LayerChart = (
        alt.layer(*[layer.transform_filter(shown) for layer in layers])
        .add_params(*[chosen.parameter(name) for name in names])
        .resolve_scale(size="independent", shape="independent", color="independent")
        .properties(width=seen.width_px, height=seen.height_px, description=_WORDS[kind])
    )
    return chart


def _arches(lines: pl.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    base = alt.Chart(inline(lines)).encode(x=x, y=y, detail="line:N", tooltip="line:N")
    main = "datum.is_main || datum.precision === precision"
    return [
        base.mark_line(style="m-roof-cache", clip=True).transform_filter(f"!({main})"),
        base.mark_line(style="m-roof", clip=True).transform_filter(main),
    ]


def _cap(caps: pl.DataFrame, y: alt.Y) -> list[alt.Chart]:
    """The board's own limit of power in the mode; only the power roof has rows for it."""
    if caps.is_empty():
        return []
    base = alt.Chart(inline(caps)).encode(y=y)
    label = base.mark_text(style="m-rule-label", align="left", x=6, dy=-9).encode(text="text:N")
    return [base.mark_rule(style="m-peak"), label]


def _names(labels: pl.DataFrame, x: alt.X, y: alt.Y, *, only_main: bool) -> list[alt.Chart]:
    """The names of the arches; where they run close together only the best one's."""
    base = alt.Chart(inline(labels)).encode(x=x, y=y, text="text:N")
    base = base.transform_filter(_OWN) if only_main else base
    return [
        base.mark_text(style=style, align="right", dx=-4, dy=-10)
        for style in ("m-roof-label-halo", "m-roof-label")
    ]


def _balances(points: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    scale = alt.Scale(domain=list(BALANCES), range=list(_BALANCE_SHAPES))
    chart: alt.Chart = (
        alt.Chart(inline(points))
        .transform_filter(_OWN)
        .mark_point(style="m-ridge", size=60, opacity=1)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("kind:N", scale=scale, legend=alt.Legend(title=None)),
            tooltip=tooltips(kind="balance", text="at"),
        )
    )
    return chart
