"""A chart as a still picture: what a browser without scripts shows, small enough for the page."""

from __future__ import annotations

import re
from typing import Any

import vl_convert
from markupsafe import Markup

from mansard.analytics.charts.theme import FONT, LIGHT, vega_config

# What no picture needs: words for screen readers (it has its own), reactions, defaults.
_IDLE = re.compile(
    r' (?:aria-[a-z]+|role|class|pointer-events|opacity|stroke-opacity|fill-opacity)="(?:none|1)?"'
    r'| (?:aria-[a-z]+|role|class|cursor)="[^"]*"| pointer-events="[^"]*"'
)
_HIDDEN = re.compile(r'<path[^>]*d=""[^>]*/>|<path[^>]*d="M0,0h0v0h0Z"[^>]*/>')
_FAMILY = re.compile(r' font-family="[^"]*"')
# What XML 1.0 cannot hold (section 2.2): the drawing is XML, and vl-convert ends the whole
# process where a name has such a character.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def still_picture(spec: dict[str, Any]) -> tuple[Markup, int]:
    """``spec`` drawn under the light appearance, and how wide that is, pixels.

    The drawing is a data URI that is safe inside double quotes.
    """
    svg = vl_convert.vegalite_to_svg(drawable(spec), config=vega_config(LIGHT))
    width = re.search(r'<svg[^>]* width="([0-9.]+)"', svg)
    svg = _FAMILY.sub("", _HIDDEN.sub("", _IDLE.sub("", _renumbered(svg))))
    family = FONT.replace("'", "")
    svg = svg.replace("<svg ", f'<svg font-family="{family}" ', 1)
    text = svg.replace("%", "%25").replace("#", "%23").replace("&", "%26")
    text = text.replace("'", "%27").replace('"', "'").replace("<", "%3C").replace(">", "%3E")
    uri = Markup(f"data:image/svg+xml,{text}")  # noqa: S704 - nothing in it ends the attribute
    return uri, round(float(width[1])) if width else 0


def drawable(part: Any) -> Any:
    """``part`` of a specification, with U+FFFD for each character that no drawing can hold."""
    if isinstance(part, str):
        return _NO_XML.sub("\ufffd", part)
    if isinstance(part, dict):
        return {drawable(name): drawable(value) for name, value in part.items()}
    return [drawable(one) for one in part] if isinstance(part, (list, tuple)) else part


def _renumbered(svg: str) -> str:
    """The drawing with its clip paths counted from 0; Vega counts over the process's life."""
    numbers: dict[str, int] = {}
    return re.sub(
        r'(url\(#clip|id="clip)(\d+)',
        lambda match: f"{match[1]}{numbers.setdefault(match[2], len(numbers))}",
        svg,
    )
