"""What the charts share in Altair: data, scales, axes, tooltips, categories, colours and type.

Marks name styles of the theme instead of colours, so that one specification serves light and dark.

Category colours start from Okabe and Ito's set (2008), which stays apart under the
common colour-vision deficiencies, darkened or lightened to keep a contrast of 3:1
with the page; every category also has a shape or a dash of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.pages.figures.parameters import Chosen, Name

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
FONT_PX = 12.0  # of every text in every chart: a page draws no chart at another scale
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
SHAPE_SIGNS = ("●○", "■□", "▲△", "◆◇", "▼▽", "✚✛")  # filled and hollow
STAR = "M0,-1L.24,-.31L.95,-.31L.38,.12L.59,.81L0,.39L-.59,.81L-.38,.12L-.95,-.31L-.24,-.31Z"


@dataclass(frozen=True)
class Theme:
    """The colours of one appearance."""

    ink: str
    muted: str
    grid: str
    paper: str
    accent: str
    band: str  # the accent, pale and without transparency: bands that overlap are as one
    categories: tuple[str, ...]
    ramp: tuple[str, ...]  # from little to much


LIGHT = Theme(
    ink="#1d2733",
    muted="#5b6878",
    grid="#e7eaef",
    paper="#ffffff",
    accent="#34557a",
    band="#d2dae2",
    categories=("#0a6fb0", "#cc5200", "#00835f", "#a8428c", "#b07800", "#3b9cd6", "#6b5bd2"),
    ramp=("#e3eef7", "#9cc4e2", "#3f8dc3", "#0b4a7d"),
)


DARK = Theme(
    ink="#e5eaf1",
    muted="#9aa7b8",
    grid="#28323f",
    paper="#161c24",
    accent="#9dbde3",
    band="#343f4e",
    categories=("#4ba3e3", "#f58a4b", "#2fc39b", "#e08cc5", "#eabf4e", "#a5d8f5", "#a99cf2"),
    ramp=("#213244", "#2c5f88", "#4ba3e3", "#c3e4fa"),
)


THEMES = MappingProxyType({"light": LIGHT, "dark": DARK})


def vega_config(theme: Theme) -> dict[str, Any]:
    """The Vega-Lite config of one appearance; charts name styles, never colours."""
    return {
        "background": None,
        "font": FONT,
        "view": {"stroke": None},
        "axis": _axis(theme),
        "legend": _legend(theme),
        "header": {
            "labelColor": theme.ink,
            "labelFontSize": FONT_PX,
            "titleColor": theme.ink,
            "titleFontSize": FONT_PX,
        },
        "range": {
            "category": list(theme.categories),
            "ramp": list(theme.ramp),
            "heatmap": list(theme.ramp),
        },
        "point": {"filled": True},
        "style": _styles(theme),
        "title": {
            "color": theme.ink,
            "fontSize": FONT_PX,
            "fontWeight": 600,
            "anchor": "start",
            "subtitleColor": theme.muted,
            "subtitleFontSize": FONT_PX,
            "subtitlePadding": 4,
        },
    }


def _axis(theme: Theme) -> dict[str, Any]:
    return {
        "gridColor": theme.grid,
        "domainColor": theme.muted,
        "domainOpacity": 0.6,
        "ticks": False,
        "labelPadding": 7,
        "labelColor": theme.muted,
        "labelFontSize": FONT_PX,
        "titleColor": theme.ink,
        "titleFontSize": FONT_PX,
        "titleFontWeight": 500,
        "titlePadding": 12,
    }


def _legend(theme: Theme) -> dict[str, Any]:
    return {
        "labelColor": theme.ink,
        "labelFontSize": FONT_PX,
        "titleColor": theme.ink,
        "titleFontSize": FONT_PX,
        "titleFontWeight": 500,
        "labelLimit": 420,
        "orient": "top",
        "direction": "horizontal",
        "columnPadding": 22,
        "rowPadding": 4,
        "symbolSize": 90,
        "symbolStrokeWidth": 0,
        "symbolLimit": 0,
        "offset": 14,
    }


def _styles(theme: Theme) -> dict[str, Any]:
    # The prefix keeps these apart from Vega's own styles, which are named after marks.
    halo = {"stroke": theme.paper, "strokeWidth": 4, "strokeJoin": "round"}
    label = {"fontSize": FONT_PX, "font": FONT}
    return {
        "m-roof": {"color": theme.ink, "strokeWidth": 2.4},
        "m-roof-cache": {"color": theme.muted, "strokeWidth": 1.3},
        "m-roof-area": {"color": theme.accent, "fillOpacity": 0.09},
        "m-roof-band": {"color": theme.band, "fillOpacity": 1},
        "m-roof-label": {**label, "color": theme.ink, "fontWeight": 600},
        "m-roof-label-halo": {**label, **halo, "color": theme.paper, "fontWeight": 600},
        "m-network": {"stroke": theme.paper, "strokeWidth": 1.2},
        "m-hollow": {"fill": theme.paper, "fillOpacity": 1, "strokeWidth": 1.8},
        "m-network-label": {**label, "color": theme.ink},
        "m-network-label-halo": {**label, **halo, "color": theme.paper},
        "m-leader": {"color": theme.muted, "strokeWidth": 0.8, "strokeOpacity": 0.7},
        "m-layer": {"color": theme.categories[1], "stroke": theme.paper, "strokeWidth": 1},
        "m-ridge": {"color": theme.paper, "stroke": theme.ink, "strokeWidth": 1.8},
        "m-cache": {"color": theme.muted, "strokeWidth": 1, "strokeDash": [3, 4]},
        "m-rule-label": {**label, "color": theme.muted},
        "m-rule-label-halo": {**label, **halo, "color": theme.paper},
        "m-ceiling": {"color": theme.ink, "strokeWidth": 9, "strokeOpacity": 0.13},
        "m-peak": {"color": theme.ink, "strokeWidth": 1.2, "strokeDash": [6, 4]},
        "m-front": {"color": theme.ink, "strokeWidth": 1.4, "strokeOpacity": 0.55},
        "m-best": {"color": theme.categories[1], "stroke": theme.ink, "strokeWidth": 0.9},
        "m-picked": {"stroke": theme.ink, "strokeWidth": 2, "fillOpacity": 0},
        "m-cell": {"stroke": theme.paper, "strokeWidth": 2, "cursor": "pointer"},
        "m-cell-low": {**label, "color": theme.ink},
        "m-cell-high": {**label, "color": theme.paper, "fontWeight": 600},
        "m-mode": {"stroke": theme.muted, "strokeWidth": 0.7, "cursor": "pointer"},
        "m-best-share": {"color": theme.ink, "thickness": 2, "height": 17},
        "m-diagonal": {"color": theme.muted, "strokeWidth": 1.2, "strokeDash": [5, 4]},
        "m-share": {"color": theme.categories[0]},
        "m-interval": {"strokeWidth": 1.6, "strokeOpacity": 0.75},
    }


Chart: TypeAlias = Any  # Altair types the methods of its charts as Any
SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~g') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + ' MiB'"
    " : format(datum.value / 1024, '~g') + ' KiB'"
)


class ChartRows(alt.InlineData):
    """ChartRows that never change: Altair copies a chart at every step, and these with it."""

    _class_is_valid_at_instantiation = False

    def __deepcopy__(self, _memo: object) -> ChartRows:
        return self


def plot(frame: pl.DataFrame) -> alt.Chart:
    """A chart of ``frame``, whose rows become part of the specification."""
    return alt.Chart(ChartRows(values=frame.to_dicts()))


def following(chart: Chart, chosen: Chosen, *names: Name, **properties: Any) -> Chart:
    """``chart`` with the parameters ``names`` and with ``properties``, such as its width.

    The parameter heading says in titles what is shown; ``make_figure`` sets it first.
    """
    parameters = [chosen.parameter(name) for name in names]
    heading = alt.param(name="heading", value="")
    return chart.add_params(*parameters, heading).properties(**properties)


def with_tooltip(base: Chart, **titles: str) -> Chart:
    """``base`` with the fields ``titles`` in its tooltips and descriptions for screen readers.

    Fields are shown as they are, with numbers rounded before; missing ones as "unknown".
    """
    cells = {
        json.dumps(title): f"(isValid(datum.{name}) ? datum.{name} : '{UNKNOWN}')"
        for name, title in titles.items()
    }
    fields = ", ".join(f"{title}: {cell}" for title, cell in cells.items())
    spoken = " + '; ' + ".join(f"{title} + ': ' + {cell}" for title, cell in cells.items())
    return base.encode(
        tooltip=alt.value(alt.ExprRef(f"{{{fields}}}")), description=alt.value(alt.ExprRef(spoken))
    )


def log_scale(low: float, high: float, base: int = 10) -> alt.Scale:
    """A logarithmic scale from ``low`` to ``high``."""
    return alt.Scale(type="log", base=base, domain=[low, high], nice=False, clamp=False)


def size_axis(low: float, high: float) -> alt.Axis:
    """An axis of working sets between ``low`` and ``high`` bytes, in binary units."""
    ticks = [1024.0 * 4**power for power in range(18) if low <= 1024.0 * 4**power <= high]
    return alt.Axis(title="Working set in all", labelExpr=SIZE_LABEL, values=ticks)


def rate_axis(title: str) -> alt.Axis:
    """An axis of rates, without SI prefixes: 0.1 must not read 100m."""
    return alt.Axis(title=title, format=".12~g", tickCount=6)


# Vega cuts labels at their end, which tells names apart: a language model's size and stage.
_WITH_END = (
    "length(datum.label) < 32 ? datum.label : slice(datum.label, 0, 10) + '…' + "
    "slice(datum.label, indexof(datum.label, ' [') < 0 ? -18 : indexof(datum.label, ' [') - 5)"
)


def bar_names(field: str, sort: alt.EncodingSortField) -> alt.Y:
    """The names of bars at their left, in the order of ``sort``."""
    axis = alt.Axis(title=None, labelLimit=200, labelExpr=_WITH_END, domain=False, grid=False)
    return alt.Y(f"{field}:N", sort=sort, axis=axis)


def colour(field: str, names: Sequence[str]) -> alt.Color:
    """A colour for each of ``names``."""
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names)), title=None)


def dash(field: str, names: Sequence[str]) -> alt.StrokeDash:
    """A dash for each of ``names``, beside its colour."""
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=list(names)), title=None)


def shape(field: str, names: Sequence[str]) -> alt.Shape:
    """A shape for each of ``names``, beside its colour."""
    return alt.Shape(f"{field}:N", scale=shape_scale(names), title=None)


def shape_scale(names: Sequence[str]) -> alt.Scale:
    """The scale of ``shape``."""
    return alt.Scale(domain=list(names), range=list(SHAPES))
