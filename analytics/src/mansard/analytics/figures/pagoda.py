"""Pagoda's table and points beside our estimates: frames for tables and charts.

Two estimates of a time, neither of which has seen Pagoda's points. ``least_s`` is the time at
the published roofs with fused traffic, in fp32 and in tf32: what a runtime as good as the kernels
behind the roofs would take, not the hardware's bound. ``estimate_s`` is that of a
framework which starts every operator by itself: unfused traffic, PyTorch's usual number formats,
and the published cost of starting an operator. Roofs are branes-ai's figures of an AGX Orin.

A power needs costs that nobody published for the board. They are fitted on Pagoda's own points
(docs/energy.md), each network's on those of the four others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import polars as pl

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import NBSP, UNKNOWN, digits
from mansard.analytics.energy.least_squares import Array, solve_non_negative
from mansard.analytics.figures.charting import inline, shape_scale, tooltips
from mansard.analytics.figures.figure import Figure, make_figure
from mansard.analytics.figures.tables import Table
from mansard.analytics.predict.engine import predict_scores
from mansard.analytics.predict.groups import group_frame, score_frame
from mansard.analytics.published.reference import (
    MODE,
    NETWORKS,
    OPERATOR_LAUNCH_S,
    PAGODA_RUNS,
    RATES,
    USUAL_FORMATS,
    read_counts,
)
from mansard.analytics.published.rooflines import published_rooflines
from mansard.analytics.published.store import Published, published_coefficients, published_modes
from mansard.analytics.roofs.levels import DRAM
from mansard.core.records import LAYER_COUNTS, ModelScore

_KEYS = ["network", "batch"]


@dataclass(frozen=True, eq=False)
class Pagoda:
    """``counts``: 55 rows of work and traffic; ``points``: the 25 that were measured."""

    published: Published
    counts: pl.DataFrame
    points: pl.DataFrame


def pagoda_points(scores: Sequence[ModelScore]) -> Pagoda:
    """Everything that the page shows, from our scores of the five networks.

    ``scores`` need fp32 at every batch of the table, and tf32 at the measured ones.
    """
    published = Published(
        rates=next(table for table in RATES if table.device == PAGODA_RUNS.device).read().rates,
        runs=PAGODA_RUNS.read().runs,
    )
    layers = layer_frame(scores)
    counts = _counts(layers)
    points = _measured(published).join(_work(layers), on=_KEYS, how="left")
    timed = layers.join(points, left_on=["model", "batch"], right_on=_KEYS, how="semi")
    points = points.join(counts.select(*_KEYS, "their_flop", "their_bytes"), on=_KEYS, how="left")
    at_roofs = _times(timed, published, None).rename({"latency_s": "least_s"})
    for precision in ("fp32", "tf32"):
        of_format = at_roofs.filter(pl.col("precision") == precision).drop("precision")
        named = of_format.rename({"least_s": f"least_{precision}_s"})
        points = points.join(named, on=_KEYS, how="left")
    usual = pl.col("network").replace_strict(dict(USUAL_FORMATS))
    alone = _times(_alone(timed), published, OPERATOR_LAUNCH_S)
    chosen = alone.filter(pl.col("precision") == usual).drop("precision")
    points = points.join(chosen.rename({"latency_s": "estimate_s"}), on=_KEYS, how="left")
    return Pagoda(published, counts, points.with_columns(estimate_w=_powers(points)))


def _counts(layers: pl.DataFrame) -> pl.DataFrame:
    """Their counts and ours of each network and batch; bytes unfused and fused."""
    theirs = pl.DataFrame(
        [
            {
                "network": count.network,
                "batch": count.batch,
                "their_flop": count.work_flop,
                "their_bytes": count.traffic_bytes,
            }
            for count in read_counts()
        ]
    )
    return theirs.join(_work(layers), on=_KEYS, how="left", maintain_order="left")


def _work(layers: pl.DataFrame) -> pl.DataFrame:
    """Our sums over the layers of each fp32 score; null as soon as one layer's is."""
    sums = [
        pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).alias(f"our_{short}")
        for name, short in (
            ("work_flop", "flop"),
            ("traffic_bytes", "bytes"),
            ("fused_traffic_bytes", "fused_bytes"),
        )
    ]
    fp32 = layers.filter(pl.col("precision") == "fp32")
    return fp32.group_by(pl.col("model").alias("network"), "batch").agg(sums)


def _measured(published: Published) -> pl.DataFrame:
    order = {name: at for at, name in enumerate(NETWORKS)}
    runs = sorted(published.runs, key=lambda run: (order[run.network], run.batch or 0))
    return pl.DataFrame(
        [
            {
                "network": run.network,
                "batch": run.batch,
                "measured_s": run.latency_s,
                "measured_w": run.power_w,
                "remark": run.remark,
            }
            for run in runs
        ]
    )


def _times(layers: pl.DataFrame, published: Published, launch_s: float | None) -> pl.DataFrame:
    """network, batch, precision, latency_s in MAXN; with another cost of a launch where given."""
    coefficients = published_coefficients(published).filter(pl.col("mode") == MODE)
    if launch_s is not None:
        is_launch = pl.col("quantity") == "launch"
        value = pl.when(is_launch).then(launch_s).otherwise(pl.col("value"))
        coefficients = coefficients.with_columns(value=value)
    modes = published_modes(published).filter(pl.col("mode") == MODE)
    found = predict_scores(group_frame(layers), score_frame(layers), coefficients, modes)
    return found.select(*_KEYS, "precision", "latency_s").collect()


