"""The charts of Pagoda's page: frames in, charts out, nothing computed."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.charts.sweeps import inline, shape_scale, tooltips

_ROOF_PX, _PLOT_PX = (760, 380), (350, 330)


def roofs_chart(
    marks: pl.DataFrame, lines: pl.DataFrame, networks: Sequence[str]
) -> alt.LayerChart:
    """Achieved GFLOP/s over intensity: hollow by Pagoda's count, filled by ours."""
    x = alt.X(
        "intensity:Q",
        scale=alt.Scale(type="log", domain=_ends(lines["x"]), nice=False),
        axis=alt.Axis(title="Intensity, FLOP/byte", format="~g"),
    )
    y = alt.Y(
        "rate:Q",
        scale=alt.Scale(
            type="log", domain=_ends(pl.concat([lines["y"], marks["rate"]])), nice=False
        ),
        axis=alt.Axis(title="GFLOP/s", format="~g"),
    )
    roofs = alt.Chart(inline(lines)).encode(
        x=alt.X("x:Q"), y=alt.Y("y:Q"), detail="roof:N", tooltip="roof:N"
    )
    names = alt.Chart(inline(lines.group_by("roof", maintain_order=True).last())).encode(
        x=alt.X("x:Q"), y=alt.Y("y:Q"), text="roof:N"
    )
    dots = alt.Chart(inline(marks)).encode(
        x=x,
        y=y,
        color=alt.Color("network:N", scale=alt.Scale(domain=list(networks)), title=None),
        shape=alt.Shape("network:N", scale=shape_scale(networks), title=None),
        tooltip=tooltips(
            network="network", batch="batch", count="by", intensity="FLOP/byte", rate="GFLOP/s"
        ),
    )
    ours = "datum.count === 'our count, fused'"
    chart: alt.LayerChart = alt.layer(
        roofs.mark_line(style="m-roof", clip=True),
        names.mark_text(style="m-roof-label", align="right", dx=-6, dy=-9),
        dots.mark_point(size=70, filled=False, strokeWidth=1.6).transform_filter(f"!({ours})"),
        dots.mark_point(size=70, opacity=0.9).transform_filter(ours),
    ).properties(
        width=_ROOF_PX[0],
        height=_ROOF_PX[1],
        description="Achieved GFLOP/s of Pagoda's 25 points over intensity, by Pagoda's count and "
        "by ours of fused networks, under the published roofs of an AGX Orin in MAXN",
    )
    return chart


def comparison_chart(
    points: pl.DataFrame,
    grounds: Sequence[tuple[str, str, str, pl.DataFrame]],
    networks: Sequence[str],
) -> alt.HConcatChart:
    """Estimated over measured, a panel for each of ``grounds``: two columns, title, band."""
    panels = [
        _panel(points, measured, estimate, title, band, networks)
        for measured, estimate, title, band in grounds
    ]
    chart: alt.HConcatChart = alt.hconcat(*panels, spacing=40).properties(
        description="Estimated over measured time and power of Pagoda's 25 points, both "
        "logarithmic; on the dashed line they are equal, the band is 25 % to either side"
    )
    return chart


def _panel(
    points: pl.DataFrame,
    measured: str,
    estimate: str,
    title: str,
    band: pl.DataFrame,
    networks: Sequence[str],
) -> alt.LayerChart:
    scale = alt.Scale(type="log", domain=_ends(band["x"]), nice=False)
    ground = alt.Chart(inline(band)).encode(
        x=alt.X("x:Q", scale=scale, axis=_axis(f"Measured {title}"))
    )
    dots = alt.Chart(inline(points)).encode(
        x=alt.X(f"{measured}:Q", scale=scale),
        y=alt.Y(f"{estimate}:Q", scale=scale, axis=_axis(f"Estimated {title}")),
        color=alt.Color("network:N", scale=alt.Scale(domain=list(networks)), title=None),
        shape=alt.Shape("network:N", scale=shape_scale(networks), title=None),
        tooltip=tooltips(
            network="network",
            batch="batch",
            measured_ms="measured, ms",
            estimate_ms="estimated, ms",
            roof_ms="at the roofs in TF32, ms",
            measured_w="measured, W",
            estimate_w="estimated, W",
            doubt="remark",
        ),
    )
    layers = [
        ground.mark_area(style="m-roof-area", clip=True).encode(
            y=alt.Y("low:Q", scale=scale), y2="high:Q"
        ),
        ground.mark_line(style="m-diagonal", clip=True).encode(y="x:Q"),
        dots.mark_point(size=70, opacity=0.9),
    ]
    doubted = points.filter(pl.col("doubt") != "")
    if estimate == "estimate_w" and not doubted.is_empty():
        ring = alt.Chart(inline(doubted)).encode(x=f"{measured}:Q", y=f"{estimate}:Q")
        layers.append(ring.mark_point(style="m-picked", size=260))
    chart: alt.LayerChart = alt.layer(*layers).properties(width=_PLOT_PX[0], height=_PLOT_PX[1])
    return chart


def _axis(title: str) -> alt.Axis:
    return alt.Axis(title=title, format=".12~g", tickCount=6, labelOverlap="greedy")


def _ends(values: pl.Series) -> list[float]:
    """The least and the most of a column, a little apart from the points."""
    return [float(str(values.min())) / 1.25, float(str(values.max())) * 1.25]
