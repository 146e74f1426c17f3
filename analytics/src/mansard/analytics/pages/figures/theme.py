"""Colours and type of the charts, once for light and once for dark.

Category colours start from Okabe and Ito's set (2008), which stays apart under the
common colour-vision deficiencies, darkened or lightened to keep a contrast of 3:1
with the page; every category also has a shape or a dash of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"


FONT_PX = 12.0  # of every text in every chart: a page draws no chart at another scale


SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


@dataclass(frozen=True)
class Theme:
    """The colours of one appearance."""

    ink: str
    muted: str
    grid: str
    paper: str
    accent: str
    categories: tuple[str, ...]
    ramp: tuple[str, ...]  # from little to much


LIGHT = Theme(
    ink="#1d2733",
    muted="#5b6878",
    grid="#e7eaef",
    paper="#ffffff",
    accent="#34557a",
    categories=("#0a6fb0", "#cc5200", "#00835f", "#a8428c", "#b07800", "#3b9cd6", "#6b5bd2"),
    ramp=("#e3eef7", "#9cc4e2", "#3f8dc3", "#0b4a7d"),
)


DARK = Theme(
    ink="#e5eaf1",
    muted="#9aa7b8",
    grid="#28323f",
    paper="#161c24",
    accent="#9dbde3",
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
        "m-roof-band": {"color": theme.accent, "fillOpacity": 0.22},
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
