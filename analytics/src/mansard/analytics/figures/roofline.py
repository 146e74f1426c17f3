"""The roofline of time: the roofs of each mode, and the networks under them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import quantity
from mansard.analytics.figures.charting import inline, log_scale, tooltips
from mansard.analytics.figures.figure import GIGA, Figure, Missing, dropped_note, make_figure
from mansard.analytics.figures.label_layout import (
    HEIGHT_PX,
    ROOF_LABEL_SCHEMA,
    WIDTH_PX,
    Window,
    place_labels,
    right_labels,
    roof_label,
)
from mansard.analytics.figures.network_points import (
    Points,
    label_marks,
    layer_marks,
    leader_marks,
    network_marks,
    spots,
    under_roofs,
)
from mansard.analytics.figures.parameters import Chosen, Name, equals, equals_or_all
from mansard.analytics.figures.tables import Table, ceiling_text, value_text
from mansard.analytics.results import Results
from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.levels import DRAM
from mansard.analytics.roofs.roofline import Roofline

MOST_BELOW = 6  # layers this far left of everything else are not drawn: they move and do not work


_LINE_SCHEMA = {
    "mode": pl.String,
    "line": pl.String,
    "level": pl.String,
    "precision": pl.String,  # of a peak; "" of a memory roof
    "x": pl.Float64,
    "y": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


_RIDGE_SCHEMA = {
    "mode": pl.String,
    "precision": pl.String,
    "text": pl.String,
    "interval": pl.String,
    "x": pl.Float64,
    "y": pl.Float64,
}


def window(
    roofs: Sequence[Roofline],
    points: pl.DataFrame,
    layers: pl.DataFrame,
    size_px: tuple[int, int] = (WIDTH_PX, HEIGHT_PX),
) -> Window:
    """One window for all modes, so that switching modes shows what moves."""
    inner = layers["intensity"].to_list()
    ridges = [ridge.value for roof in roofs for ridge in roof.ridges()]
    intensities = [*ridges, *points["intensity"].to_list()] or [1.0]
    peaks = [peak.value / GIGA for roof in roofs for peak in roof.peaks if peak.value]
    slopes = [
        ceiling.value / GIGA
        for roof in roofs
        for ceiling in (roof.bandwidth(level.name) for level in roof.levels)
        if ceiling.value
    ]
    x_low, x_high = (
        max(min([min(intensities) / 3, *inner]), min(intensities) / 3 / MOST_BELOW) / 1.5,
        max([max(intensities) * 6, *inner]) * 1.5,
    )
    top = max(peaks, default=max(slopes, default=1.0) * x_high)
    bottom = min(slopes, default=top / 1e4) * x_low
    lowest = min([bottom, *points["rate"].to_list()])
    return Window(x_low, x_high, lowest, top * 2.2, *size_px)


def roof_lines(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Two ends of every roof: memory roofs up to their highest ridge, peaks from theirs."""
    rows: list[dict[str, object]] = []
    for roof in roofs:
        slopes = [c for c in (roof.bandwidth(level.name) for level in roof.levels) if c.value]
        peaks = [peak for peak in roof.peaks if peak.value]
        top = max((peak.value or 0.0 for peak in peaks), default=math.inf)
        steepest = max((slope.value or 0.0 for slope in slopes), default=math.inf)
        for slope in slopes:
            assert slope.value  # noqa: S101 - filtered above
            start = max(seen.x_low, seen.y_low * GIGA / slope.value)
            end = min(top / slope.value, seen.x_high)
            rows += _memory_roof(roof.label, slope, start, end, top / GIGA)
        for peak in peaks:
            assert peak.value  # noqa: S101 - filtered above
            level = "peak" if peak.value == top else "lower peak"
            rows += _peak_roof(
                roof.label, peak, level, max(peak.value / steepest, seen.x_low), seen
            )
    return pl.DataFrame(rows, schema=_LINE_SCHEMA)