def _alone(layers: pl.DataFrame) -> pl.DataFrame:
    """The layers as an eager framework runs them: each a group of its own, nothing fused."""
    fused = [name for name in LAYER_COUNTS if name.startswith("fused_")]
    unfused = {name: pl.col(name.removeprefix("fused_")) for name in fused}
    is_run = pl.col("fused_group").is_not_null()
    return layers.with_columns(fused_group=pl.when(is_run).then(pl.col("index")), **unfused)


def _powers(points: pl.DataFrame) -> pl.Series:
    """Watts of each point by the energy model fitted on the other networks' points.

    E = ε_flop W + ε_byte Q + π₀ T with the measured time; a point with a remark (an outlier) is
    in no fit.
    """
    rows = points.select("our_flop", "our_bytes", "measured_s").to_numpy().astype(float)
    energies_j = (points["measured_s"] * points["measured_w"]).to_numpy()
    names = points["network"].to_numpy()
    is_fit = points["remark"].is_null().to_numpy()
    watts: Array = np.zeros(len(points))
    for name in NETWORKS:
        own, others = names == name, (names != name) & is_fit
        solution = solve_non_negative(
            rows[others] / energies_j[others, None], np.ones(int(others.sum()))
        )
        watts[own] = rows[own] @ solution.values / rows[own, 2]
    return pl.Series(watts)


MILLI, GIGA = 1e-3, 1e9


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


def diagonal(frame: pl.DataFrame, one: str, other: str, within: float) -> pl.DataFrame:
    """Equality from the least to the most of two columns, and ``within`` to either side."""
    values = [*frame[one].to_list(), *frame[other].to_list()]
    ends = (min(values) / 1.3, max(values) * 1.3)
    return pl.DataFrame(
        [{"x": end, "low": end * (1 - within), "high": end * (1 + within)} for end in ends]
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


WITHIN = 0.25  # the band around equality


def roofs_figure(found: Pagoda) -> Figure:
    """The measured points under the published roofs."""
    roof = next(roof for roof in published_rooflines(found.published) if roof.mode == MODE)
    peaks = {
        f"{peak.name} {peak.value / 1e12:.3g} TFLOP/s": peak.value
        for peak in roof.peaks
        if peak.value is not None and peak.subject in {"fp32", "tf32"}
    }
    marks = roof_marks(found.points)
    bandwidth = roof.bandwidth(DRAM).value
    assert bandwidth is not None  # noqa: S101 - a figure that ships
    low, high = float(str(marks["intensity"].min())), float(str(marks["intensity"].max()))
    lines = roof_lines(peaks, bandwidth, low / 1.5, high * 1.5)
    chart = roofs_chart(marks, lines, NETWORKS)
    return make_figure("pagoda-roofs", chart, mark_table(marks))


def comparison_figure(found: Pagoda) -> Figure:
    """Estimates over measured times and powers."""
    frame = comparison(found.points)
    grounds = [
        (measured, estimate, title, diagonal(frame, measured, estimate, WITHIN))
        for measured, estimate, title in (
            ("measured_ms", "estimate_ms", "time, ms"),
            ("measured_w", "estimate_w", "power, W"),
        )
    ]
    chart = comparison_chart(frame, grounds, NETWORKS)
    return make_figure("pagoda-comparison", chart, point_table(found.points))


def point_table(points: pl.DataFrame) -> Table:
    """The 25 measured points with our times and powers beside them."""
    rows = [
        [
            display_name(row["network"]),
            str(row["batch"]),
            _scaled(row["measured_s"], 1e-3),
            _scaled(row["estimate_s"], 1e-3),
            _error(row["estimate_s"], row["measured_s"]),
            _scaled(row["least_fp32_s"], 1e-3),
            _scaled(row["least_tf32_s"], 1e-3),
            _scaled(row["measured_w"], 1.0, 3),
            _scaled(row["estimate_w"], 1.0, 3),
            _error(row["estimate_w"], row["measured_w"]),
            display_text(row["remark"]) if row["remark"] else "",
        ]
        for row in points.iter_rows(named=True)
    ]
    return Table(
        "Pagoda's measured points, and our estimates",
        (
            *("Network", "Batch", "Measured, ms", "Estimate, ms", "Error"),
            *("At the roofs FP32, ms", "At the roofs TF32, ms"),
            *("Measured, W", "Estimate, W", "Error", "Remark"),
        ),
        rows,
        frozenset(range(1, 10)),
    )


def _scaled(value: float | None, unit: float, n_digits: int = 4) -> str:
    return UNKNOWN if value is None else digits(value / unit, n_digits)


def _ratio(one: float | None, other: float | None, n_digits: int = 3) -> str:
    return UNKNOWN if one is None or not other else digits(one / other, n_digits)


def _error(estimate: float | None, measured: float | None) -> str:
    if estimate is None or not measured:
        return UNKNOWN
    return f"{100 * (estimate / measured - 1):+.0f}{NBSP}%"


def mark_table(marks: pl.DataFrame) -> Table:
    """The points of the roofline chart."""
    rows = [
        [
            display_name(row["network"]),
            str(row["batch"]),
            row["count"],
            digits(row["intensity"]),
            digits(row["rate"]),
        ]
        for row in marks.iter_rows(named=True)
    ]
    columns = ("Network", "Batch", "By", "FLOP/byte", "GFLOP/s")
    return Table("Points under the roofs", columns, rows, frozenset({1, 3, 4}))
