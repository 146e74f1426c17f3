"""The modes of a device for one network: the Pareto front, and a map over the clocks."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.charts.parameters import Chosen, Name
from mansard.analytics.charts.sweeps import inline, layered, tooltips

PARETO_PX = (470, 400)
MAP_PX = (450, 165)
MOST_LABELLED = 9  # GPU clocks: beyond it a cell has no room for its number
_OF_PRECISION = "(precision === '' ? datum.is_main : datum.precision === precision)"
_STAR = "M0,-1L.24,-.31L.95,-.31L.38,.12L.59,.81L0,.39L-.59,.81L-.38,.12L-.95,-.31L-.24,-.31Z"
_NAMES: tuple[Name, ...] = ("network", "precision", "device", "picked")
_TOLD = {
    "mode": "mode",
    "gpu": "GPU, MHz",
    "memory": "memory, MHz",
    "precision": "precision",
    "batch": "batch",
    "latency": "latency, ms",
    "energy": "energy of one item, mJ",
    "power": "power, W",
    "bound": "bound by",
    "source": "source",
}


def of_network(first: str) -> str:
    """A filter: rows of the chosen network, of ``first`` where none is chosen."""
    return f"datum.network === (network === '' ? {json.dumps(first)} : network)"


def network_title(first: str, text: str) -> alt.TitleParams:
    """``text`` and the network that is shown."""
    shown = f"(network === '' ? {json.dumps(first)} : network)"
    return alt.TitleParams(text=alt.ExprRef(f"{json.dumps(text + ', ')} + {shown}"))


def pareto_chart(points: pl.DataFrame, chosen: Chosen, first: str) -> alt.LayerChart:
    """Energy over latency, both logarithmic: one point for each mode, the front as a line."""
    base = alt.Chart(inline(points)).encode(
        x=alt.X("latency:Q", scale=_scale(), axis=_axis("Latency of one batch, ms")),
        y=alt.Y("energy:Q", scale=_scale(), axis=_axis("Energy of one item, mJ")),
    )
    power = alt.Color("power:Q", legend=alt.Legend(title="Power, W", gradientLength=180))
    dots = base.mark_point(style="m-mode", size=75).encode(
        color=power,
        opacity=alt.condition("datum.is_front", alt.value(1), alt.value(0.45)),
        tooltip=tooltips(**_TOLD),
    )
    # Conditions and not filters: a layer without rows would leave its axes without an extent.
    is_picked = "datum.mode === picked"
    layers = [
        base.mark_line(style="m-front", interpolate="step-after").transform_filter("datum.is_edge"),
        dots,
        base.mark_point(style="m-picked", filled=False).encode(size=_if(is_picked, 190)),
        base.mark_point(style="m-best", shape=_STAR, opacity=1).encode(
            size=_if("datum.is_recommended", 260), tooltip=tooltips(**_TOLD)
        ),
        *_labels(base, f"datum.is_recommended || {is_picked}"),
    ]
    words = (
        "Energy of one item in mJ over latency in ms for every mode drawn, coloured by power; the "
        "line is the Pareto front of latency and energy, the star the recommended mode"
    )
    chart: alt.LayerChart = (
        layered([layer.transform_filter(_shown(first)) for layer in layers])
        .add_params(*[chosen.parameter(name) for name in _NAMES])
        .properties(
            width=PARETO_PX[0],
            height=PARETO_PX[1],
            title=network_title(first, "Pareto front"),
            description=words,
        )
    )
    return chart


def heat_chart(cells: pl.DataFrame, chosen: Chosen, first: str) -> alt.VConcatChart:
    """Latency above, energy below, over GPU clock and memory clock; darker is more."""
    has_energy = bool(cells["energy"].is_not_null().any())
    kinds = [("latency", "Latency of one batch, ms")]
    kinds += [("energy", "Energy of one item, mJ")] if has_energy else []
    labelled = cells["gpu"].n_unique() <= MOST_LABELLED
    maps = [
        _map(cells, kind, labelled).properties(
            width=MAP_PX[0], height=MAP_PX[1], title=network_title(first, title)
        )
        for kind, title in kinds
    ]
    filtered = [each.transform_filter(_shown(first)) for each in maps]
    chart: alt.VConcatChart = (
        alt.vconcat(*filtered, spacing=18)
        .add_params(*[chosen.parameter(name) for name in _NAMES])
        .properties(
            description="Heat map of latency in ms"
            + (" and of energy in mJ" if has_energy else "")
            + " over GPU clock and memory clock; the star is the recommended mode",
        )
    )
    return chart


def _map(cells: pl.DataFrame, kind: str, labelled: bool) -> alt.LayerChart:
    base = alt.Chart(inline(cells)).encode(
        x=alt.X("gpu:O", axis=alt.Axis(title="GPU clock, MHz", labelAngle=0, format="~g")),
        y=alt.Y("memory:O", sort="descending", axis=alt.Axis(title="Memory, MHz", format="~g")),
    )
    shade = alt.Color(f"{kind}_shade:Q", scale=alt.Scale(domain=[0, 1]), legend=None)
    layers = [base.mark_rect(style="m-cell").encode(color=shade, tooltip=tooltips(**_TOLD))]
    if labelled:
        dark = f"datum.{kind}_shade > 0.45"
        text = alt.Text(f"{kind}:Q", format=".3~r")
        layers += [
            base.mark_text(style=style).encode(text=text).transform_filter(where)
            for style, where in (("m-cell-low", f"!({dark})"), ("m-cell-high", dark))
        ]
    layers += [
        base.mark_rect(style="m-picked").transform_filter("datum.mode === picked"),
        base.mark_point(style="m-best", size=250, shape=_STAR, opacity=1, yOffset=-18)
        .encode(tooltip=tooltips(**_TOLD))
        .transform_filter("datum.is_recommended"),
    ]
    chart: alt.LayerChart = layered(layers)
    return chart


def _shown(first: str) -> str:
    return f"{of_network(first)} && {_OF_PRECISION} && (device === '' || datum.device === device)"


def _if(test: str, size: int) -> Any:
    return alt.condition(test, alt.value(size), alt.value(0))


def _labels(base: alt.Chart, test: str) -> list[alt.Chart]:
    named = base.transform_calculate(name=f"{test} ? datum.mode : ''")
    return [
        named.mark_text(style=style, dy=-17).encode(text="name:N")
        for style in ("m-network-label-halo", "m-network-label")
    ]


def _scale() -> alt.Scale:
    return alt.Scale(type="log", nice=False, padding=24)


def _axis(title: str) -> alt.Axis:
    return alt.Axis(title=title, format=".3~r", tickCount=6, labelOverlap="greedy")
