"""How a figure looks on paper: its size, its type, and the configuration of its chart.

Charts are laid out in pixels with type of FONT_PX, like the charts of a report, so that the same
code places names. The size of the type on paper sets the length of a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mansard.analytics.pages.figures.charting import FONT_PX, LIGHT, SHAPES, STAR, vega_config

Style = Literal["paper", "slide"]
# Ships with vl-convert, so that it is on every machine; as wide as Arial and Helvetica.
DEFAULT_FONT = "Liberation Sans"
SIZES_PT: dict[Style, tuple[float, float, float]] = {  # width, height and type
    "paper": (252.0, 198.0, 8.0),  # a column of two, 3.5 in
    "slide": (648.0, 364.5, 14.0),  # 9 in, 16:9
}
# Distinct in greyscale; the last two are paths.
_TIMES = "M-.75,-1L0,-.25L.75,-1L1,-.75L.25,0L1,.75L.75,1L0,.25L-.75,1L-1,.75L-.25,0L-1,-.75Z"
LEGEND_GAP_PX = 16.0  # between columns: room for the wider letters of another font in an SVG
MARKERS = (*SHAPES, "triangle-left", "triangle-right", STAR, _TIMES)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Width and height of the figure and size of its type, pt; the family of its type."""

    width_pt: float
    height_pt: float
    font_pt: float
    font: str = DEFAULT_FONT
    has_title: bool = True

    @property
    def px_per_pt(self) -> float:
        """How many pixels of the layout are a point on paper."""
        return FONT_PX / self.font_pt

    @property
    def width_px(self) -> float:
        return self.width_pt * self.px_per_pt

    @property
    def height_px(self) -> float:
        return self.height_pt * self.px_per_pt


def colours(names: list[str]) -> list[str]:
    """A colour for each of ``names``; of many some repeat, their shapes do not."""
    return [LIGHT.categories[at % len(LIGHT.categories)] for at in range(len(names))]


def paper_config(look: Look) -> dict[str, Any]:
    """The Vega-Lite config: the light one of the report, with the type and the ticks of a paper."""
    config = vega_config(LIGHT)
    for style in config["style"].values():
        if "font" in style:
            style["font"] = look.font
    ink = {"domainColor": LIGHT.ink, "labelColor": LIGHT.ink, "tickColor": LIGHT.ink}
    axis = {"ticks": True, "tickSize": 4, "labelPadding": 3, "titlePadding": 6, "domainOpacity": 1}
    return {
        **config,
        "background": "#ffffff",
        "padding": 2,
        "font": look.font,
        "axis": {**config["axis"], **ink, **axis, "labelOverlap": "greedy"},
        "legend": {
            **config["legend"],
            "orient": "bottom",
            "offset": 6,
            "columnPadding": LEGEND_GAP_PX,
            "rowPadding": 2,
            "symbolSize": 60,
            "symbolStrokeWidth": 1.6,
            "symbolOpacity": 1,
            # One below another: side by side they may be wider than the figure.
            "layout": {"bottom": {"direction": "vertical", "margin": 2, "anchor": "start"}},
        },
        "title": {**config["title"], "offset": 6},
        "style": {
            **config["style"],
            # Lines of a column are thinner than those of a page.
            "m-roof": {"color": LIGHT.ink, "strokeWidth": 1.8},
            "m-roof-cache": {"color": LIGHT.muted, "strokeWidth": 1.1},
            "m-roof-label": {**config["style"]["m-roof-label"], "fontWeight": "normal"},
            "m-roof-label-halo": {**config["style"]["m-roof-label-halo"], "fontWeight": "normal"},
            "m-interval": {"strokeWidth": 1.4, "color": LIGHT.muted},
        },
    }
