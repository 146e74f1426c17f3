"""The names of roofs on paper, where there is room: over no name, no marker, and in the chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from mansard.analytics.pages.figures.charting import Chart, plot
from mansard.analytics.pages.figures.figure import schema_of
from mansard.analytics.pages.figures.naming import NamedLine, place_names, roof_texts
from mansard.analytics.pages.figures.plane import Window
from mansard.analytics.pages.paper.drawing import Inside

_ROOM_PX = 26.0  # above the highest roof: for its name


def seen_in(inside: Inside, seen: Window, top: float) -> Window:
    """``seen`` in the pixels of ``inside``, with room for a name above ``top``."""
    decades = math.log10(top / seen.y_low)
    room = decades * _ROOM_PX / max(inside.height_px - _ROOM_PX, 1.0)
    return replace(
        seen,
        y_high=max(seen.y_high, top * 10**room),
        width_px=inside.width_px,
        height_px=inside.height_px,
    )


def roof_names(
    lines: Sequence[NamedLine], marks: pl.DataFrame, seen: Window, share: float
) -> list[Chart]:
    """The names of ``lines``, all of one mode; ``marks`` has x and y. ``share``: see Layout."""
    mode = lines[0].mode if lines else ""
    placed = marks.select(mode=pl.lit(mode), x="x", y="y")
    none = pl.DataFrame(schema=schema_of(text="mode batch text", number="x y"))
    names = place_names(lines, placed, none, seen, share, may_cross=False).roofs
    names = names.filter(pl.col("width_px") == seen.width_px)
    base = plot(names.select("kind", "text", "x", "y")).encode(x="x:Q", y="y:Q", text="text:N")
    return roof_texts(base, set(names["kind"]), 360 - math.degrees(seen.angle_rad))
