"""The roofline of time: the roofs of each mode, and the networks under them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import GIGA, counted, quantity
from mansard.analytics.models.roofs.ceilings import DRAM, Ceiling
from mansard.analytics.models.roofs.roofline import Ridge, Roofline
from mansard.analytics.pages.figures.charting import Chart, following, log_scale, plot, with_tooltip
from mansard.analytics.pages.figures.figure import (
    Figure,
    Following,
    Missing,
    Prefix,
    Row,
    dropped_note,
    make_figure,
    schema_of,
    si_prefix,
)
from mansard.analytics.pages.figures.naming import (
    NamedLine,
    Names,
    layout_width,
    place_names,
    point_name_marks,
    roof_name_marks,
)
from mansard.analytics.pages.figures.network_points import (
    MOST_HOLLOW,
    SIGNS,
    Points,
    layer_marks,
    network_marks,
    spots,
    under_roofs,
)
from mansard.analytics.pages.figures.parameters import (
    EVERY,
    Chosen,
    How,
    LiveTable,
    Name,
    Shown,
    equals,
    equals_or_all,
    title_lines,
)
from mansard.analytics.pages.figures.plane import Window, extent
from mansard.analytics.pages.figures.tables import Column, ceiling_text, value_text
from mansard.analytics.pages.results import Results
from mansard.core.precision import unit_title, work_unit

WIDTH_PX = 500
ONE_LINE = 0.02  # peaks this near to each other have one name, with the value of the highest
LOWEST = 15  # the height of the plane goes at least as far below the highest roof
_CAPTION = (
    "Heavy lines: main memory and the highest peak. Thin lines: caches and lower peaks. Shaded: "
    "within reach from main memory. Diamonds: ridge points. Colour and shape: the limit of most of "
    "the time. A chosen network shows its slowest layers. Marker size: share of time."
)
_CHOICE_CAPTION = (
    "{solid}{hollow} Hollow: modelled, at best. At most {most} are drawn; the table has all. "
    "Overlapping labels are hidden."
)
_SOLID_CAPTION = "{sign} Solid: measured. "
NO_ROOFS = (
    "No roofs: `mansard bench` measures them, `mansard data import` reads a table of GFLOP/s and "
    "GB/s."
)
NO_ROOF_HERE = (
    "{mode} has no roofs: `mansard bench` measures them, `mansard data import` reads a table of "
    "GFLOP/s and GB/s."
)
HEADING = "{mode}, batch {batch}"
# A filter: rows of the chosen mode and precision.
OF_MODE = f"{equals('mode')} && {equals_or_all('precision')}"
# For Vega: the highest peak of a row's mode in the chosen precision, else of all precisions; a
# mode without peaks has no limit.
_TOP = f"(tops[datum.mode + '|' + precision] || tops[datum.mode + '|{EVERY}'] || 1e300)"
_ACROSS, _HEIGHT = "shown_x", "shown_y"  # of what memory roofs and the area show below _TOP
# "precision" is that of a peak, and "" for a memory roof.
_LINE_SCHEMA = schema_of(text="mode line level precision", number="x y")
_BAND_SCHEMA = schema_of(text="mode line precision", number="x low high")
_Ends = tuple[float, float]  # of an interval, or of a line


def roofline_figure(results: Results, chosen: Chosen, points: Points) -> Figure | Missing:
    """The chart of each mode's roofs with its networks; else why there is none."""
    if not results.roofs:
        return Missing(NO_ROOFS)
    seen = window(results.roofs, points)
    lines = roof_lines(results.roofs, seen)
    ridges = ridge_points(results.roofs)
    names = place_names(named_roofs(results.roofs, seen), ridges, spots(points.marks, "rate"), seen)
    precisions = [peak.subject for roof in results.roofs for peak, _ in _known(roof.peaks)]
    precisions += points.every["precision"].to_list()
    prefix = si_prefix(seen.y_high)
    rate = unit_title(f"{prefix.letter}{{}}/s", precisions)
    intensity = unit_title("{}/byte", precisions)
    x, y = axes(seen, "y", rate, intensity, prefix)
    shown_x, shown_y = axes(seen, _HEIGHT, rate, intensity, prefix, across=_ACROSS)
    marks = [
        _bands(roof_bands(results.roofs, seen), x),
        *_lines(lines, shown_x, shown_y),
        _ridges(ridges, x, y),
        layer_marks(points.layers, "rate"),
    ]
    area = _under_top(plot(roof_area(results.roofs, seen)), along="datum.is_ridge")
    area = area.mark_area(style="m-roof-area")
    chart = following(
        alt.layer(
            area.encode(x=shown_x, y=shown_y, y2=alt.Y2("base:Q")).transform_filter(equals("mode")),
            *[mark.transform_filter(OF_MODE) for mark in marks],
            *roof_name_marks(names.roofs, x, y, seen, _TOP),
            *network_marks(points, "rate", with_key=True),
            *point_name_marks(names.points, x, y, seen),
        )
        .resolve_scale(size="independent", shape="shared")
        .add_params(alt.param(name="tops", value=_tops(results.roofs))),
        chosen,
        *("mode", "batch", "network", "precision"),
        width=seen.width_px,
        height=seen.height_px,
        title=title("Roofs"),
        description=f"Time roofline: attainable {rate} over intensity in {intensity}, with the "
        "roofs of the chosen power mode and the networks under them",
    )
    why = "unknown or zero time or work, in all modes"
    notes = dropped_note(points.n_networks_dropped, "networks", why)
    caption = "{network} in {mode}, batch {batch}"
    table = LiveTable("roofline", caption, _columns(points, prefix), under(points))
    follows = Following(Shown(lines, {"mode": "equal"}), chosen, HEADING, NO_ROOF_HERE)
    return make_figure(
        "roofline",
        chart,
        table,
        captions(points),
        notes,
        follows=follows,
        subtitle=subtitle(points, names, seen),
    )