def roof_area(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """What is attainable from main memory at the highest peak: three vertices per mode."""
    rows = []
    for roof in roofs:
        slope = roof.bandwidth(DRAM).value
        top = max((peak.value for peak in roof.peaks if peak.value), default=None)
        if slope is None or top is None:
            continue
        for x in (seen.x_low, top / slope, seen.x_high):
            y = max(min(top, slope * x) / GIGA, seen.y_low)
            rows.append({"mode": roof.label, "x": x, "y": y, "base": seen.y_low})
    schema = {"mode": pl.String, "x": pl.Float64, "y": pl.Float64, "base": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def ridge_points(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """Where each peak meets the roof of main memory."""
    rows = [
        {
            "mode": roof.label,
            "precision": ridge.precision,
            "text": f"{ridge.name} meets {ridge.level}",
            "interval": quantity(ridge.value, "FLOP/byte", ridge.low, ridge.high),
            "x": ridge.value,
            "y": (roof.peak(ridge.precision, ridge.family).value or 0.0) / GIGA,
        }
        for roof in roofs
        for ridge in roof.ridges()
        if ridge.level == DRAM
    ]
    return pl.DataFrame(rows, schema=_RIDGE_SCHEMA)


def _memory_roof(
    mode: str, slope: Ceiling, start: float, end: float, top: float
) -> list[dict[str, object]]:
    return [
        {
            "mode": mode,
            "line": f"{slope.subject}: {ceiling_text(slope)}",
            "level": slope.subject,
            "precision": "",
            "x": x,
            "y": _scaled(slope.value, x),
            "low": _scaled(slope.low, x),
            "high": None if slope.high is None else min(top, slope.high * x / GIGA),
        }
        for x in (start, end)
    ]


def _peak_roof(
    mode: str, peak: Ceiling, level: str, start: float, seen: Window
) -> list[dict[str, object]]:
    return [
        {
            "mode": mode,
            "line": f"{peak.name} peak: {ceiling_text(peak)}",
            "level": level,
            "precision": peak.subject,
            "x": x,
            "y": _scaled(peak.value, 1.0),
            "low": _scaled(peak.low, 1.0),
            "high": _scaled(peak.high, 1.0),
        }
        for x in (start, seen.x_high)
    ]


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor / GIGA


LABEL_GAP_PX = 22  # the height of a line of text, on the slope


def roof_labels(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Where each roof is named: memory roofs along their lower end, peaks at the right."""
    rows: list[dict[str, object]] = []
    for roof in roofs:
        slopes = [c for c in (roof.bandwidth(level.name) for level in roof.levels) if c.value]
        previous_px, shift_px = math.inf, 0.0
        for slope in sorted(slopes, key=lambda slope: slope.value or 0.0, reverse=True):
            assert slope.value  # noqa: S101 - filtered above
            height_px = math.log10(slope.value) * seen.y_per_decade_px
            crowded = previous_px - height_px < LABEL_GAP_PX
            shift_px = shift_px + 110.0 if crowded else 0.0
            previous_px = height_px
            start = max(seen.x_low, seen.y_low * GIGA / slope.value)
            x = start * 10 ** ((14 + shift_px) / seen.x_per_decade_px)
            text = f"{slope.subject}  {value_text(slope)}"
            rows.append(roof_label(roof.label, "", "memory", text, x, slope.value * x / GIGA))
        rows += _peak_labels(roof, seen)
    return pl.DataFrame(rows, schema=ROOF_LABEL_SCHEMA)


def _peak_labels(roof: Roofline, seen: Window) -> Iterator[dict[str, object]]:
    peaks = [
        (peak.subject, f"{peak.name} peak  {value_text(peak)}", peak.value / GIGA)
        for peak in roof.peaks
        if peak.value
    ]
    return right_labels(roof.label, peaks, seen)


@dataclass(frozen=True, eq=False)
class RoofFrames:
    """What ``roofline_chart`` draws; see ``roof_geometry`` and ``chart_data``."""

    lines: pl.DataFrame
    area: pl.DataFrame
    labels: pl.DataFrame
    ridges: pl.DataFrame
    networks: pl.DataFrame
    network_labels: pl.DataFrame
    layers: pl.DataFrame
    has_key: bool  # whether a key tells the networks apart: not each found room for its name
    seen: Window


def roofline_chart(frames: RoofFrames, chosen: Chosen, networks: Sequence[str]) -> alt.LayerChart:
    """Performance over intensity, both logarithmic, with networks and one network's layers."""
    seen = frames.seen
    x = alt.X("x:Q", scale=log_scale(seen.x_low, seen.x_high), axis=intensity_axis(seen))
    y = alt.Y("y:Q", scale=log_scale(seen.y_low, seen.y_high), axis=value_axis("GFLOP/s", seen))
    named = f"{equals('batch')} && {equals_or_all('network')}"
    layers: list[alt.Chart] = [
        _area(frames.area, x, y),
        _bands(frames.lines, x),
        *_lines(frames.lines, x, y),
        *_roof_labels(frames.labels, x, y, seen),
        _ridges(frames.ridges, x, y),
        layer_marks(frames.layers, "rate"),
        *leader_marks(frames.network_labels, named),
        network_marks(frames.networks, networks, "rate", with_key=frames.has_key),
        *label_marks(frames.network_labels, x, y, named),
    ]
    shown = f"{equals('mode')} && {equals_or_all('precision')}"
    in_mode = [
        layer.transform_filter(equals("mode") if layer is layers[0] else shown) for layer in layers
    ]
    names: tuple[Name, ...] = ("mode", "batch", "network", "precision")
    chart: alt.LayerChart = (
        alt.layer(*in_mode)
        .add_params(*[chosen.parameter(name) for name in names])
        .resolve_scale(size="independent", shape="shared")
        .properties(
            width=seen.width_px,
            height=seen.height_px,
            description="Time roofline: attainable GFLOP/s over intensity in FLOP/byte, with the "
            "roofs of the chosen power mode and the networks under them",
        )
    )
    return chart


def intensity_axis(seen: Window) -> alt.Axis:
    """The axis of intensities of every roofline."""
    return _tick_axis("Intensity, FLOP/byte", seen.x_ticks)


def value_axis(title: str, seen: Window) -> alt.Axis:
    """The axis up, whatever is drawn on it."""
    return _tick_axis(title, seen.y_ticks)


def _area(area: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(inline(area)).mark_area(style="m-roof-area").encode(x=x, y=y, y2=alt.Y2("base:Q"))
    )
    return chart


def _bands(lines: pl.DataFrame, x: alt.X) -> alt.Chart:
    known = lines.filter(pl.col("low").is_not_null())
    chart: alt.Chart = (
        alt.Chart(inline(known))
        .mark_area(style="m-roof-band", clip=True)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), detail="line:N")
    )
    return chart


def _lines(lines: pl.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    base = alt.Chart(inline(lines)).encode(x=x, y=y, detail="line:N", tooltip="line:N")
    bold = "datum.level === 'DRAM' || datum.level === 'peak'"
    return [
        base.mark_line(style="m-roof-cache").transform_filter(f"!({bold})"),
        base.mark_line(style="m-roof").transform_filter(bold),
    ]


def _roof_labels(labels: pl.DataFrame, x: alt.X, y: alt.Y, seen: Window) -> list[alt.Chart]:
    charts: list[alt.Chart] = []
    for style in ("m-roof-label-halo", "m-roof-label"):
        base = alt.Chart(inline(labels)).encode(x=x, y=y, text="text:N")
        charts += [
            base.mark_text(
                style=style, align="left", dy=-9, angle=seen.angle_deg % 360
            ).transform_filter("datum.kind === 'memory'"),
            base.mark_text(style=style, align="right", dx=-4, dy=-10).transform_filter(
                "datum.kind === 'compute'"
            ),
        ]
    return charts


def _ridges(ridges: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(inline(ridges))
        .mark_point(style="m-ridge", size=60, shape="diamond", opacity=1)
        .encode(
            x=x,
            y=y,
            tooltip=tooltips(text="ridge", interval="at"),
        )
    )
    return chart


def _tick_axis(title: str, values: Sequence[float]) -> alt.Axis:
    return alt.Axis(title=title, format=".12~g", values=list(values))


MOST_KEYS = 12  # networks in a key above the chart; of more their names and tooltips tell


WHOLE_PX, HALF_PX = (900, 500), (470, 430)


NO_ROOFS = (
    "No roofs: nothing was measured here and no ceilings were imported. `mansard bench` measures "
    "them, `mansard import` takes a table of GFLOP/s and GB/s."
)


def roofline_figure(
    results: Results, chosen: Chosen, points: Points, *, is_half: bool
) -> Figure | Missing:
    """The roofs of each mode and the networks under them, or why there are none."""
    if not results.roofs:
        return Missing(NO_ROOFS)
    layers = under_roofs(points.layers, "rate")
    size_px = HALF_PX if is_half else WHOLE_PX
    seen = window(results.roofs, points.networks, layers, size_px)
    roof_names = roof_labels(results.roofs, seen)
    lines = roof_lines(results.roofs, seen)
    named = spots(points.networks, "rate")
    labels = place_labels(named, roof_names, lines, seen)
    frames = RoofFrames(
        lines=lines,
        area=roof_area(results.roofs, seen),
        labels=roof_names,
        ridges=ridge_points(results.roofs),
        networks=points.networks,
        network_labels=labels,
        layers=points.layers,
        has_key=len(labels) < len(named) and len(points.names) <= MOST_KEYS,
        seen=seen,
    )
    chart = roofline_chart(frames, chosen, points.names)
    why = "their time or their work is unknown or zero"
    notes = dropped_note(points.n_networks_dropped, "networks", why)
    if len(labels) < len(named):
        notes += ("Where points stand close, not each has its name beside it: point at it.",)
    return make_figure("roofline", chart, roofline_points(points.networks), notes)


def roofline_points(frame: pl.DataFrame) -> Table:
    """Networks under the roofs."""
    rows = [
        [
            row["network"],
            row["mode"],
            row["batch"],
            row["precision"],
            f"{row['intensity']:,.4g}",
            f"{row['rate']:,.4g}",
            row["time"],
            row["bound"],
        ]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("Network", "Mode", "Batch", "Precision", "FLOP/byte", "GFLOP/s", "Time", "Bound by")
    return Table("Networks as drawn", columns, rows, frozenset({4, 5, 6}))
