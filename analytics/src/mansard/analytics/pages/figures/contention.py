"""Contention: an accelerator's remaining speed over the demand of another beside it.

Demands are in GB/s, speeds in percent of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import GIGA
from mansard.analytics.models.contention import VictimContention
from mansard.analytics.pages.figures.charting import (
    Chart,
    colour,
    plot,
    rate_axis,
    shape,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import Figure, evenly, make_figure
from mansard.core.table import Table

MOST_LINES = 6  # own demands that are drawn: as many as there are shapes
_SIZE_PX = (560, 300)
CAPTION = (
    "Points: measured medians. Lines: the modelled fit (PCCS). Across: the demand of the other "
    "processor.",
)


def contention_figure(name: str, measured: VictimContention, table: Table) -> Figure | None:
    """Measured points and the fit's lines, evenly chosen own demands; None without a surface."""
    surface = measured.surface
    if surface is None:
        return None
    chosen = evenly(range(len(surface.own_byte_per_s)), MOST_LINES)
    owns = [surface.own_byte_per_s[at] for at in chosen]
    points = [
        _row(own_demand, external, achieved / own_demand)
        for own_demand, at in zip(owns, chosen, strict=True)
        for external, achieved in zip(
            surface.external_byte_per_s, surface.achieved_byte_per_s[at], strict=True
        )
    ]
    lines = [
        _row(line.own_byte_per_s, external, speed)
        for line in measured.fit_lines
        if line.own_byte_per_s in owns
        for external, speed in zip(line.external_byte_per_s, line.speed, strict=True)
    ]
    chart = _chart(points, lines, list(dict.fromkeys(row["own"] for row in points)))
    victim, aggressor = display_name(measured.victim), display_name(measured.aggressor)
    chart = chart.properties(
        description=f"The speed that {victim} keeps over the demand of {aggressor} beside it, a "
        "series for each own demand, with the lines of the fit",
    )
    more = len(surface.own_byte_per_s) - len(chosen)
    notes = (f"Own demands that are not drawn: {more}; the table has them.",) if more else ()
    return make_figure(name, chart, table, CAPTION, notes)


def _row(own_demand: float, external: float, speed: float) -> dict[str, float | str]:
    return {
        "own": f"own {own_demand / GIGA:.3g} GB/s",
        "external": float(f"{external / GIGA:.4g}"),
        "speed": float(f"{100 * speed:.4g}"),
    }


def _chart(
    points: Sequence[dict[str, float | str]],
    lines: Sequence[dict[str, float | str]],
    names: Sequence[str | float],
) -> Chart:
    series = [str(name) for name in names]
    x = alt.X("external:Q", axis=rate_axis("Demand of the other, GB/s"))
    y = alt.Y("speed:Q", scale=alt.Scale(zero=False), axis=rate_axis("Percent of its own speed"))
    dots = with_tooltip(
        plot(pl.DataFrame(points)),
        own="demand",
        external="demand of the other, GB/s",
        speed="percent of its own speed",
    ).encode(x=x, y=y, color=colour("own", series), shape=shape("own", series))
    layers = [dots.mark_point(size=60, filled=True)]
    if lines:
        drawn = plot(pl.DataFrame(lines)).encode(x=x, y=y, color=colour("own", series))
        layers.insert(0, drawn.mark_line(strokeWidth=1.6, strokeOpacity=0.8))
    return alt.layer(*layers).properties(width=_SIZE_PX[0], height=_SIZE_PX[1])
