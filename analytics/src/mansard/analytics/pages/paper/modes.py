"""Power modes of a device for one network on paper: the Pareto front, and modes side by side."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.data.quantities import MILLI, counted, in_unit
from mansard.analytics.pages.figures.charting import LIGHT, STAR, Chart, log_scale, plot
from mansard.analytics.pages.figures.figure import Prefix, schema_of, si_prefix
from mansard.analytics.pages.figures.modes import AT_BEST, mode_points, starred
from mansard.analytics.pages.figures.naming import NamedLine, place_names, point_texts
from mansard.analytics.pages.figures.parameters import mode_labels, roof_devices
from mansard.analytics.pages.figures.plane import Window, distinct_labels, extent
from mansard.analytics.pages.paper.content import Content, Kind, fills, is_hollow, log_ticks
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.look import MARKERS
from mansard.analytics.pages.paper.selection import Wish, choose_device, choose_network, no_network
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.text import listed, natural_key

MOST_MODES = 14  # side by side: each needs a line
_GAP_PX = 12  # between two panels
_ROW_PX = 20.0  # a mode
_LONGEST_MODE = 20  # characters of its name beside bars
_FOR_VALUES, _FOR_MARKED = 1.32, 1.5  # an axis ends behind the values of its bars, with marks
_DOT, _FILL, _EDGE = LIGHT.categories[0], LIGHT.ramp[1], LIGHT.accent
_PAIR = ["device", "label", "network", "precision"]
_NUMBERS = ("gpu_clock_mhz", "memory_clock_mhz", "latency_ms", "energy_per_item_mj", "power_w")
_COSTS = (  # a value and the ends of its interval
    ("latency_ms", "latency_low_ms", "latency_high_ms"),
    ("energy_per_item_mj", "energy_low_mj", "energy_high_mj"),
)
_SIDES = ("low", "high")
_ENDS = ("latency_low_ms", "latency_high_ms", "energy_low_mj", "energy_high_mj")
_FRONT = "The line is the Pareto front of latency and energy; faint points are dominated."
_STAR = "The star is the recommended mode."
_BARS = "Bars are the modes, sorted by the latency of a batch."
_RULES = {"spread": "95 % intervals", "bounds": "bounds"}  # by the kind of an interval
_ARROWS = "Arrows: the interval goes on beyond the axes."
_ARROW_SIZE, _ARROW_PX = 34, 3.0  # px², and how far its middle is inside the axes
_MARK_PX, _INNER_PX = 8.0, 300.0  # a marker, and a column inside its axes
_BEST = "Values at best by the roofs are lower bounds; real values may be several times higher."


@dataclass(frozen=True, eq=False)
class _Subject:
    """One network on one device: its modes, in the columns of the file of values."""

    device: str
    network: str
    precision: str
    batch: int | None
    frame: pl.DataFrame
    n_modes: int


def pareto_content(results: Results, wish: Wish) -> Content:
    """Energy over latency, a point for each mode, and the front."""
    subject = _subject(results, wish, needs_energy=True)
    priced = subject.frame.filter(pl.col("energy_per_item_mj") > 0)
    if priced["mode"].n_unique() < 2:
        few = subject.n_modes < 2
        raise UsageError(
            "the Pareto front needs two modes"
            if few
            else f"the energy of {subject.network} is unknown, so there is no Pareto front",
            fix=f"measure {'more' if few else 'on a board with a power meter'}: "
            "mansard bench --mode all",
        )
    words = [
        _FRONT,
        *([_STAR] if priced["is_recommended"].any() else []),
        *_marked("markers", priced),
    ]
    words += _ruled(pl.concat([_ranged(priced, cost, is_log=True) for cost in _COSTS]))
    words += [_ARROWS] if any(len(_beyond(priced, cost)) for cost in _COSTS) else []
    return _content("pareto", results, subject, priced, words, lambda i: _front_chart(priced, i))


def modes_content(results: Results, wish: Wish) -> Content:
    """Latency, and energy where it is known, of each mode."""
    subject = _subject(results, wish)
    if subject.n_modes < 2:
        raise UsageError(
            "a figure of modes needs two of them",
            fix="measure more: mansard bench --mode all",
        )
    ordered = subject.frame.sort("latency_ms", "mode")
    kept = ordered
    if len(ordered) > MOST_MODES:
        first = pl.col("is_recommended") | pl.col("is_on_front")
        ranked = ordered.with_row_index("at").sort(~first, "at").head(MOST_MODES)
        kept = ranked.sort("at").drop("at")
    words = [_BARS, *_marked("bars", kept)]
    words += _ruled(pl.concat([_ranged(kept, cost, is_log=False) for cost in _COSTS]))
    if len(kept) < subject.n_modes:
        words.append(f"{len(kept)} of {counted(subject.n_modes, 'mode')} are drawn.")
    return _content("modes", results, subject, kept, words, lambda i: _mode_chart(kept, i))


def _subject(results: Results, wish: Wish, *, needs_energy: bool = False) -> _Subject:
    """The modes of the wished network on the wished device; raises UsageError without any."""
    picks = [advice.choice for advice in results.recommendations if advice.choice is not None]
    labels = mode_labels(results)
    priced = results.decided.filter(pl.col("energy_j") > 0)
    decided = priced if needs_energy else results.decided
    device = choose_device(results, wish, set(decided["device"].to_list()))
    rows = results.decided.filter(pl.col("device") == device)
    if wish.batch is not None:
        rows = rows.filter(pl.col("batch") == wish.batch)
    if wish.precisions:
        rows = rows.filter(pl.col("precision").is_in(wish.precisions))
    there = sorted(set(rows["network"].to_list()), key=natural_key)
    if not there:
        raise no_network(results, wish, device)
    wanted = [pick.network for pick in picks if pick.device == device and pick.network in there]
    network = choose_network(there, (wanted or there)[0], wish, results)
    own = rows.filter(pl.col("network") == network)
    points = mode_points(own, results.modes, labels, starred(results.recommendations)).frame
    if wish.mode is not None:
        raise UsageError("this figure shows every mode", fix="leave --mode out")
    main = points.filter("is_main") if len(wish.precisions) != 1 else points
    if main.is_empty():
        raise UsageError(
            f"the latency of {display_name(network)} is unknown",
            fix=f"measure it: mansard measure {shlex.quote(network)}{wish.options}",
        )
    first = main.row(0, named=True)
    frame = _in_columns(main.filter(pl.col("precision") == first["precision"]), own, labels)
    return _Subject(
        device=device,
        network=network,
        precision=first["precision"],
        batch=first["batch"],
        frame=frame,
        n_modes=own["mode"].n_unique(),
    )


def _in_columns(
    points: pl.DataFrame, predictions: pl.DataFrame, labels: Mapping[tuple[str, str], str]
) -> pl.DataFrame:
    """``points`` (MODE_POINT_SCHEMA) with the ends of their intervals, units in the names."""
    names = pl.DataFrame(
        [(*key, label) for key, label in labels.items()],
        schema={"device": pl.String, "mode": pl.String, "label": pl.String},
        orient="row",
    )
    per_item = pl.col("batch").fill_null(1) * MILLI
    ends = (
        predictions.join(names, on=["device", "mode"], how="left")
        .with_columns(name="mode", label=pl.coalesce("label", "mode"))
        .with_columns(
            *((pl.col(f"latency_{end}_s") / MILLI).alias(f"latency_{end}_ms") for end in _SIDES),
            *((pl.col(f"energy_{end}_j") / per_item).alias(f"energy_{end}_mj") for end in _SIDES),
        )
        .select(
            *_PAIR, "batch", "name", "interval", *(pl.col(end).round_sig_figs(4) for end in _ENDS)
        )
        .unique([*_PAIR, "batch"], keep="first", maintain_order=True)
    )
    joined = points.rename({"mode": "label"}).join(
        ends, on=[*_PAIR, "batch"], how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select(
        "network",
        "precision",
        "batch",
        mode=pl.coalesce("name", "label"),
        gpu_clock_mhz="gpu",
        memory_clock_mhz="memory",
        latency_ms="latency",
        latency_low_ms="latency_low_ms",
        latency_high_ms="latency_high_ms",
        energy_per_item_mj="energy",
        energy_low_mj="energy_low_mj",
        energy_high_mj="energy_high_mj",
        interval="interval",
        power_w="power",
        source="source",
        reading="reading",
        is_on_front="is_edge",
        is_recommended="is_recommended",
    )


def _ranged(modes: pl.DataFrame, cost: tuple[str, str, str], *, is_log: bool) -> pl.DataFrame:
    """The modes whose interval is drawn: one that is wider than a marker.

    The interval of a value of the roofs is that of the ceilings alone, so it is not drawn.
    """
    _, low, high = cost
    known = modes.filter((pl.col("interval") != "roof") & (pl.col(low) > 0) & (pl.col(high) > 0))
    least = _MARK_PX / _INNER_PX
    if is_log:
        first, last = _seen(modes, cost)
        ratio = (last / first) ** least
        return known.filter(pl.col(high) / pl.col(low) > ratio)
    return known.filter(pl.col(high) - pl.col(low) > least * pl.col(high).max())


def _seen(modes: pl.DataFrame, cost: tuple[str, str, str]) -> tuple[float, float]:
    """The ends of the logarithmic axis of a cost: its values decide, not their intervals."""
    return extent(modes[cost[0]].drop_nulls(), 1.25, 1.35, least=1.5)


def _beyond(modes: pl.DataFrame, cost: tuple[str, str, str]) -> pl.DataFrame:
    """The ends of drawn intervals outside the axis: ``end``, where it ends, and ``is_low``."""
    ranged, (first, last) = _ranged(modes, cost, is_log=True), _seen(modes, cost)
    low = ranged.filter(pl.col(cost[1]) < first).with_columns(end=pl.lit(first), is_low=True)
    high = ranged.filter(pl.col(cost[2]) > last).with_columns(end=pl.lit(last), is_low=False)
    return pl.concat([low, high])


def _ruled(ranged: pl.DataFrame) -> list[str]:
    """The sentence about the rules, if there are any."""
    kinds = [_RULES[kind] for kind in _RULES if kind in set(ranged["interval"])]
    return [f"Rules are {' or '.join(kinds)}."] if kinds else []


def _marked(marks: str, modes: pl.DataFrame) -> list[str]:
    """``Filled markers: measured.`` and ``Hollow markers: modelled, at best by the roofs.``"""
    readings = in_order(modes.select(_reading())["reading"].to_list())
    hollow = [name for name in readings if is_hollow(name)]
    filled = [name for name in readings if name not in hollow]
    both = (("Filled", filled), ("Hollow", hollow))
    return [f"{how} {marks}: {listed(names, 'or')}." for how, names in both if names]


def _content(
    kind: Kind,
    results: Results,
    subject: _Subject,
    frame: pl.DataFrame,
    words: Sequence[str],
    build: Callable[[Inside], Chart],
) -> Content:
    sources = in_order(frame["source"].to_list())
    ran = [
        times
        for times in results.measured
        if (times.device, times.network, times.precision, times.batch)
        == (subject.device, subject.network, subject.precision, subject.batch)
    ]
    batch = f", batch {subject.batch}" if subject.batch else ""
    of = f"{subject.network} in {subject.precision}{batch}."
    at_best = [_BEST] if (frame["reading"] == AT_BEST).any() else []
    runs = [run for times in ran for run in times.run_ids]
    devices = roof_devices(results)
    runs += [
        roof.run_id
        for roof in results.roofs
        if devices[roof.label] == subject.device and roof.mode in frame["mode"]
    ]
    return Content(
        kind=kind,
        device=subject.device,
        mode="",
        subject=subject.network,
        frame=frame,
        build=build,
        sentences=(of, *words, *at_best),
        sources=sources,
        run_ids=tuple(dict.fromkeys(runs)),
        n_samples={"timed call": sum(times.n_calls for times in ran)},
        inner_px=_ROW_PX * len(frame) if kind == "modes" else None,
    )


def _front_chart(points: pl.DataFrame, inside: Inside) -> Chart:
    across, up = (_seen(points, cost) for cost in _COSTS)
    seen = Window(*across, *up, inside.width_px, inside.height_px)
    x = _log_axis("latency_ms", "Latency of one batch, {}s", across)
    y = _log_axis("energy_per_item_mj", "Energy of one item, {}J", up)
    front = points.filter("is_on_front").sort("latency_ms")
    best = points.filter("is_recommended")
    layers = [
        plot(front).mark_line(style="m-front", interpolate="step-after").encode(x=x, y=y),
        *_error_bars(points, x, y),
        _dots(points, x, y),
        *_mode_names(points, front, seen, inside.share),
        *(
            [
                plot(best)
                .mark_point(style="m-best", filled=True, opacity=1, shape=STAR, size=110)
                .encode(x=x, y=y)
            ]
            if len(best)
            else []
        ),
    ]
    return alt.layer(*layers).properties(width=inside.width_px, height=inside.height_px)


def _error_bars(points: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    """Rules across and up, where intervals are wider than a marker; arrows where they go on."""
    sides: tuple[tuple[str, dict[str, Any], dict[str, float]], ...] = (
        ("x", {"y": y}, {"triangle-left": _ARROW_PX, "triangle-right": -_ARROW_PX}),
        ("y", {"x": x}, {"triangle-down": -_ARROW_PX, "triangle-up": _ARROW_PX}),
    )
    layers: list[Chart] = []
    for cost, (along, at, arrows) in zip(_COSTS, sides, strict=True):
        _, low, high = cost
        if len(ranged := _ranged(points, cost, is_log=True)):
            rule = plot(ranged).mark_rule(style="m-interval", clip=True)
            layers.append(rule.encode(**at, **{along: f"{low}:Q", f"{along}2": f"{high}:Q"}))
        beyond = _beyond(points, cost)
        for is_low, (shape, inward_px) in zip((True, False), arrows.items(), strict=True):
            if len(ends := beyond.filter(is_low=is_low)):
                look: dict[str, Any] = {
                    "shape": shape,
                    "size": _ARROW_SIZE,
                    f"{along}Offset": inward_px,
                }
                arrow = plot(ends).mark_point(style="m-interval", filled=True, opacity=1, **look)
                layers.append(arrow.encode(**at, **{along: "end:Q"}))
    return layers


def _dots(points: pl.DataFrame, x: alt.X, y: alt.Y) -> Chart:
    """Each mode: filled where it was measured or published, hollow where modelled."""
    named = points.with_columns(reading=_reading())
    readings = in_order(named["reading"].to_list())
    key = alt.Legend(title=None, columns=1, labelLimit=0)
    # A legend has the outline of its marks only where that is a channel.
    ranges = (
        (alt.Shape, list(MARKERS)),
        (alt.Fill, fills(readings, _DOT)),
        (alt.Stroke, [_DOT] * len(readings)),
    )
    channels = [
        channel("reading:N", scale=alt.Scale(domain=readings, range=values), legend=key)
        for channel, values in ranges
    ]
    faint = alt.condition("datum.is_on_front", alt.value(1), alt.value(0.5))
    dots = plot(named).mark_point(size=45, strokeWidth=1.4)
    return dots.encode(*channels, x=x, y=y, strokeOpacity=faint, fillOpacity=faint)


def _reading() -> pl.Expr:
    """``modelled, at best by the roofs``: what a value is, in a key."""
    is_named = (pl.col("source") == "modelled") & (pl.col("reading") != "modelled")
    named = pl.format("modelled, {}", pl.col("reading"))
    return pl.when(is_named).then(named).otherwise("reading")


def _log_axis(field: str, title: str, ends: tuple[float, float]) -> Any:
    kind = alt.X if field == "latency_ms" else alt.Y
    prefix = si_prefix(ends[1], -3, most=0)
    ticks = log_ticks(*ends)
    axis = alt.Axis(title=title.format(prefix.letter), values=ticks, labelExpr=prefix.tick)
    return kind(f"{field}:Q", scale=log_scale(*ends), axis=axis)


def _mode_names(
    points: pl.DataFrame, front: pl.DataFrame, seen: Window, share: float
) -> list[Chart]:
    """The names of modes where there is room for them, those of the front first."""
    here = {"x": "latency_ms", "y": "energy_per_item_mj"}
    paths = [_steps(front.select(**here).rows()), *_rule_ends(points)]
    lines = [NamedLine("", "", (), "level", path) for path in paths]
    named = points.sort("is_recommended", "is_on_front", descending=True).select(
        **{name: pl.lit("") for name in ("batch", "network", "precision")},
        **here,
        text="mode",
        is_measured="is_on_front",
        mode=pl.lit(""),
    )
    none = pl.DataFrame(schema=schema_of(text="mode", number="x y"))
    names = place_names(lines, none, named, seen, share, may_cross=False).points
    names = names.filter(pl.col("width_px") == seen.width_px)
    return point_texts(plot(names))


def _steps(front: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the drawn front: across to the next mode, then down to it."""
    corners = [corner for (_, y), (x, down) in pairwise(front) for corner in ((x, y), (x, down))]
    return [*front[:1], *corners]


