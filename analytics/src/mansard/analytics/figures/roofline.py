"""The roofline of time: the roofs of each mode, and the networks under them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import quantity
from mansard.analytics.figures.charting import Chart, following, log_scale, plot, told
from mansard.analytics.figures.figure import (
    GIGA,
    Figure,
    Following,
    Missing,
    Row,
    dropped_note,
    make_figure,
    schema_of,
)
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
    measured_marks,
    network_marks,
    spots,
    under_roofs,
)
from mansard.analytics.figures.parameters import Chosen, Name, equals, equals_or_all
from mansard.analytics.figures.selection import How, LiveTable, Shown, heading
from mansard.analytics.figures.tables import Column, ceiling_text, value_text
from mansard.analytics.results import Results
from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.levels import DRAM
from mansard.analytics.roofs.roofline import Roofline

WHOLE_PX, HALF_PX = (WIDTH_PX, HEIGHT_PX), (470, 430)
MOST_BELOW = 6  # layers this far left of everything else are not drawn: they move and do not work
MOST_KEYS = 12  # networks in a key above the chart; of more their names and tooltips tell
LABEL_GAP_PX = 22  # the height of a line of text, on the slope
_CAPTION = (
    "Heavy lines are the roofs of main memory and of arithmetic, thin lines the roofs of the "
    "caches. The shaded area can be reached with data from main memory. Diamonds mark the ridge "
    "points. A network stands at the best that the roofs allow it{not_measured}. It lies below the "
    "roof where some of its layers are bound by memory and others by arithmetic. Choosing a "
    "network shows its slowest layers, larger where they take more of its time."
)
_MEASURED_CAPTION = (
    "Solid marks are networks that were run: their work over the measured time. Hollow ones of the "
    "same colour and shape are the best that the roofs allow them."
)
NO_ROOFS = (
    "No roofs: no kernel was measured here and no ceilings were imported. `mansard bench` measures "
    "them, `mansard import` takes a table of GFLOP/s and GB/s."
)
NO_ROOF_HERE = (
    "{mode} has no roofs: no kernel was measured in it and no ceilings of it were imported. "
    "`mansard bench` measures them, `mansard import` takes a table of GFLOP/s and GB/s."
)
HEADING = "{mode}, batch {batch}"
# A filter: rows of the chosen mode and precision.
OF_MODE = f"{equals('mode')} && {equals_or_all('precision')}"
# "precision" is that of a peak, and "" for a memory roof.
_LINE_SCHEMA = schema_of(text="mode line level precision", number="x y low high")


def roofline_figure(
    results: Results, chosen: Chosen, points: Points, *, is_half: bool
) -> Figure | Missing:
    """The roofs of each mode and the networks under them, or why there are none."""
    if not results.roofs:
        return Missing(NO_ROOFS)
    size_px = HALF_PX if is_half else WHOLE_PX
    seen = window(results.roofs, points, size_px)
    roof_names = roof_labels(results.roofs, seen)
    lines = roof_lines(results.roofs, seen)
    named = spots(points.networks, "rate")
    labels = place_labels(named, roof_names, lines, seen, spots(points.measured, "rate"))
    has_key = len(labels) < len(named) and len(points.names) <= MOST_KEYS
    x, y = axes(seen, "y", "GFLOP/s")
    marks = [
        _bands(lines, x),
        *_lines(lines, x, y),
        *_label_marks(roof_names, x, y, seen),
        _ridges(ridge_points(results.roofs), x, y),
        layer_marks(points.layers, "rate"),
        leader_marks(labels),
        network_marks(
            points.networks,
            points.names,
            "rate",
            with_key=has_key,
            are_hollow=not points.measured.is_empty(),
        ),
        *measured_marks(points.measured, points.names, "rate"),
        *label_marks(labels, x, y),
    ]
    area = plot(roof_area(results.roofs, seen)).mark_area(style="m-roof-area")
    chart = following(
        alt.layer(
            area.encode(x=x, y=y, y2=alt.Y2("base:Q")).transform_filter(equals("mode")),
            *[mark.transform_filter(OF_MODE) for mark in marks],
        ).resolve_scale(size="independent", shape="shared"),
        chosen,
        *("mode", "batch", "network", "precision"),
        width=seen.width_px,
        height=seen.height_px,
        title=heading("Roofs"),
        description="Time roofline: attainable GFLOP/s over intensity in FLOP/byte, with the "
        "roofs of the chosen power mode and the networks under them",
    )
    why = "their time or their work is unknown or zero; counted over all modes"
    notes = dropped_note(points.n_networks_dropped, "networks", why)
    if len(labels) < len(named):
        notes += ("Where points are close, some names are left out; the tooltips have them.",)
    columns = (
        *(Column.text("Network", "network"), Column.text("Batch", "batch")),
        Column.text("Precision", "precision"),
        *(Column.number("FLOP/byte", "intensity"), Column.number("GFLOP/s", "rate")),
        *(Column.text("Time", "time", is_numeric=True), Column.text("Bound by", "bound")),
        *([] if points.measured.is_empty() else [Column.text("Modelled, or run by", "engine")]),
    )
    table = LiveTable(
        "roofline", "{network} as drawn in {mode}, batch {batch}", columns, under(points)
    )
    follows = Following(Shown(lines, {"mode": "equal"}), chosen, HEADING, NO_ROOF_HERE)
    caption = _caption(is_measured=not points.measured.is_empty())
    return make_figure("roofline", chart, table, caption, notes, follows=follows)


def _caption(*, is_measured: bool) -> tuple[str, ...]:
    if is_measured:
        return (_CAPTION.format(not_measured=""), _MEASURED_CAPTION)
    return (_CAPTION.format(not_measured=", and not where it was measured"),)


def under(points: Points) -> Shown:
    """The networks under the roofs of the chosen mode."""
    by: dict[Name, How] = {"mode": "equal", "batch": "equal", "network": "all", "precision": "all"}
    return Shown(points.drawn, by)


def axes(seen: Window, height: str, title: str) -> tuple[alt.X, alt.Y]:
    """Intensity across and the column ``height`` up, both logarithmic."""

    def axis(name: str, ticks: list[float]) -> alt.Axis:
        return alt.Axis(title=name, format=".12~g", values=ticks)

    return (
        alt.X(
            "x:Q",
            scale=log_scale(seen.x_low, seen.x_high),
            axis=axis("Intensity, FLOP/byte", seen.x_ticks),
        ),
        alt.Y(
            f"{height}:Q",
            scale=log_scale(seen.y_low, seen.y_high),
            axis=axis(title, seen.y_ticks),
        ),
    )


def window(roofs: Sequence[Roofline], points: Points, size_px: tuple[int, int]) -> Window:
    """One window for all modes, so that switching modes shows what moves."""
    inner = under_roofs(points.layers, "rate")["intensity"].to_list()
    ridges = [ridge.value for roof in roofs for ridge in roof.ridges()]
    intensities = [*ridges, *points.networks["intensity"].to_list()] or [1.0]
    peaks = [peak / GIGA for roof in roofs for _, peak in _known(roof.peaks)]
    slopes = [slope / GIGA for roof in roofs for _, slope in _slopes(roof)]
    lowest = min(intensities) / 3
    x_low = max(min([lowest, *inner]), lowest / MOST_BELOW) / 1.5
    x_high = max([max(intensities) * 6, *inner]) * 1.5
    top = max(peaks, default=max(slopes, default=1.0) * x_high)
    bottom = min(slopes, default=top / 1e4) * x_low
    y_low = min([bottom, *points.drawn["rate"].to_list()])
    return Window(x_low, x_high, y_low, top * 2.2, *size_px)


def roof_lines(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Two ends of every roof: memory roofs up to their highest ridge, peaks from theirs."""
    rows: list[Row] = []
    for roof in roofs:
        slopes, peaks = _slopes(roof), _known(roof.peaks)
        top = max((peak for _, peak in peaks), default=math.inf)
        steepest = max((slope for _, slope in slopes), default=math.inf)
        for found, slope in slopes:
            own = {
                "mode": roof.label,
                "line": f"{found.subject}: {ceiling_text(found)}",
                "level": found.subject,
                "precision": "",
            }
            for x in (_left_end(slope, seen), min(top / slope, seen.x_high)):
                high = None if found.high is None else min(top / GIGA, found.high * x / GIGA)
                rows.append({**own, "x": x, **_heights(found, x), "high": high})
        for found, peak in peaks:
            own = {
                "mode": roof.label,
                "line": f"{found.name} peak: {ceiling_text(found)}",
                "level": "peak" if peak == top else "lower peak",
                "precision": found.subject,
            }
            for x in (max(peak / steepest, seen.x_low), seen.x_high):
                rows.append({**own, "x": x, **_heights(found, 1.0)})
    return pl.DataFrame(rows, schema=_LINE_SCHEMA)


