"""Layers of an engine: a strip of their times in order, and each under its roof."""

from __future__ import annotations

import re

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_text, kernel_text
from mansard.analytics.data.quantities import GIGA, MEGA, MILLI
from mansard.analytics.models.layers.rows import RoofedLayer, RoofedLayers
from mansard.analytics.pages.figures.charting import (
    colour,
    log_scale,
    plot,
    shape,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import (
    Figure,
    Missing,
    make_figure,
    schema_of,
    si_prefix,
)
from mansard.analytics.pages.figures.tables import Column, tabulate

MOST_LAYERS = 1500  # drawn of one engine
_WIDTH_PX, _STRIP_PX, _HEIGHT_PX = 760, 84, 380
_OWN = "the engine's own"
KINDS = ("compute", "memory", "launch", "reformat", _OWN, "not joined", "no roof")
NO_TIMES = "The profile has no times: nothing is drawn."
NO_ROOFS = "No layer has a roof: name runs, a device, or peaks and a bandwidth."
STRIP_CAPTION = (
    "Layers in execution order. Width: time. Colour: limit. Dark: share of the roof. Pale: gap.",
)
ROOF_CAPTION = (
    "Each point is a layer. Marker size: time. Large points far below their roof can gain most.",
)
_COLUMNS = (
    Column.text("Layer", "layer"),
    Column.text("Bound by", "bound"),
    Column.number("Time, ms", "time_ms"),
    Column.number("At the roof, ms", "roof_ms"),
    Column.number("Gap, ms", "gap_ms"),
)


_LONGEST = 34  # characters of a layer's name in a table
_COPY = re.compile(r"^Reformatting CopyNode for (?P<way>Input|Output) Tensor \d+ to (?P<rest>.+)")
_TORCH = re.compile(r"\[[^\[\]]*\]-\[[^\[\]]*\]-\[([^\[\]]+)\]")
_BESIDE = re.compile(
    r"ReadVariableOp|^Quant\w*Linear|^QuantLinear|\.weight$|\.bias$|^\(Unnamed Layer"
)
_SEPARATOR = re.compile(r"\s*(?:\+|\|\|)\s*")


def layer_title(row: RoofedLayer, longest: int = _LONGEST) -> str:
    """A layer's name as a table shows it, at most ``longest`` characters."""
    is_launch = bool(row.kernel) and row.name == row.kernel  # without a range that names it
    shown = kernel_text(row.name) if is_launch else display_text(_layer_name(row.name))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def _layer_name(name: str) -> str:
    """The end of each path; a copy is named after the layer beside it."""
    name = _TORCH.sub(r"\1", name)
    copy = _COPY.match(name)
    if copy is None:
        return _plain_name(name)
    return f"reformat {'before' if copy['way'] == 'Input' else 'after'} {_plain_name(copy['rest'])}"


def _plain_name(name: str) -> str:
    """``features.3/Conv + Relu`` of ``/features/features.3/Conv + /features/features.4/Relu``.

    The weights of a quantised layer and their quantisers are left out.
    """
    pieces = _SEPARATOR.split(name)
    first, *others = [piece for piece in pieces if not _BESIDE.search(piece)] or pieces
    parts = [part for part in first.split("/") if part]
    # A module's name is in that of the next: features in features.3, conv.0 in conv.0.1.
    modules = [
        part
        for part, inner in zip(parts, [*parts[1:], ""], strict=True)
        if not inner.startswith(f"{part}.")
    ]
    head = "/".join(modules[-3:]) or first
    return " + ".join([head, *(other.rpartition("/")[2] or other for other in others)])


def bound_text(row: RoofedLayer) -> str:
    """What bounds a layer, with the peak or the level of memory."""
    if row.bound == "compute":
        return f"compute, {row.peak}"
    return f"memory, {row.level}" if row.bound == "memory" else row.bound


def _kind(row: RoofedLayer) -> str:
    if row.kind == "reformat":
        return "reformat"
    if row.kind in {"layer", "region"} and not row.nodes:
        return "not joined"
    if row.kind == "engine":
        return _OWN
    return "no roof" if row.bound == "unknown" else row.bound


def strip_frame(result: RoofedLayers) -> pl.DataFrame:
    """One row for each layer with a time, in the order of running: from where to where it lies."""
    rows, at_ms = [], 0.0
    for row in sorted(result.layers, key=lambda layer: layer.index)[:MOST_LAYERS]:
        if not row.time_s:
            continue
        time_ms = row.time_s / MILLI
        rows.append(
            {
                "layer": layer_title(row, 80),
                "operators": ", ".join(row.operators) or "none",
                "kind": _kind(row),
                "bound": bound_text(row),
                "from_ms": at_ms,
                "to_ms": at_ms + time_ms,
                "time_ms": time_ms,
                "roof_ms": None if row.roof_s is None else row.roof_s / MILLI,
                "gap_ms": None if row.gap_s is None else row.gap_s / MILLI,
                # Of the bar's height: the share of the roof, at most all of it.
                "reached": None if row.roof_share is None else min(row.roof_share, 1.0),
            }
        )
        at_ms += time_ms
    schema = schema_of(
        text="layer operators kind bound",
        number="from_ms to_ms time_ms roof_ms gap_ms reached",
    )
    return _rounded(pl.DataFrame(rows, schema=schema))


def _rounded(frame: pl.DataFrame) -> pl.DataFrame:
    """A page needs no more than five digits."""
    return frame.with_columns(pl.col(pl.Float64).round_sig_figs(5))


def time_strip(number: int, result: RoofedLayers) -> Figure | Missing:
    """The layers of engine ``number`` of a page as a strip of their times."""
    frame = strip_frame(result)
    if frame.is_empty():
        return Missing(NO_TIMES)
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    base = with_tooltip(
        plot(frame),
        layer="layer",
        operators="runs",
        bound="bound by",
        time_ms="time, ms",
        roof_ms="at its roof, ms",
        gap_ms="gap, ms",
    ).encode(
        x=alt.X(
            "from_ms:Q",
            scale=alt.Scale(domain=[0, max(frame["to_ms"].to_list())], nice=False),
            axis=alt.Axis(title="Time, ms", format=".12~g", tickCount=6, grid=False),
        ),
        x2="to_ms:Q",
        color=colour("kind", kinds),
    )
    heights = alt.Scale(domain=[0, 1])
    whole = base.mark_bar(style="m-network", opacity=0.35).encode(
        y=alt.Y("top:Q", scale=heights, axis=None), y2=alt.datum(0)
    )
    reached = base.mark_bar(style="m-network").encode(
        y=alt.Y("reached:Q", scale=heights, axis=None), y2=alt.datum(0)
    )
    chart = alt.layer(whole.transform_calculate(top="1"), reached).properties(
        width=_WIDTH_PX,
        height=_STRIP_PX,
        title=alt.TitleParams("Time by layer; dark: what its roof allows", offset=10),
        description="The layers of an engine in order, each as wide as its time",
    )
    table = tabulate("Layers in order", _COLUMNS, frame.iter_rows(named=True))
    return make_figure(f"strip-{number}", chart, table, STRIP_CAPTION)


def point_frame(result: RoofedLayers) -> pl.DataFrame:
    """Intensity and rate of each layer that works and is timed."""
    rows = [
        {
            "layer": layer_title(row, 80),
            "kind": _kind(row),
            "bound": bound_text(row),
            "peak": row.peak,
            "intensity": row.intensity,
            "gflop_per_s": row.flop_per_s / GIGA,
            "mflop": (row.work_flop or 0) / MEGA,
            "mbytes": (row.traffic_bytes or 0.0) / MEGA,
            "time_ms": (row.time_s or 0.0) / MILLI,
            "roof_ms": None if row.roof_s is None else row.roof_s / MILLI,
            "gap_ms": None if row.gap_s is None else row.gap_s / MILLI,
        }
        for row in result.layers[:MOST_LAYERS]
        if row.intensity and row.flop_per_s
    ]
    schema = schema_of(
        text="layer kind bound peak",
        number="intensity gflop_per_s mflop mbytes time_ms roof_ms gap_ms",
    )
    return _rounded(pl.DataFrame(rows, schema=schema))


def corners(peak: float, bandwidth: float, low: float, high: float) -> list[tuple[float, float]]:
    """Intensity and height of the corners of a roof, from ``low`` to ``high`` intensity."""
    ridge = peak / bandwidth
    inner = [ridge] if low < ridge < high else []
    return [(x, min(peak, bandwidth * x)) for x in (low, *inner, high)]


def roof_frame(result: RoofedLayers, low: float, high: float) -> pl.DataFrame:
    """Corners of the roof of DRAM under the peak of each layer, from low to high intensity."""
    names = dict.fromkeys(row.peak for row in result.layers if row.peak)
    bandwidth = result.levels[0].bytes_per_s
    rows: list[dict[str, object]] = []
    for name in names:
        rows += [
            {"roof": name, "intensity": x, "gflop_per_s": height / GIGA}
            for x, height in corners(result.peaks[name], bandwidth, low, high)
        ]
    return pl.DataFrame(rows, schema=schema_of(text="roof", number="intensity gflop_per_s"))


def roofline_of_layers(number: int, result: RoofedLayers) -> Figure | Missing:
    """The layers of engine ``number`` of a page under the roofs of DRAM."""
    frame = point_frame(result)
    if frame.is_empty():
        return Missing(NO_TIMES)
    if not result.levels or not any(row.peak for row in result.layers):
        return Missing(NO_ROOFS)
    low, high = _ends(frame["intensity"])
    roofs = roof_frame(result, low, high)
    rates = pl.concat([frame["gflop_per_s"], roofs["gflop_per_s"]])
    prefix = si_prefix(_ends(rates)[1])
    unit = f"{prefix.letter}FLOP/s"
    rate = (pl.col("gflop_per_s") / prefix.per).round_sig_figs(5)
    x = alt.X(
        "intensity:Q",
        scale=log_scale(low, high),
        axis=alt.Axis(title="Arithmetic intensity, FLOP/byte", format="~g", tickCount=5),
    )
    y = alt.Y(
        "gflop_per_s:Q",
        scale=log_scale(*_ends(rates)),
        axis=alt.Axis(title=unit, labelExpr=prefix.tick, tickCount=5),
    )
    lines = plot(roofs).mark_line(style="m-roof").encode(x=x, y=y, detail="roof:N")
    words = (
        plot(roofs.group_by("roof", maintain_order=True).last())
        .mark_text(style="m-roof-label", align="right", baseline="bottom", dy=-5)
        .encode(x=x, y=y, text="roof:N")
    )
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    points = (
        with_tooltip(
            plot(frame.with_columns(rate=rate)),
            layer="layer",
            bound="bound by",
            time_ms="time, ms",
            gap_ms="gap, ms",
            mflop="MFLOP",
            mbytes="MB",
            intensity="FLOP/byte",
            rate=unit,
        )
        .mark_point(opacity=0.8)
        .encode(
            x=x,
            y=y,
            size=alt.Size("time_ms:Q", scale=alt.Scale(type="sqrt", range=[20, 600]), legend=None),
            color=colour("kind", kinds),
            shape=shape("kind", kinds),
        )
    )
    chart = alt.layer(lines, points, words).properties(
        width=_WIDTH_PX,
        height=_HEIGHT_PX,
        title=alt.TitleParams("Layers under the roofs of DRAM", offset=10),
        description="Rate over arithmetic intensity of the layers of an engine, under its roofs",
    )
    columns = (
        *_COLUMNS,
        *(Column.number("MFLOP", "mflop"), Column.number("MB", "mbytes")),
        *(
            Column.number("FLOP/byte", "intensity"),
            Column.number(unit, "gflop_per_s", per=prefix.per),
        ),
    )
    table = tabulate("Layers under the roofs", columns, frame.iter_rows(named=True))
    return make_figure(f"layer-roofs-{number}", chart, table, ROOF_CAPTION)


def _ends(values: pl.Series) -> tuple[float, float]:
    known = values.drop_nulls().to_list()
    return min(known) / 2, max(known) * 2