def _columns(points: Points, prefix: Prefix) -> tuple[Column, ...]:
    precisions = points.every["precision"].to_list()
    return (
        *(Column.text("Network", "network"), Column.text("Batch", "batch")),
        Column.text("Precision", "precision"),
        Column.number(unit_title("{}/byte", precisions), "intensity"),
        Column.number(unit_title(f"{prefix.letter}{{}}/s", precisions), "rate", per=prefix.per),
        Column.number("Of the roof, %", "share"),
        *(Column.text("Time", "time", is_numeric=True), Column.text("Bound by", "bound")),
        *([] if points.measured.is_empty() else [Column.text("Source", "engine")]),
    )


def captions(points: Points) -> tuple[str, ...]:
    """What the marks of the roofline are, and which networks are drawn."""
    if points.networks.is_empty():
        return (_CAPTION,)
    solid = "" if points.measured.is_empty() else _SOLID_CAPTION.format(sign=SIGNS["measured"])
    choice = _CHOICE_CAPTION.format(solid=solid, hollow=SIGNS["modelled"], most=MOST_HOLLOW)
    return (choice, _CAPTION)


def title(text: str, offset_px: float = 4.0) -> alt.TitleParams:
    """A chart's title: ``text``, what the chart shows now, and the network that is chosen."""
    one = "(network === '' ? '' : ', ' + network)"
    lines = title_lines(f"'{text}, ' + heading + {one}")
    return alt.TitleParams(text=lines, offset=offset_px)


def subtitle(points: Points, names: Names, seen: Window, height: str = "rate") -> str:
    """What is drawn and what is not, for Vega, at its choice of mode and batch and its width."""
    said: dict[str, str] = {}
    n_names = names.counts()
    for row in points.counts(height).iter_rows(named=True):
        ran = f"{SIGNS['measured']} {row['n_measured']} measured" if row["n_measured"] else ""
        of = "" if row["n_drawn"] == row["n_modelled"] else f" of {row['n_modelled']}"
        hollow = f"{SIGNS['modelled']} {row['n_drawn']}{of} modelled" if row["n_modelled"] else ""
        precision, n_marks = row["precision"], row["n_measured"] + row["n_drawn"]
        for (mode, batch, width_px), n_unnamed in names.n_unnamed.items():
            if (mode, batch) == (row["mode"], row["batch"]):
                n_named = n_names[mode, batch, width_px, precision]
                n_hidden = n_unnamed if precision == EVERY else n_marks - n_named
                hidden = f"{counted(n_hidden, 'label')} hidden" if n_hidden else ""
                line = ", ".join(filter(None, (ran, hollow, hidden)))
                said[f"{mode}|{batch}|{width_px}|{precision}"] = line
    key = f"mode + '|' + batch + '|' + {layout_width(seen)} + '|' + precision"
    return f"({json.dumps(said)})[{key}] || ''"


def under(points: Points) -> Shown:
    """The networks under the roofs of the chosen mode."""
    by: dict[Name, How] = {"mode": "equal", "batch": "equal", "network": "all", "precision": "all"}
    return Shown(points.every, by)


