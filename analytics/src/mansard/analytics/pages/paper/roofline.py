"""The rooflines of time and of energy on paper: the roofs of one mode, its networks under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import altair as alt
import msgspec
import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.roofs.ceilings import Ceiling, best_of
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.charting import Chart, plot
from mansard.analytics.pages.figures.energy_roofline import (
    PricedRoof,
    arch_window,
    arches,
    named_arches,
    priced_roofs,
)
from mansard.analytics.pages.figures.figure import Prefix, si_prefix
from mansard.analytics.pages.figures.naming import NamedLine
from mansard.analytics.pages.figures.network_points import Points, roof_points, under_roofs
from mansard.analytics.pages.figures.parameters import roof_devices
from mansard.analytics.pages.figures.plane import Window, distinct_labels
from mansard.analytics.pages.figures.roofline import (
    named_roofs,
    ridge_points,
    roof_area,
    roof_bands,
    roof_lines,
    window,
)
from mansard.analytics.pages.paper.content import (
    Content,
    Kind,
    legend_columns,
    marker_key,
    network_key,
    plane_axes,
)
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.names import roof_names, seen_in
from mansard.analytics.pages.paper.selection import (
    MOST_NETWORKS,
    Need,
    Wish,
    choose_batch,
    choose_networks,
    choose_roof,
    of_precisions,
)
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.precision import unit_title
from mansard.core.text import listed

Height = Literal["rate", "efficiency"]
USUAL = ("fp32", "fp16", "int8")  # of more peaks than these a column has no room for names
_LONGEST_NAME = 18  # characters of a network in the legend: two of them have a line
_SAME = ["network", "precision"]
_IS_MODELLED = pl.col("source") == "modelled"
AT_ROOFS = "modelled, at best"
_COLUMNS = {
    "rate": "rate_gflop_per_s",
    "efficiency": "efficiency_gflop_per_j",
}


@dataclass(frozen=True, eq=False)
class _Scene:
    """What both charts draw. ``frame`` has the plotted values, in the column ``height``."""

    frame: pl.DataFrame
    lines: Sequence[NamedLine]
    seen: Window
    height: str  # its column for the heights
    area: pl.DataFrame
    y_title: str
    prefix: Prefix  # of the unit of the axis
    x_title: str


def roofline_content(results: Results, wish: Wish) -> Content:
    """The ceilings of one mode, and the performance of networks."""
    roof = choose_roof(results, wish)
    points, left = _points(results, roof, wish, "rate")
    roof = _with_few_peaks(roof, points, wish)
    seen = window([roof], points)
    roofs, ridges = roof_lines([roof], seen), ridge_points([roof])
    roofs = roofs.with_columns(pl.col("line").str.replace(": .*$", ""))  # without the value
    bands = roof_bands([roof], seen).with_columns(y=pl.lit(None, pl.Float64))
    frame = pl.concat(
        [
            _rows("roof", roofs, "rate", name="line", source=roof.source),
            _rows("band", bands, "rate", name="line", source=roof.source),
            _rows("ridge point", ridges, "rate", name="text", source=roof.source),
            *_network_rows(points, "rate"),
        ]
    )
    precisions = frame.filter(pl.col("precision") != "")["precision"].to_list()
    prefix = si_prefix(seen.y_high)
    scene = _Scene(
        frame=frame,
        lines=named_roofs([roof], seen),
        seen=seen,
        height=_COLUMNS["rate"],
        area=roof_area([roof], seen),
        y_title=_titled("Performance", prefix.letter + "{}/s", precisions),
        prefix=prefix,
        x_title=f"Arithmetic intensity, {unit_title('{}/byte', filter(None, precisions))}",
    )
    words = "Lines are the ceilings of memory and arithmetic"
    words += ", bands their 95 % intervals" if len(bands) else ""
    words += "; diamonds mark where a peak meets main memory." if len(ridges) else "."
    return _content("roofline", results, roof, scene, (words, *_network_words(points), *left))


def energy_content(results: Results, wish: Wish) -> Content:
    """The work per joule of each precision of one mode, and of networks."""
    roof = choose_roof(results, wish, "energy")
    _priced(results, roof)  # no roof is a better reason than no network
    points, left = _points(results, roof, wish, "efficiency")
    roof = _with_few_peaks(roof, points, wish)
    priced = _priced(results, roof)
    across = window([roof], points)
    curves = arches(priced, across.x_low, across.x_high)
    seen = arch_window(curves, under_roofs(points.every, "efficiency"), "efficiency", across)
    frame = pl.concat(
        [
            _rows("roof", curves, "efficiency", name="line", source="modelled"),
            *_network_rows(points, "efficiency"),
        ]
    )
    precisions = frame["precision"].to_list()
    prefix = si_prefix(seen.y_high)
    scene = _Scene(
        frame=frame,
        lines=named_arches(priced, curves, "efficiency"),
        seen=seen,
        height=_COLUMNS["efficiency"],
        area=pl.DataFrame(),
        y_title=_titled("Efficiency", prefix.letter + "{}/J", precisions),
        prefix=prefix,
        x_title=f"Arithmetic intensity, {unit_title('{}/byte', filter(None, precisions))}",
    )
    words = "Lines are the best efficiency of each precision with data from main memory."
    return _content("energy", results, roof, scene, (words, *_network_words(points), *left))


def _titled(name: str, unit: str, precisions: Sequence[str]) -> str:
    """The title of an axis; the unit alone where it is long: int8 has a unit of its own."""
    title = unit_title(unit, [one for one in precisions if one])
    return title if " (" in title else f"{name}, {title}"


def _with_few_peaks(roof: Roofline, points: Points, wish: Wish) -> Roofline:
    """``roof`` with the best peak of each precision: of the wished ones, else of those of the
    networks, else of the usual ones, else of all."""
    known = {peak.subject for peak in roof.peaks if peak.value}
    usual = known & set(points.every["precision"].to_list()) or known & set(USUAL)
    wanted = known & set(wish.precisions) if wish.precisions else usual or known
    if wish.precisions and not wanted:
        raise UsageError(
            f"no peak was measured in {listed(wish.precisions, 'or')} there",
            fix=f"use one of {', '.join(sorted(known))}",
        )
    best: dict[str, Ceiling] = {}
    for peak in roof.peaks:
        if peak.subject in wanted and peak.value:
            best[peak.subject] = best_of([peak, best.get(peak.subject, peak)])
    return msgspec.structs.replace(roof, peaks=tuple(best.values()))


def _priced(results: Results, roof: Roofline) -> list[PricedRoof]:
    """The arches of the peaks of ``roof``; raises UsageError where there is none."""
    priced, gaps = priced_roofs(results)
    names = {peak.name for peak in roof.peaks}
    own = [one for one in priced if one.mode == roof.label and one.name in names]
    if own:
        return own
    place = f"{display_name(roof.label)}: "
    gap = next((gap.removeprefix(place).rstrip(".") for gap in gaps if gap.startswith(place)), "")
    if gap:
        again = "measure it again: mansard bench --again"
        raise UsageError(gap, where=display_name(roof.label), fix=again)
    if roof.source == "published":
        raise UsageError(
            f"the energy of {display_name(roof_devices(results)[roof.label])} is unknown: its "
            "published figures have none",
            fix="name another device with --device, or measure the board: mansard bench",
        )
    raise UsageError(
        "the energy roofline needs kernels whose energy was metered",
        where=display_name(roof.label),
        fix="find a power meter with mansard doctor, then run mansard bench",
    )


def _points(
    results: Results, roof: Roofline, wish: Wish, height: Height
) -> tuple[Points, list[str]]:
    """The networks to draw under ``roof``, and a sentence about those that are left out.

    Each network has the wished precisions, or one: the fastest in which it ran, else was modelled.
    """
    points = roof_points(results)
    batch = choose_batch(results, wish, roof)
    here = (pl.col("mode") == roof.label) & (pl.col("batch") == batch)
    modelled = under_roofs(points.networks.filter(here), height)
    measured = under_roofs(points.measured.filter(here), height)
    both = pl.concat(
        [
            some.select(*_SAME, "rate", has_run=pl.lit(has_run))
            for some, has_run in ((measured, True), (modelled, False))
        ]
    )
    need: Need = "energy" if height == "efficiency" else "score"
    chosen = choose_networks(both["network"].to_list(), wish, results, need)
    ranked = of_precisions(both.filter(pl.col("network").is_in(chosen)), wish, results)
    best = ranked.sort("has_run", "rate", "precision", descending=[True, True, False]).unique(
        _SAME if len(wish.precisions) > 1 else "network", keep="first", maintain_order=True
    )
    few = _few(best.select(_SAME), modelled, measured)
    n_left = len(best) - len(few)
    noun = "more network" if best["network"].is_unique().all() else "more point"
    return (
        replace(
            points,
            networks=modelled.join(few, on=_SAME),
            measured=measured.join(few, on=_SAME),
            layers=points.layers.clear(),
        ),
        [f"{counted(n_left, noun)} not drawn."] if n_left else [],
    )


def _few(best: pl.DataFrame, modelled: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """At most MOST_NETWORKS: those that were run, those a report draws, then the others."""
    ran = measured.select(_SAME).unique().with_columns(place=pl.lit(0))
    drawn = modelled.filter("is_drawn").select(_SAME).unique().with_columns(place=pl.lit(1))
    places = pl.concat([ran, drawn]).group_by(_SAME).agg(pl.col("place").min())
    ranked = best.join(places, on=_SAME, how="left").sort("place", "network", nulls_last=True)
    return ranked.head(MOST_NETWORKS).select(_SAME)


def _rows(part: str, drawn: pl.DataFrame, height: str, *, name: str, source: str) -> pl.DataFrame:
    """Ends of lines, or points, in the columns of the file of values."""
    column = _COLUMNS[height]
    value = "y" if "y" in drawn.columns else height
    ends = {
        f"{end}_{column}": pl.col(end) if end in drawn.columns else pl.lit(None, pl.Float64)
        for end in ("low", "high")
    }
    level = pl.col("level") if "level" in drawn.columns else pl.lit("peak")
    return drawn.select(
        part=pl.lit(part),
        name=pl.col(name),
        level=level,
        precision="precision",
        batch=pl.lit(None, pl.String),
        source=pl.lit(source),
        intensity_flop_per_byte="x",
        **{column: value},
        **ends,
    )


def _network_rows(points: Points, height: Height) -> list[pl.DataFrame]:
    column = _COLUMNS[height]
    return [
        frame.sort("network").select(
            part=pl.lit("network"),
            name="network",
            level=pl.lit(""),
            precision="precision",
            batch="batch",
            source=pl.when("is_disturbed")
            .then(pl.format("{} (disturbed)", source))
            .otherwise(source),
            intensity_flop_per_byte="intensity",
            **{column: height},
            **{f"{end}_{column}": pl.lit(None, pl.Float64) for end in ("low", "high")},
        )
        for frame, source in (
            (points.networks, pl.lit("modelled")),
            (points.measured, pl.col("source")),
        )
    ]


def _network_words(points: Points) -> list[str]:
    every = points.every
    if every.is_empty():
        return []
    ran = in_order(points.measured["source"].to_list())
    kinds = [f"filled markers: {listed(ran)}"] if ran else []
    if not points.networks.is_empty():
        kinds.append("hollow markers: modelled, at the best that the roofs allow")
    batch, precisions = every["batch"][0], in_order(every["precision"].to_list())
    words = [f"Networks with batch {batch} in {listed(precisions)}; {'; '.join(kinds)}."]
    disturbed = in_order(points.measured.filter("is_disturbed")["network"].to_list())
    if disturbed:
        words.append(f"Other work disturbed {listed(disturbed)}.")
    return words


def _content(
    kind: Kind, results: Results, roof: Roofline, scene: _Scene, words: Sequence[str]
) -> Content:
    device = roof_devices(results)[roof.label]
    networks = scene.frame.filter(pl.col("part") == "network")
    ran = [
        times
        for times in results.measured
        if (times.device, times.mode) == (device, roof.mode)
        and times.network in networks.filter(~_IS_MODELLED)["name"].to_list()
    ]
    n_trials = sum(rate.run_id == roof.run_id for rate in results.rates)
    n_calls = sum(times.n_calls for times in ran)
    return Content(
        kind=kind,
        device=device,
        mode=roof.mode,
        frame=scene.frame,
        build=lambda inside: _chart(scene, inside),
        sentences=words,
        sources=in_order(scene.frame["source"].to_list()),
        run_ids=tuple(dict.fromkeys([roof.run_id, *(run for t in ran for run in t.run_ids)])),
        n_samples={"trial": n_trials, "timed call": n_calls},
    )


def _chart(scene: _Scene, inside: Inside) -> Chart:
    frame, height = scene.frame, scene.height
    roofs = frame.filter(pl.col("part") == "roof")
    networks, bands = (frame.filter(pl.col("part") == part) for part in ("network", "band"))
    seen = seen_in(inside, scene.seen, float(roofs[height].to_numpy().max(initial=1.0)))
    marked = frame.filter(pl.col("part").is_in(["network", "ridge point"]))
    x, y = plane_axes(seen, height, (scene.x_title, scene.y_title), scene.prefix)
    marks = [
        *_area(scene.area, seen),
        plot(bands)
        .mark_area(style="m-roof-band", clip=True)
        .encode(x=x, y=alt.Y(f"low_{height}:Q"), y2=alt.Y2(f"high_{height}:Q"), detail="name:N"),
        *_lines(roofs, x, y),
        *roof_names(
            scene.lines,
            marked.select(x="intensity_flop_per_byte", y=height),
            seen,
            inside.share,
        ),
        plot(frame.filter(pl.col("part") == "ridge point"))
        .mark_point(style="m-ridge", size=32, shape="diamond", opacity=1)
        .encode(x=x, y=y),
        *_markers(networks, x, y, inside),
    ]
    return alt.layer(*marks).properties(width=inside.width_px, height=inside.height_px)


def _area(area: pl.DataFrame, seen: Window) -> list[Chart]:
    """What is within reach from main memory, down to the lower edge of the chart."""
    if area.is_empty():
        return []
    shaded = plot(area.with_columns(base=pl.lit(seen.y_low))).mark_area(style="m-roof-area")
    return [shaded.encode(x="x:Q", y="y:Q", y2="base:Q")]


def _lines(roofs: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    bold = pl.col("level").is_in(["DRAM", "peak"])
    return [
        plot(some).mark_line(style=style, clip=True).encode(x=x, y=y, detail="name:N")
        for some, style in ((roofs.filter(~bold), "m-roof-cache"), (roofs.filter(bold), "m-roof"))
        if not some.is_empty()
    ]


def _markers(networks: pl.DataFrame, x: alt.X, y: alt.Y, inside: Inside) -> list[Chart]:
    """Each network by colour and shape: filled where it ran, hollow where it is modelled."""
    if networks.is_empty():
        return []
    full = in_order(networks["name"].to_list())
    labels = distinct_labels(full, _LONGEST_NAME)
    networks = networks.with_columns(pl.col("name").replace_strict(full, labels))
    if networks["precision"].n_unique() > 1:
        networks = networks.with_columns(name=pl.format("{} {}", "name", "precision"))
    names = in_order(networks["name"].to_list())
    key: dict[str, Any] = network_key(names, legend_columns(names, inside))
    hollow = {"filled": False, "style": "m-hollow"}
    marks = [
        plot(some).mark_point(size=55, clip=True, **look).encode(x=x, y=y, **key)
        for some, look in (
            (networks.filter(_IS_MODELLED), hollow),
            (networks.filter(~_IS_MODELLED), {"filled": True, "opacity": 1}),
        )
        if not some.is_empty()
    ]
    return [*marks, marker_key(networks["source"].replace("modelled", AT_ROOFS).to_list())]
