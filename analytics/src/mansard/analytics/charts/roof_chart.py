"""The roofline chart: roofs, networks, and the layers of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.charts.parameters import Chosen, Name, equals, equals_or_all
from mansard.analytics.charts.roof_geometry import Window
from mansard.analytics.charts.sweeps import inline, log_scale, shape_scale, tooltips


@dataclass(frozen=True, eq=False)
class RoofFrames:
    """What ``roofline_chart`` draws; see ``roof_geometry`` and ``chart_data``."""

    lines: pl.DataFrame
    area: pl.DataFrame
    labels: pl.DataFrame
    ridges: pl.DataFrame
    networks: pl.DataFrame
    network_labels: pl.DataFrame
    layers: pl.DataFrame
    has_key: bool  # whether a key tells the networks apart: not each found room for its name
    seen: Window


def roofline_chart(frames: RoofFrames, chosen: Chosen, networks: Sequence[str]) -> alt.LayerChart:
    """Performance over intensity, both logarithmic, with networks and one network's layers."""
    seen = frames.seen
    x = alt.X("x:Q", scale=log_scale(seen.x_low, seen.x_high), axis=intensity_axis(seen))
    y = alt.Y("y:Q", scale=log_scale(seen.y_low, seen.y_high), axis=value_axis("GFLOP/s", seen))
    named = f"{equals('batch')} && {equals_or_all('network')}"
    layers: list[alt.Chart] = [
        _area(frames.area, x, y),
        _bands(frames.lines, x),
        *_lines(frames.lines, x, y),
        *_roof_labels(frames.labels, x, y, seen),
        _ridges(frames.ridges, x, y),
        layer_points(frames.layers, "rate"),
        *network_leaders(frames.network_labels, named),
        network_points(frames.networks, networks, "rate", with_key=frames.has_key),
        *network_labels(frames.network_labels, x, y, named),
    ]
    shown = f"{equals('mode')} && {equals_or_all('precision')}"
    in_mode = [
        layer.transform_filter(equals("mode") if layer is layers[0] else shown) for layer in layers
    ]
    names: tuple[Name, ...] = ("mode", "batch", "network", "precision")
    chart: alt.LayerChart = (
        alt.layer(*in_mode)
        .add_params(*[chosen.parameter(name) for name in names])
        .resolve_scale(size="independent", shape="shared")
        .properties(
            width=seen.width_px,
            height=seen.height_px,
            description="Time roofline: attainable GFLOP/s over intensity in FLOP/byte, with the "
            "roofs of the chosen power mode and the networks under them",
        )
    )
    return chart


def intensity_axis(seen: Window) -> alt.Axis:
    """The axis of intensities of every roofline."""
    return _ticks("Intensity, FLOP/byte", seen.x_ticks)


def value_axis(title: str, seen: Window) -> alt.Axis:
    """The axis up, whatever is drawn on it."""
    return _ticks(title, seen.y_ticks)


def _area(area: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(inline(area)).mark_area(style="m-roof-area").encode(x=x, y=y, y2=alt.Y2("base:Q"))
    )
    return chart


def _bands(lines: pl.DataFrame, x: alt.X) -> alt.Chart:
    known = lines.filter(pl.col("low").is_not_null())
    chart: alt.Chart = (
        alt.Chart(inline(known))
        .mark_area(style="m-roof-band", clip=True)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), detail="line:N")
    )
    return chart


def _lines(lines: pl.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    base = alt.Chart(inline(lines)).encode(x=x, y=y, detail="line:N", tooltip="line:N")
    bold = "datum.level === 'DRAM' || datum.level === 'peak'"
    return [
        base.mark_line(style="m-roof-cache").transform_filter(f"!({bold})"),
        base.mark_line(style="m-roof").transform_filter(bold),
    ]


def _roof_labels(labels: pl.DataFrame, x: alt.X, y: alt.Y, seen: Window) -> list[alt.Chart]:
    charts: list[alt.Chart] = []
    for style in ("m-roof-label-halo", "m-roof-label"):
        base = alt.Chart(inline(labels)).encode(x=x, y=y, text="text:N")
        charts += [
            base.mark_text(
                style=style, align="left", dy=-9, angle=seen.angle_deg % 360
            ).transform_filter("datum.kind === 'memory'"),
            base.mark_text(style=style, align="right", dx=-4, dy=-10).transform_filter(
                "datum.kind === 'compute'"
            ),
        ]
    return charts


def _ridges(ridges: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(inline(ridges))
        .mark_point(style="m-ridge", size=60, shape="diamond", opacity=1)
        .encode(
            x=x,
            y=y,
            tooltip=tooltips(text="ridge", interval="at"),
        )
    )
    return chart


def layer_points(layers: pl.DataFrame, y: str) -> alt.Chart:
    """The slowest layers of the chosen network, larger where they take more of its time."""
    chart: alt.Chart = (
        alt.Chart(inline(layers))
        .transform_filter(f"{equals('network')} && datum.intensity > 0 && datum.{y} > 0")
        .mark_point(style="m-layer", opacity=0.6, clip=True)
        .encode(
            x="intensity:Q",
            y=f"{y}:Q",
            size=alt.Size(
                "share:Q",
                scale=alt.Scale(domain=[0, 30], range=[40, 1300], clamp=True),
                legend=None,
            ),
            tooltip=tooltips(
                layer="layer",
                operator="operator",
                network="network",
                intensity="FLOP/byte",
                time_ms="modelled time, ms",
                share="of the network, %",
                energy_mj="modelled energy, mJ",
                bound="bound by",
            ),
        )
    )
    return chart


def network_points(
    points: pl.DataFrame, networks: Sequence[str], y: str, *, with_key: bool
) -> alt.Chart:
    """Whole networks at the chosen batch; those not chosen step back."""
    key = alt.Legend(title=None, columns=4) if with_key else None
    chart: alt.Chart = (
        alt.Chart(inline(points))
        .transform_filter(equals("batch"))
        .mark_point(style="m-network", size=110)
        .encode(
            x="intensity:Q",
            y=f"{y}:Q",
            color=alt.Color("network:N", scale=alt.Scale(domain=list(networks)), legend=key),
            shape=alt.Shape("network:N", scale=shape_scale(networks), legend=key),
            opacity=alt.condition(equals_or_all("network"), alt.value(1), alt.value(0.2)),
            tooltip=tooltips(
                network="network",
                batch="batch",
                precision="precision",
                intensity="FLOP/byte",
                time="modelled time",
                energy="modelled energy",
                power="modelled power",
                bound="bound by",
            ),
        )
    )
    return chart


def network_leaders(labels: pl.DataFrame, named: str) -> list[alt.Chart]:
    """Thin lines from points to names that hang below them."""
    return [
        alt.Chart(inline(labels.filter(pl.col("hangs"))))
        .mark_rule(style="m-leader")
        .encode(x="point_x:Q", y="point_y:Q", y2="y:Q")
        .transform_filter(named)
    ]


def network_labels(labels: pl.DataFrame, x: alt.X, y: alt.Y, named: str) -> list[alt.Chart]:
    """The names of the points that ``named`` lets through, each on a halo."""
    return [
        alt.Chart(inline(labels.filter(pl.col("align") == align)))
        .mark_text(style=style, align=align, baseline="middle")
        .transform_filter(named)
        .encode(x=x, y=y, text="text:N")
        for style in ("m-network-label-halo", "m-network-label")
        for align in ("left", "right")
    ]


def _ticks(title: str, values: Sequence[float]) -> alt.Axis:
    return alt.Axis(title=title, format=".12~g", values=list(values))