def axes(
    seen: Window,
    height: str,
    title: str,
    intensity: str,
    prefix: Prefix | None = None,
    across: str = "x",
) -> tuple[alt.X, alt.Y]:
    """Intensity ``across``, in the unit ``intensity``, and the column ``height`` up, both
    logarithmic. ``prefix``: of the unit in ``title``, where the column is in 10⁹."""
    label = alt.Undefined if prefix is None else prefix.tick
    return (
        alt.X(
            f"{across}:Q",
            scale=log_scale(seen.x_low, seen.x_high),
            axis=alt.Axis(title=f"Intensity, {intensity}", format=".12~g", values=seen.x_ticks),
        ),
        alt.Y(
            f"{height}:Q",
            scale=log_scale(seen.y_low, seen.y_high),
            axis=alt.Axis(title=title, format=".12~g", values=seen.y_ticks, labelExpr=label),
        ),
    )


def window(roofs: Sequence[Roofline], points: Points) -> Window:
    """One window for all modes, so that switching modes shows what moves.

    It has the ridge points of main memory, those of the caches with the highest peak, and every
    network; upwards a little more than the highest roof, downwards enough that roofs have a slope.
    """
    ridges = [ridge.value for roof in roofs for ridge in _outer_ridges(roof)]
    networks = under_roofs(points.every, "rate")
    across = [*ridges, *networks["intensity"].to_list()]
    x_low, x_high = extent(across, 2.0, 3.0, least=30.0)
    peaks = [peak / GIGA for roof in roofs for _, peak in _known(roof.peaks)]
    slopes = [slope / GIGA for roof in roofs for _, slope in _slopes(roof)]
    highs = [*networks["rate"].to_list(), *peaks] or [slope * x_high for slope in slopes]
    top = max(highs, default=1.0)
    y_low, y_high = extent([*highs, top / LOWEST], 2.0, 1.9, least=LOWEST)
    return Window(x_low, x_high, y_low, y_high, WIDTH_PX)


def _outer_ridges(roof: Roofline) -> list[Ridge]:
    """The ridge points that show where all roofs of main memory and the outermost others bend."""
    of_top = {
        (top_peak.subject, top_peak.family)
        for top_peak, peak in _known(roof.peaks)
        if peak == _top(roof)
    }
    return [
        ridge
        for ridge in roof.ridges()
        if ridge.level == DRAM or (ridge.precision, ridge.family) in of_top
    ]