def _rule_ends(points: pl.DataFrame) -> list[list[tuple[float, float]]]:
    """Both ends of each drawn interval."""
    (x, left, right), (y, low, high) = _COSTS
    across, up = (_ranged(points, cost, is_log=True) for cost in _COSTS)
    rows = [*across.select(left, y, right, y2=y).rows(), *up.select(x, low, x2=x, high=high).rows()]
    return [[(x0, y0), (x1, y1)] for x0, y0, x1, y1 in rows]


def _mode_chart(modes: pl.DataFrame, inside: Inside) -> Chart:
    latency, energy = _COSTS
    panels = [(latency, "Latency, {}s")]
    if modes["energy_per_item_mj"].is_not_null().any():
        panels.append((energy, "Energy of an item, {}J"))
    width_px = (inside.width_px - _GAP_PX * (len(panels) - 1)) / len(panels)
    charts = [
        _panel(modes, *panel, is_first=at == 0).properties(width=width_px, height=inside.height_px)
        for at, panel in enumerate(panels)
    ]
    return alt.hconcat(*charts, spacing=_GAP_PX) if len(charts) > 1 else charts[0]


def _panel(modes: pl.DataFrame, cost: tuple[str, str, str], title: str, *, is_first: bool) -> Chart:
    """Bars of a cost with its interval, and its value behind them."""
    field, low, high = cost
    axis = alt.Axis(title=None, domain=False, grid=False, ticks=False, labelLimit=160)
    labels = distinct_labels(modes["mode"].to_list(), _LONGEST_MODE)
    modes = modes.with_columns(label=pl.Series(labels, dtype=pl.String))
    y = alt.Y("label:N", sort=labels, axis=axis if is_first else None)
    known = modes.filter(pl.col(field).is_not_null())
    is_marked = (known["reading"] == AT_BEST).any()
    ranged = _ranged(known, cost, is_log=False)
    drawn = pl.when(pl.col("mode").is_in(ranged["mode"].to_list())).then(high)
    ends = known.select(end=pl.max_horizontal(field, drawn)).to_series()
    highest = float(ends.to_numpy().max(initial=1e-9))
    domain = [0.0, (_FOR_MARKED if is_marked else _FOR_VALUES) * highest]
    prefix = si_prefix(highest, -3, most=0)
    x = alt.X(
        f"{field}:Q",
        scale=alt.Scale(domain=domain, nice=False),
        axis=alt.Axis(
            title=title.format(prefix.letter),
            labelExpr=prefix.tick,
            tickCount=3,
            labelFlush=False,
            grid=False,  # the values are at the bars
        ),
    )
    layers = _bars(known, x, y)
    if len(ranged):
        rules = plot(ranged).mark_rule(style="m-interval")
        layers.append(rules.encode(x=f"{low}:Q", x2=f"{high}:Q", y=y))
    shown = [
        _value_text(row[field], prefix, is_least=row["reading"] == AT_BEST)
        for row in known.iter_rows(named=True)
    ]
    values = plot(known.with_columns(end=ends, shown=pl.Series(shown, dtype=pl.String)))
    texts = values.mark_text(style="m-network-label", align="left", baseline="middle", dx=3)
    layers.append(texts.encode(x="end:Q", y=y, text="shown:N"))
    return alt.layer(*layers)


def _value_text(value: float, axis: Prefix, *, is_least: bool) -> str:
    """``≥ 1.55``: three digits in the unit of the axis."""
    return in_unit(value, kind="roof" if is_least else None, unit=axis.per, n_digits=3)


def _bars(known: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    """Bars, filled where they were measured or published, hollow where modelled."""
    named = known.with_columns(reading=_reading())
    readings = in_order(named["reading"].to_list())
    key = alt.Legend(title=None, columns=1, labelLimit=0, symbolType="square")
    fill = alt.Fill(
        "reading:N",
        scale=alt.Scale(domain=readings, range=fills(readings, _FILL)),
        legend=key,
    )
    bars = plot(named).mark_bar(height={"band": 0.66}, stroke=_EDGE)
    return [bars.encode(x=x, y=y, fill=fill)]
