"""The roofline chart: roofs, networks, and the layers of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.charts.roof_geometry import HEIGHT_PX, WIDTH_PX, Window
from mansard.analytics.charts.sweeps import (
    MOST_RADIO_BUTTONS,
    inline,
    log_scale,
    mode_parameter,
    shape_scale,
    tooltips,
)

NO_NETWORK = ""  # no network's name: an empty one is shown as "(no name)"


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
    all_named: bool  # whether every network found room for its name
    seen: Window


def roofline_chart(
    frames: RoofFrames, modes: Sequence[str], batches: Sequence[str], networks: Sequence[str]
) -> alt.LayerChart:
    """Performance over intensity, both logarithmic, with networks and one network's layers."""
    mode, picked, batch = mode_parameter(modes), _network_picker(networks), _batch(batches)
    of_batch = f"datum.batch === {batch.name}"
    seen = frames.seen
    x = alt.X(
        "x:Q",
        scale=log_scale(seen.x_low, seen.x_high),
        axis=_ticks("Intensity, FLOP/byte", seen.x_ticks),
    )
    y = alt.Y("y:Q", scale=log_scale(seen.y_low, seen.y_high), axis=_ticks("GFLOP/s", seen.y_ticks))
    layers: list[alt.Chart] = [
        _area(frames.area, x, y),
        _bands(frames.lines, x),
        *_lines(frames.lines, x, y),
        *_roof_labels(frames.labels, x, y, seen),
        _ridges(frames.ridges, x, y),
        _layers(frames.layers, picked),
        *_leaders(frames.network_labels, of_batch),
        _networks(frames.networks, networks, picked, not frames.all_named).transform_filter(
            of_batch
        ),
        *_network_labels(frames.network_labels, x, y, of_batch),
    ]
    in_mode = [layer.transform_filter(f"datum.mode === {mode.name}") for layer in layers]
    chart: alt.LayerChart = (
        alt.layer(*in_mode)
        .add_params(mode, batch, picked)
        .resolve_scale(size="independent", shape="shared")
        .properties(
            width=WIDTH_PX,
            height=HEIGHT_PX,
            description="Time roofline: attainable GFLOP/s over intensity in FLOP/byte, with the "
            "roofs of the chosen power mode and the networks under them",
        )
    )
    return chart


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


def _layers(layers: pl.DataFrame, picked: alt.Parameter) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(inline(layers))
        .transform_filter(f"datum.network === {picked.name}")
        .mark_point(style="m-layer", opacity=0.6, clip=True)
        .encode(
            x="intensity:Q",
            y="rate:Q",
            size=alt.Size(
                "share:Q",
                scale=alt.Scale(domain=[0, 0.3], range=[40, 1300], clamp=True),
                legend=None,
            ),
            tooltip=tooltips(
                layer="layer",
                operator="operator",
                network="network",
                intensity="FLOP/byte",
                time="modelled time",
                bound="bound by",
            ),
        )
    )
    return chart


def _networks(
    points: pl.DataFrame, networks: Sequence[str], picked: alt.Parameter, legend: bool
) -> alt.Chart:
    key = alt.Legend(title=None, columns=6) if legend else None
    chosen = f"{picked.name} === '{NO_NETWORK}' || datum.network === {picked.name}"
    chart: alt.Chart = (
        alt.Chart(inline(points))
        .mark_point(style="m-network", size=120)
        .encode(
            x="intensity:Q",
            y="rate:Q",
            color=alt.Color("network:N", scale=alt.Scale(domain=list(networks)), legend=key),
            shape=alt.Shape("network:N", scale=shape_scale(networks), legend=key),
            opacity=alt.condition(chosen, alt.value(1), alt.value(0.25)),
            tooltip=tooltips(
                network="network",
                batch="batch",
                precision="precision",
                intensity="FLOP/byte",
                rate="GFLOP/s",
                time="modelled time",
                bound="bound by",
            ),
        )
    )
    return chart


def _leaders(labels: pl.DataFrame, of_batch: str) -> list[alt.Chart]:
    return [
        alt.Chart(inline(labels.filter(pl.col("hangs"))))
        .mark_rule(style="m-leader")
        .encode(x="point_x:Q", y="point_y:Q", y2="y:Q")
        .transform_filter(of_batch)
    ]


def _network_labels(labels: pl.DataFrame, x: alt.X, y: alt.Y, of_batch: str) -> list[alt.Chart]:
    return [
        alt.Chart(inline(labels.filter(pl.col("align") == align)))
        .mark_text(style=style, align=align, baseline="middle")
        .transform_filter(of_batch)
        .encode(x=x, y=y, text="text:N")
        for style in ("m-network-label-halo", "m-network-label")
        for align in ("left", "right")
    ]


def _batch(batches: Sequence[str]) -> alt.Parameter:
    options = list(batches) or ["1"]
    if len(options) == 1:
        return alt.param(name="batch", value=options[0])
    binding = alt.binding_radio if len(options) <= MOST_RADIO_BUTTONS else alt.binding_select
    return alt.param(name="batch", value=options[0], bind=binding(options=options, name="Batch"))


def _network_picker(networks: Sequence[str]) -> alt.Parameter:
    binding = alt.binding_select(
        options=[NO_NETWORK, *networks], labels=["none", *networks], name="Show the layers of"
    )
    return alt.param(name="network", value=NO_NETWORK, bind=binding)


def _ticks(title: str, values: Sequence[float]) -> alt.Axis:
    return alt.Axis(title=title, format=".12~g", values=list(values))