def roof_lines(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """Two ends of every roof: memory roofs up to their highest ridge, peaks from theirs."""
    rows: list[Row] = []
    for roof in roofs:
        for ceiling, slope, ends in _slope_spans(roof, seen):
            line = {
                "mode": roof.label,
                "line": f"{ceiling.subject}: {ceiling_text(ceiling)}",
                "level": ceiling.subject,
                "precision": "",
            }
            rows += [{**line, "x": x, "y": slope * x / GIGA} for x in ends]
        for ceiling, peak, ends in _peak_spans(roof, seen):
            line = {
                "mode": roof.label,
                "line": f"{ceiling.name} peak: {ceiling_text(ceiling)}",
                "level": "peak" if peak == _top(roof) else "lower peak",
                "precision": ceiling.subject,
            }
            rows += [{**line, "x": x, "y": peak / GIGA} for x in ends]
    return pl.DataFrame(rows, schema=_LINE_SCHEMA)


def roof_bands(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """The intervals of roofs by their corners, as long as the lines of ``roof_lines``.

    From min(peak_low, bandwidth_low · x) to min(peak_high, bandwidth_high · x): of a memory roof
    under the highest peak, of a peak right of the steepest memory roof.
    """
    rows: list[Row] = []
    for roof in roofs:
        top, steepest = _highest(_known(roof.peaks)), _highest(_slopes(roof))
        for ceiling, _, span in _slope_spans(roof, seen):
            line = {"mode": roof.label, "line": ceiling.subject, "precision": ""}
            if ceiling.low and ceiling.high:
                rows += [{**line, **edge} for edge in _band(_ends(ceiling), _ends(top), span)]
        for ceiling, _, span in _peak_spans(roof, seen):
            line = {"mode": roof.label, "line": f"{ceiling.name} peak"}
            line |= {"precision": ceiling.subject}
            if ceiling.low and ceiling.high:
                rows += [{**line, **edge} for edge in _band(_ends(steepest), _ends(ceiling), span)]
    return pl.DataFrame(rows, schema=_BAND_SCHEMA)


def _ends(ceiling: Ceiling | None) -> _Ends:
    """The interval of ``ceiling``; its value twice where that is all, infinite without any."""
    value = ceiling.value if ceiling is not None and ceiling.value else math.inf
    low, high = (ceiling.low, ceiling.high) if ceiling is not None else (None, None)
    return low or value, high or value


def _band(slope: _Ends, peak: _Ends, span: _Ends) -> list[dict[str, float]]:
    """Both edges of a band at the ends of ``span`` and where an edge bends between them."""
    left, right = span
    bends = {p / s for p, s in zip(peak, slope, strict=True) if left < p / s < right}
    (slope_low, slope_high), (peak_low, peak_high) = slope, peak
    return [
        {
            "x": x,
            "low": min(peak_low, slope_low * x) / GIGA,
            "high": min(peak_high, slope_high * x) / GIGA,
        }
        for x in sorted({left, right, *bends})
    ]


def roof_area(roofs: Sequence[Roofline], seen: Window) -> pl.DataFrame:
    """The attainable area from main memory at the highest peak: three vertices per mode."""
    rows: list[Row] = []
    for roof in roofs:
        slope = roof.bandwidth(DRAM).value
        top = _top(roof)
        if slope is None or math.isinf(top):
            continue
        for x in (_left_end(slope, seen), top / slope, seen.x_high):
            y = max(min(top, slope * x) / GIGA, seen.y_low)
            is_ridge = x == top / slope
            rows.append(
                {"mode": roof.label, "x": x, "y": y, "base": seen.y_low, "is_ridge": is_ridge}
            )
    return pl.DataFrame(rows, schema=schema_of(text="mode", number="x y base", flag="is_ridge"))


def ridge_points(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """Where each peak meets the roof of main memory."""
    rows = [
        {
            "mode": roof.label,
            "precision": ridge.precision,
            "text": f"{ridge.name} meets {ridge.level}",
            "interval": quantity(
                ridge.value, f"{work_unit(ridge.precision)}/byte", ridge.low, ridge.high
            ),
            "x": ridge.value,
            "y": (roof.peak(ridge.precision, ridge.family).value or 0.0) / GIGA,
        }
        for roof in roofs
        for ridge in roof.ridges()
        if ridge.level == DRAM
    ]
    return pl.DataFrame(rows, schema=schema_of(text="mode precision text interval", number="x y"))


def named_roofs(roofs: Sequence[Roofline], seen: Window) -> list[NamedLine]:
    """Each roof with its name and its corners in ``seen``, main memory and the best peak first."""
    lines: list[NamedLine] = []
    for roof in roofs:
        ranked = sorted(_peak_spans(roof, seen), key=lambda peak: (-peak[1], peak[0].name))
        while ranked:
            ceiling, peak, span = ranked[0]
            alike = [ceiling for ceiling, value, _ in ranked if value > peak * (1 - ONE_LINE)]
            ranked = ranked[len(alike) :]
            ends = [(x, peak / GIGA) for x in span]
            texts = [_name_all(alike), _names(alike), ceiling.name]
            if len(alike) == 1:
                texts = [f"{ceiling.name} {value_text(ceiling)}", ceiling.name]
            precisions = " ".join(ceiling.subject for ceiling in alike)
            lines.append(NamedLine(roof.label, precisions, texts, "level", ends))
        for ceiling, slope, (left, right) in sorted(
            _slope_spans(roof, seen), key=lambda slope: slope[1]
        ):
            xs = (left, min(right, seen.y_high * GIGA / slope))
            ends = [(x, slope * x / GIGA) for x in xs]
            texts = [f"{ceiling.subject} {value_text(ceiling)}", ceiling.subject]
            if xs[0] < xs[1]:
                lines.append(NamedLine(roof.label, "", texts, "slope", ends))
    return lines


def _name_all(alike: Sequence[Ceiling]) -> str:
    """Peaks of one height by name, with the height in the unit of each: operations of integers."""
    by_unit: dict[str, list[Ceiling]] = {}
    for ceiling in alike:
        by_unit.setdefault(ceiling.unit, []).append(ceiling)
    return ", ".join(f"{_names(peaks)} {value_text(peaks[0])}" for peaks in by_unit.values())


def _names(peaks: Sequence[Ceiling]) -> str:
    """``fp32``; ``bf16, fp16 tensor`` of several peaks of tensor cores."""
    if len({ceiling.family for ceiling in peaks}) > 1:
        return ", ".join(ceiling.name for ceiling in peaks)
    *others, last = peaks
    return ", ".join([*(ceiling.subject for ceiling in others), last.name])


def _known(ceilings: Iterable[Ceiling]) -> list[tuple[Ceiling, float]]:
    return [(ceiling, ceiling.value) for ceiling in ceilings if ceiling.value]


def _slopes(roof: Roofline) -> list[tuple[Ceiling, float]]:
    return _known(roof.bandwidth(level.name) for level in roof.levels)


def _top(roof: Roofline) -> float:
    """The highest peak of ``roof`` in FLOP/s or OP/s; infinity if no peak is known."""
    top = _highest(_known(roof.peaks))
    return top.value if top is not None and top.value else math.inf


def _highest(ceilings: Iterable[tuple[Ceiling, float]]) -> Ceiling | None:
    return max(ceilings, key=lambda pair: pair[1], default=(None, 0.0))[0]


def _slope_spans(roof: Roofline, seen: Window) -> list[tuple[Ceiling, float, _Ends]]:
    """Each memory roof, its bandwidth, and the intensities from and to which it is drawn."""
    return [
        (ceiling, slope, (_left_end(slope, seen), min(_top(roof) / slope, seen.x_high)))
        for ceiling, slope in _slopes(roof)
    ]


def _peak_spans(roof: Roofline, seen: Window) -> list[tuple[Ceiling, float, _Ends]]:
    """Each peak, its height, and the intensities from and to which it is drawn."""
    steepest = max((slope for _, slope in _slopes(roof)), default=math.inf)
    return [
        (ceiling, peak, (max(peak / steepest, seen.x_low), seen.x_high))
        for ceiling, peak in _known(roof.peaks)
    ]


def _left_end(slope: float, seen: Window) -> float:
    return max(seen.x_low, seen.y_low * GIGA / slope)


def _tops(roofs: Sequence[Roofline]) -> dict[str, float]:
    """The highest peak of each mode in each precision and in all, GFLOP/s: see _TOP."""
    tops: dict[str, float] = {}
    for roof in roofs:
        for ceiling, peak in _known(roof.peaks):
            for precision in (EVERY, ceiling.subject):
                key = f"{roof.label}|{precision}"
                tops[key] = max(tops.get(key, 0.0), float(f"{peak / GIGA:.7g}"))
    return tops


def _under_top(base: Chart, along: str) -> Chart:
    """``base`` with its heights ``y`` at most _TOP; a point moves down its roof if ``along``.

    In columns of their own: another choice of the precision begins at ``x`` and ``y`` again.
    """
    share = f"min(1, {_TOP} / datum.y)"
    across, height = f"datum.x * ({along} ? {share} : 1)", f"datum.y * {share}"
    return base.transform_calculate(**{_ACROSS: across, _HEIGHT: height})


def _bands(bands: pl.DataFrame, x: alt.X) -> Chart:
    band = plot(bands).mark_area(style="m-roof-band", clip=True)
    # Of memory, below the peaks that are shown: right of their ridge both edges meet.
    is_cut = "precision !== '' && datum.precision === ''"
    band = band.transform_calculate(
        **{
            f"shown_{end}": f"{is_cut} ? min(datum.{end}, {_TOP}) : datum.{end}"
            for end in ("low", "high")
        }
    )
    ends = {"y": alt.Y("shown_low:Q"), "y2": alt.Y2("shown_high:Q")}
    return band.encode(x=x, detail="line:N", **ends)


def _lines(lines: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    base = _under_top(plot(lines), along="datum.precision === ''")
    base = base.encode(x=x, y=y, detail="line:N", tooltip="line:N")
    # The highest peak that is shown; the tiny amount is the rounding of a page's numbers.
    bold = f"datum.level === 'DRAM' || datum.precision !== '' && datum.y >= 0.9999 * {_TOP}"
    return [
        base.mark_line(style="m-roof-cache", clip=True).transform_filter(f"!({bold})"),
        base.mark_line(style="m-roof", clip=True).transform_filter(bold),
    ]


def _ridges(ridges: pl.DataFrame, x: alt.X, y: alt.Y) -> Chart:
    diamonds = plot(ridges).mark_point(style="m-ridge", size=60, shape="diamond", opacity=1)
    return with_tooltip(diamonds, text="ridge", interval="at").encode(x=x, y=y)
