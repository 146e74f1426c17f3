"""The layers of one network on paper, each under its roof: measured, else modelled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.data.quantities import GIGA, counted, quantity
from mansard.analytics.models.layers.measured import AT_MOST, layers_with_scores
from mansard.analytics.models.layers.rows import RoofedLayers
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.charting import Chart, plot
from mansard.analytics.pages.figures.engine_layers import (
    KINDS,
    MOST_LAYERS,
    corners,
    point_frame,
    roof_frame,
)
from mansard.analytics.pages.figures.figure import si_prefix
from mansard.analytics.pages.figures.naming import NamedLine
from mansard.analytics.pages.figures.network_points import layer_points, roof_at
from mansard.analytics.pages.figures.parameters import roof_devices
from mansard.analytics.pages.figures.plane import Window, extent
from mansard.analytics.pages.paper.content import Content, legend_columns, marker_key, plane_axes
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.look import MARKERS, colours
from mansard.analytics.pages.paper.names import roof_names, seen_in
from mansard.analytics.pages.paper.selection import (
    Wish,
    choose_batch,
    choose_device,
    choose_network,
    choose_networks,
    choose_roof,
    of_precisions,
)
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.precision import work_unit

_MOST_ENGINES = 60  # looked through for the wished one
_PLACE = {"x": "intensity_flop_per_byte", "y": "rate_gflop_per_s"}
_RIGHT = 6.0  # times the last intensity: room for the names of peaks
_NAMED = 3  # of the slowest layers
_POINTS = "Each point is {a_layer}; larger points take more time."
_FILLED, _HOLLOW = "Filled markers: {}.", "Hollow markers: modelled."
_BELOW = 0.99  # of its roof: a layer with a lower rate is below it
_LINES = "Lines are the roofs: the bandwidth of DRAM up to the peak of each precision."
_PEAKS = "Lines are the peaks of each precision; the bandwidth of DRAM is unknown."
_DISTURBED = "Times are at most those shown: other work disturbed the measurement."
_SCHEMA = {
    "part": pl.String,
    "name": pl.String,
    "bound_by": pl.String,
    "intensity_flop_per_byte": pl.Float64,
    "rate_gflop_per_s": pl.Float64,
    "time_ms": pl.Float64,
    "share_of_time_percent": pl.Float64,
    "source": pl.String,
}


@dataclass(frozen=True, eq=False)
class _LayerSet:
    """The layers of one network in one mode, as rows of ``_SCHEMA`` without roofs."""

    device: str
    mode: str
    words: str
    layers: pl.DataFrame
    roofs: pl.DataFrame
    run_ids: Sequence[str]
    name: str
    unit: str
    count_noun: str  # of a layer: of an engine, or fused by the model
    is_disturbed: bool = False


def layers_content(results: Results, wish: Wish) -> Content:
    """Rate over intensity of each layer of one network, and the roofs above it."""
    measured = _measured(results, wish)
    network = measured if measured is not None else _modelled(results, wish)
    frame = pl.concat([network.roofs, network.layers])
    slowest = network.layers.sort("time_ms", descending=True).head(_NAMED)
    names = ", ".join(
        f"{row['name']} ({row['share_of_time_percent']:.0f} %)"
        for row in slowest.iter_rows(named=True)
    )
    return Content(
        kind="layers",
        device=network.device,
        mode=network.mode,
        subject=network.name,
        frame=frame,
        build=partial(_chart, frame, network.unit),
        sentences=tuple(_sentences(network, names)),
        sources=in_order(frame["source"].drop_nulls().to_list()),
        run_ids=network.run_ids,
        n_samples={network.count_noun: len(network.layers)},
    )


def _sentences(network: _LayerSet, slowest: str) -> Iterator[str]:
    is_vowel = network.count_noun[0] in "aeiou"
    yield network.words
    yield _POINTS.format(a_layer=f"{'an' if is_vowel else 'a'} {network.count_noun}")
    source = network.layers["source"][0]
    yield _HOLLOW if source == "modelled" else _FILLED.format(source)
    if not network.roofs.is_empty():
        yield _LINES if _has_slope(network.roofs) else _PEAKS
    if network.is_disturbed:
        yield _DISTURBED
    yield f"The slowest: {slowest}."


def _measured(results: Results, wish: Wish) -> _LayerSet | None:
    """The newest measurement with layers that fits the wish; None where there is none."""
    engines = layers_with_scores(results.dataset, results.roofs, _MOST_ENGINES)
    if not engines:
        return None
    with_roofs = roof_devices(results).values()
    device = choose_device(results, wish, {*with_roofs, *(engine.device for engine in engines)})
    fitting = [
        engine
        for engine in engines
        if engine.device == device
        and (wish.mode is None or engine.mode.casefold() == wish.mode.casefold())
        and wish.batch in {None, engine.batch}
        and (not wish.precisions or engine.precision in wish.precisions)
        and engine.levels
        and engine.peaks
    ]
    there = [display_name(engine.network) for engine in fitting]
    if not fitting or (wish.models and not _has_any(there, wish, results)):
        return None
    name = choose_network(there, there[-1], wish, results)
    engine = next(one for one in reversed(fitting) if display_name(one.network) == name)
    return _of_engine(results, engine)


def _has_any(there: Sequence[str], wish: Wish, results: Results) -> bool:
    try:
        choose_networks(there, wish, results)
    except UsageError:  # the layers of that network may be modelled
        return False
    return True


def _of_engine(results: Results, engine: RoofedLayers) -> _LayerSet | None:
    points = point_frame(engine)
    if points.is_empty():
        return None
    low, high = extent(points["intensity"], 2.0, _RIGHT, least=30.0)
    roofs = roof_frame(engine, low, high).select(
        part=pl.lit("roof"),
        name="roof",
        bound_by=pl.lit(None, pl.String),
        intensity_flop_per_byte="intensity",
        rate_gflop_per_s="gflop_per_s",
        time_ms=pl.lit(None, pl.Float64),
        share_of_time_percent=pl.lit(None, pl.Float64),
        source=pl.lit(engine.roofs_source, pl.String),
    )
    place = (engine.device, engine.mode, engine.network, engine.precision, engine.batch)
    ran = [
        times
        for times in results.measured
        if (times.device, times.mode, times.network, times.precision, times.batch) == place
    ]
    is_disturbed = any(note.startswith(AT_MOST) for note in engine.notes)
    total_ms = 1e3 * engine.layers_s if engine.layers_s else points["time_ms"].sum()
    layers = points.select(
        part=pl.lit("layer"),
        name="layer",
        bound_by="kind",
        intensity_flop_per_byte="intensity",
        rate_gflop_per_s="gflop_per_s",
        time_ms="time_ms",
        share_of_time_percent=(100 * pl.col("time_ms") / total_ms).round_sig_figs(4),
        source=pl.lit(f"{engine.source} (disturbed)" if is_disturbed else engine.source),
    )
    runs = [run for times in ran for run in times.run_ids]
    batch = f", batch {engine.batch}" if engine.batch else ""
    n_all = len(engine.layers)
    few = f" {len(points)} of {counted(n_all, 'engine layer')} are drawn: the others have no work."
    few = few if len(points) < n_all else ""
    return _LayerSet(
        device=engine.device,
        mode=engine.mode,
        words=f"{display_name(engine.network)} in {engine.precision}{batch}, by "
        f"{engine.engine}.{few}",
        layers=layers,
        roofs=roofs,
        run_ids=tuple(dict.fromkeys(runs)),
        name=display_name(engine.network),
        unit=work_unit(engine.precision),
        count_noun="engine layer",
        is_disturbed=is_disturbed,
    )


def _modelled(results: Results, wish: Wish) -> _LayerSet:
    """The slowest layers of a network at the roof of its mode; raises UsageError of none."""
    roof = choose_roof(results, wish)
    batch = choose_batch(results, wish, roof)
    groups = results.groups.filter(
        (pl.col("label") == roof.label) & pl.col("batch").eq_missing(pl.lit(_number(batch)))
    )
    drawn = layer_points(groups.sort("score_id", "group"), results.names, MOST_LAYERS).frame
    here = drawn.filter((pl.col("intensity") > 0) & (pl.col("rate") > 0))
    there = in_order(here["network"].to_list())
    if not there:
        raise UsageError(
            "no layers are known there",
            fix="measure a network with its layers: mansard measure MODEL",
        )
    name = choose_network(there, there[0], wish, results)
    rows = of_precisions(here.filter(pl.col("network") == name), wish, results)
    rows = rows if wish.precisions or not rows["is_main"].any() else rows.filter("is_main")
    first = rows.row(0, named=True)
    layers = rows.filter(pl.col("precision") == first["precision"]).select(
        part=pl.lit("layer"),
        name="layer",
        bound_by="bound",
        intensity_flop_per_byte="intensity",
        rate_gflop_per_s="rate",
        time_ms="time_ms",
        share_of_time_percent="share",
        source=pl.lit("modelled"),
    )
    low, high = extent(layers["intensity_flop_per_byte"], 2.0, _RIGHT, least=30.0)
    n_all = first["n_layers"]
    few = (
        f" {len(layers)} of {counted(n_all, 'fused layer')} are drawn."
        if n_all > len(layers)
        else ""
    )
    roofs = _roof_rows(roof, first["precision"], (low, high))
    below = _n_below(roof, first["precision"], layers)
    state = f"{below} of {len(layers)} below their roof" if below else "all at their roof"
    return _LayerSet(
        device=roof_devices(results)[roof.label],
        mode=roof.mode,
        words=f"{name} in {first['precision']}, batch {first['batch']}: fused layers, {state}."
        f"{few}",
        layers=layers,
        roofs=roofs,
        run_ids=(roof.run_id,),
        name=name,
        unit=work_unit(first["precision"]),
        count_noun="fused layer",
    )


def _n_below(roof: Roofline, precision: str, layers: pl.DataFrame) -> int:
    """How many of ``layers`` are slower than the roof of ``precision`` allows."""
    places = layers.select(*_PLACE.values()).iter_rows()
    return sum(rate < _BELOW * (roof_at(roof, precision, x) or math.inf) for x, rate in places)


def _number(batch: str) -> int | None:
    return int(batch) if batch.isdigit() else None


def _roof_rows(roof: Roofline, precision: str, ends: tuple[float, float]) -> pl.DataFrame:
    """Corners of the roofs of DRAM under each peak of ``precision``; of all where it has none."""
    bandwidth = roof.bandwidth(DRAM).value
    known = [peak for peak in roof.peaks if peak.value]
    own = [peak for peak in known if peak.subject == precision] or known
    rows = [
        {
            "part": "roof",
            "name": peak.name,
            "intensity_flop_per_byte": x,
            "rate_gflop_per_s": height / GIGA,
            "source": roof.source,
        }
        for peak in own
        if peak.value and bandwidth
        for x, height in corners(peak.value, bandwidth, *ends)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _has_slope(roofs: pl.DataFrame) -> bool:
    heights = pl.col("rate_gflop_per_s").n_unique().over("name")
    return bool(roofs.select((heights > 1).any()).item())


def _named_lines(roofs: pl.DataFrame, unit: str) -> list[NamedLine]:
    """Each peak, and the slope of DRAM that all of them share, with their values."""
    paths = {
        str(name): own.select(**_PLACE).rows()
        for (name,), own in roofs.group_by(["name"], maintain_order=True)
    }
    slopes = [path[:2] for path in paths.values() if path[0][1] < path[1][1]]
    longest = max(slopes, key=lambda ends: ends[1][1], default=None)
    lines = [
        NamedLine("", "", _texts(name, GIGA * path[-1][1], f"{unit}/s"), "level", path)
        for name, path in paths.items()
    ]
    if longest is not None:
        (x, height), _ = longest
        lines.append(NamedLine("", "", _texts(DRAM, GIGA * height / x, "B/s"), "slope", longest))
    return lines


def _texts(name: str, value: float, unit: str) -> list[str]:
    return [f"{name} {quantity(value, unit)}", name]


def _chart(frame: pl.DataFrame, unit: str, inside: Inside) -> Chart:
    layers, roofs = (frame.filter(pl.col("part") == part) for part in ("layer", "roof"))
    across = extent(layers["intensity_flop_per_byte"], 2.0, _RIGHT, least=30.0)
    tops = roofs.group_by("name").agg(pl.col("rate_gflop_per_s").max())["rate_gflop_per_s"]
    up = extent([*layers["rate_gflop_per_s"], *tops], 2.0, 1.9, least=30.0)
    top = float(tops.to_numpy().max(initial=up[0]))
    seen = seen_in(inside, Window(*across, *up, inside.width_px), top)
    prefix = si_prefix(up[1])
    titles = (f"Arithmetic intensity, {unit}/byte", f"Performance, {prefix.letter}{unit}/s")
    x, y = plane_axes(seen, "rate_gflop_per_s", titles, prefix)
    known = set(layers["bound_by"].to_list())
    kinds = [kind for kind in KINDS if kind in known] + sorted(known - set(KINDS))
    source = layers["source"][0]
    is_hollow = source == "modelled"
    key = alt.Legend(
        title=None,
        columns=legend_columns(kinds, inside),
        symbolSize=60 if is_hollow else 90,
        symbolStrokeWidth=1.6 if is_hollow else 0,
    )
    look: dict[str, Any] = (
        {"filled": False, "style": "m-hollow"}
        if is_hollow
        else {"filled": True, "opacity": 0.75, "stroke": "#ffffff", "strokeWidth": 0.6}
    )
    return alt.layer(
        plot(roofs).mark_line(style="m-roof", clip=True).encode(x=x, y=y, detail="name:N"),
        plot(layers)
        .mark_point(clip=True, **look)
        .encode(
            x=x,
            y=y,
            size=alt.Size("time_ms:Q", scale=alt.Scale(type="sqrt", range=[16, 160]), legend=None),
            color=alt.Color(
                "bound_by:N", scale=alt.Scale(domain=kinds, range=colours(kinds)), legend=key
            ),
            shape=alt.Shape(
                "bound_by:N", scale=alt.Scale(domain=kinds, range=list(MARKERS)), legend=key
            ),
        ),
        marker_key([source]),
        *roof_names(
            _named_lines(roofs, unit),
            layers.select(**_PLACE),
            seen,
            inside.share,
        ),
    ).properties(width=inside.width_px, height=inside.height_px)