def roof_area(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """What is attainable from main memory at the highest peak: three vertices per mode."""
    rows = []
    for roof in roofs:
        slope = roof.bandwidth(DRAM).value
        top = max((peak for _, peak in _known(roof.peaks)), default=None)
        if slope is None or top is None:
            continue
        for x in (seen.x_low, top / slope, seen.x_high):
            y = max(min(top, slope * x) / GIGA, seen.y_low)
            rows.append({"mode": roof.label, "x": x, "y": y, "base": seen.y_low})
    return pl.DataFrame(rows, schema=schema_of(text="mode", number="x y base"))


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
    return pl.DataFrame(rows, schema=schema_of(text="mode precision text interval", number="x y"))


def roof_labels(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Where each roof is named: memory roofs along their lower end, peaks at the right."""
    rows: list[Row] = []
    for roof in roofs:
        previous_px, shift_px = math.inf, 0.0
        for found, slope in sorted(_slopes(roof), key=lambda pair: pair[1], reverse=True):
            height_px = math.log10(slope) * seen.y_per_decade_px
            crowded = previous_px - height_px < LABEL_GAP_PX
            shift_px = shift_px + 110.0 if crowded else 0.0
            previous_px = height_px
            x = _left_end(slope, seen) * 10 ** ((14 + shift_px) / seen.x_per_decade_px)
            text = f"{found.subject}  {value_text(found)}"
            rows.append(roof_label(roof.label, "", "memory", text, x, slope * x / GIGA))
        names = [
            (found.subject, f"{found.name} peak  {value_text(found)}", peak / GIGA)
            for found, peak in _known(roof.peaks)
        ]
        rows += right_labels(roof.label, names, seen)
    return pl.DataFrame(rows, schema=ROOF_LABEL_SCHEMA)


def _known(ceilings: Iterable[Ceiling]) -> list[tuple[Ceiling, float]]:
    return [(ceiling, ceiling.value) for ceiling in ceilings if ceiling.value]


def _slopes(roof: Roofline) -> list[tuple[Ceiling, float]]:
    return _known(roof.bandwidth(level.name) for level in roof.levels)


def _left_end(slope: float, seen: Window) -> float:
    return max(seen.x_low, seen.y_low * GIGA / slope)


def _heights(found: Ceiling, factor: float) -> dict[str, float | None]:
    ends = {"y": found.value, "low": found.low, "high": found.high}
    return {name: None if end is None else end * factor / GIGA for name, end in ends.items()}


def _bands(lines: pl.DataFrame, x: alt.X) -> Chart:
    known = plot(lines.filter(pl.col("low").is_not_null()))
    band = known.mark_area(style="m-roof-band", clip=True)
    return band.encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), detail="line:N")


def _lines(lines: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    base = plot(lines).encode(x=x, y=y, detail="line:N", tooltip="line:N")
    bold = "datum.level === 'DRAM' || datum.level === 'peak'"
    return [
        base.mark_line(style="m-roof-cache").transform_filter(f"!({bold})"),
        base.mark_line(style="m-roof").transform_filter(bold),
    ]


def _label_marks(labels: pl.DataFrame, x: alt.X, y: alt.Y, seen: Window) -> list[Chart]:
    marks = []
    for style in ("m-roof-label-halo", "m-roof-label"):
        base = plot(labels).encode(x=x, y=y, text="text:N")
        on_slope = base.mark_text(style=style, align="left", dy=-9, angle=seen.angle_deg % 360)
        level = base.mark_text(style=style, align="right", dx=-4, dy=-10)
        marks.append(on_slope.transform_filter("datum.kind === 'memory'"))
        marks.append(level.transform_filter("datum.kind === 'compute'"))
    return marks


def _ridges(ridges: pl.DataFrame, x: alt.X, y: alt.Y) -> Chart:
    diamonds = plot(ridges).mark_point(style="m-ridge", size=60, shape="diamond", opacity=1)
    return told(diamonds, text="ridge", interval="at").encode(x=x, y=y)
