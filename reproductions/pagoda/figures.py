"""The figures of Pagoda's page: achieved rates under published roofs, estimated over measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_text
from mansard.analytics.data.published.store import Published
from mansard.analytics.data.quantities import GIGA, MILLI, NBSP, UNKNOWN, digits, seconds
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.roofs.published_rooflines import published_rooflines
from mansard.analytics.pages.figures.charting import Chart, colour, plot, shape, with_tooltip
from mansard.analytics.pages.figures.figure import Figure, make_figure
from mansard.analytics.pages.figures.tables import Column, scaled, tabulate
from mansard.core.table import Table
from reproductions.pagoda.table import MODE, NETWORKS, OPERATOR_LAUNCH_S

WITHIN = 0.25  # the band around equality
_ROOF_PX, _PLOT_PX = (760, 380), (350, 330)
ROOFS_CAPTION = (
    "Work over the measured time. Hollow marks stand at the intensity of Pagoda's count, in which "
    "every operator reads and writes main memory. Filled marks stand at the intensity of our "
    "count, in which a runtime fuses operators. The roofs are the best rates that PyTorch reached "
    "on another board of this kind, not the limits of the hardware.",
)
COMPARISON_CAPTION = (
    "The estimated time is that of a framework that starts every operator by itself. Each operator "
    "takes the longer of its work over the published peak and its unfused traffic over the "
    f"published bandwidth, and {seconds(OPERATOR_LAUNCH_S)} to start. Convolutions run in TF32 and "
    "matrix products in FP32, the defaults of PyTorch; which runtime Pagoda measured is not "
    "published. The estimated power is that of the energy model, fitted on the points of the other "
    "four networks. The ring marks a published power that is an outlier; it is in no fit. The "
    "table also has the time at the published roofs with everything fused, in FP32 and in TF32.",
)
_SERIES = ("network", NETWORKS)


def roofs_figure(points: pl.DataFrame, published: Published) -> Figure:
    """The measured points under the published roofs."""
    roof = next(roof for roof in published_rooflines(published) if roof.mode == MODE)
    peaks = {
        f"{peak.name} {peak.value / 1e12:.3g} TFLOP/s": peak.value
        for peak in roof.peaks
        if peak.value is not None and peak.subject in {"fp32", "tf32"}
    }
    marks = roof_marks(points)
    bandwidth = roof.bandwidth(DRAM).value
    assert bandwidth is not None  # noqa: S101 - a figure that ships
    low, high = float(str(marks["intensity"].min())), float(str(marks["intensity"].max()))
    lines = roof_lines(peaks, bandwidth, low / 1.5, high * 1.5)
    chart = roofs_chart(marks, lines)
    return make_figure("pagoda-roofs", chart, mark_table(marks), ROOFS_CAPTION)


def comparison_figure(points: pl.DataFrame) -> Figure:
    """Estimates over measured times and powers."""
    frame = comparison(points)
    panels = [
        _panel(frame, *kind)
        for kind in (
            ("measured_ms", "estimate_ms", "time, ms"),
            ("measured_w", "estimate_w", "power, W"),
        )
    ]
    chart = alt.hconcat(*panels, spacing=40).properties(
        description="Estimated over measured time and power of Pagoda's 25 points, both "
        "logarithmic; on the dashed line they are equal, the band is 25 % to either side"
    )
    return make_figure("pagoda-comparison", chart, point_table(points), COMPARISON_CAPTION)


def comparison(points: pl.DataFrame) -> pl.DataFrame:
    """Measured and estimated time (ms) and power (W) of each point; log axes: all above 0."""
    kept = points.filter((pl.col("estimate_s") > 0) & (pl.col("measured_s") > 0))
    return kept.select(
        "network",
        "batch",
        measured_ms=(pl.col("measured_s") / MILLI).round_sig_figs(4),
        estimate_ms=(pl.col("estimate_s") / MILLI).round_sig_figs(4),
        roof_ms=(pl.col("least_tf32_s") / MILLI).round_sig_figs(4),
        measured_w=pl.col("measured_w").round_sig_figs(4),
        estimate_w=pl.col("estimate_w").round_sig_figs(4),
        doubt=pl.col("remark").fill_null(""),
    )


def roof_marks(points: pl.DataFrame) -> pl.DataFrame:
    """Performance over intensity of each measured point, by Pagoda's count and by ours fused.

    GFLOP/s is the count's own work over the measured time.
    """
    counts: Sequence[tuple[str, str, str]] = (
        ("Pagoda's count", "their_flop", "their_bytes"),
        ("our count, fused", "our_flop", "our_fused_bytes"),
    )
    return pl.concat(
        [
            points.select(
                "network",
                "batch",
                count=pl.lit(name),
                intensity=(pl.col(flop) / pl.col(moved)).round_sig_figs(4),
                rate=(pl.col(flop) / pl.col("measured_s") / GIGA).round_sig_figs(4),
            )
            for name, flop, moved in counts
        ]
    )


def roof_lines(
    peaks: Mapping[str, float], bandwidth_bytes_per_s: float, low: float, high: float
) -> pl.DataFrame:
    """The roof of each precision from intensity ``low`` to ``high``: three vertices, GFLOP/s."""
    rows = []
    for name, peak_flop_per_s in peaks.items():
        ridge = peak_flop_per_s / bandwidth_bytes_per_s
        for x in (low, ridge, high):
            rate = min(peak_flop_per_s, x * bandwidth_bytes_per_s) / GIGA
            rows.append({"roof": name, "x": float(f"{x:.4g}"), "y": float(f"{rate:.4g}")})
    return pl.DataFrame(rows)


def roofs_chart(marks: pl.DataFrame, lines: pl.DataFrame) -> Chart:
    """Achieved GFLOP/s over intensity: hollow by Pagoda's count, filled by ours."""
    heights = pl.concat([lines["y"], marks["rate"]])
    roofs = plot(lines).encode(x="x:Q", y="y:Q", detail="roof:N", tooltip="roof:N")
    last = lines.group_by("roof", maintain_order=True).last()
    names = plot(last).encode(x="x:Q", y="y:Q", text="roof:N")
    dots = with_tooltip(
        plot(marks),
        network="network",
        batch="batch",
        count="by",
        intensity="FLOP/byte",
        rate="GFLOP/s",
    ).encode(
        x=alt.X(
            "intensity:Q",
            scale=_scale(lines["x"]),
            axis=alt.Axis(title="Intensity, FLOP/byte", format="~g"),
        ),
        y=alt.Y("rate:Q", scale=_scale(heights), axis=alt.Axis(title="GFLOP/s", format="~g")),
        color=colour(*_SERIES),
        shape=shape(*_SERIES),
    )
    ours = "datum.count === 'our count, fused'"
    return alt.layer(
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


def _panel(points: pl.DataFrame, measured: str, estimate: str, title: str) -> Chart:
    """Estimated over measured, with a band around equality."""
    values = [*points[measured].to_list(), *points[estimate].to_list()]
    ends = (min(values) / 1.3, max(values) * 1.3)
    band = pl.DataFrame(
        [{"x": end, "low": end * (1 - WITHIN), "high": end * (1 + WITHIN)} for end in ends]
    )
    scale = _scale(band["x"])

    def axis(word: str) -> alt.Axis:
        return alt.Axis(title=f"{word} {title}", format=".12~g", tickCount=6, labelOverlap="greedy")

    ground = plot(band).encode(x=alt.X("x:Q", scale=scale, axis=axis("Measured")))
    dots = with_tooltip(
        plot(points),
        network="network",
        batch="batch",
        measured_ms="measured, ms",
        estimate_ms="estimated, ms",
        roof_ms="at best, by the roofs in TF32, ms",
        measured_w="measured, W",
        estimate_w="estimated, W",
        doubt="remark",
    ).encode(
        x=alt.X(f"{measured}:Q", scale=scale),
        y=alt.Y(f"{estimate}:Q", scale=scale, axis=axis("Estimated")),
        color=colour(*_SERIES),
        shape=shape(*_SERIES),
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
        ring = plot(doubted).encode(x=f"{measured}:Q", y=f"{estimate}:Q")
        layers.append(ring.mark_point(style="m-picked", size=260))
    return alt.layer(*layers).properties(width=_PLOT_PX[0], height=_PLOT_PX[1])


def _scale(values: pl.Series) -> alt.Scale:
    """Logarithmic, from the least to the most of a column, a little apart from the points."""
    ends = [float(str(values.min())) / 1.25, float(str(values.max())) * 1.25]
    return alt.Scale(type="log", domain=ends, nice=False)


def point_table(points: pl.DataFrame) -> Table:
    """The 25 measured points with our times and powers beside them."""

    def number(title: str, name: str, unit: float, n_digits: int = 4) -> Column:
        return Column(title, lambda row: scaled(row[name], unit, n_digits), is_numeric=True)

    columns = (
        Column.name("Network", "network"),
        Column.number("Batch", "batch", "d"),
        number("Measured, ms", "measured_s", MILLI),
        number("Estimate, ms", "estimate_s", MILLI),
        Column("Error", lambda row: _error(row["estimate_s"], row["measured_s"]), is_numeric=True),
        number("At the roofs FP32, ms", "least_fp32_s", MILLI),
        number("At the roofs TF32, ms", "least_tf32_s", MILLI),
        number("Measured, W", "measured_w", 1.0, 3),
        number("Estimate, W", "estimate_w", 1.0, 3),
        Column("Error", lambda row: _error(row["estimate_w"], row["measured_w"]), is_numeric=True),
        Column("Remark", lambda row: display_text(row["remark"]) if row["remark"] else ""),
    )
    caption = "Pagoda's measured points, and our estimates"
    return tabulate(caption, columns, points.iter_rows(named=True))


def mark_table(marks: pl.DataFrame) -> Table:
    """The points of the roofline chart."""
    columns = (
        Column.name("Network", "network"),
        Column.number("Batch", "batch", "d"),
        Column.text("By", "count"),
        Column("FLOP/byte", lambda row: digits(row["intensity"]), is_numeric=True),
        Column("GFLOP/s", lambda row: digits(row["rate"]), is_numeric=True),
    )
    return tabulate("Points under the roofs", columns, marks.iter_rows(named=True))


def _error(estimate: float | None, measured: float | None) -> str:
    if estimate is None or not measured:
        return UNKNOWN
    return f"{100 * (estimate / measured - 1):+.0f}{NBSP}%"
