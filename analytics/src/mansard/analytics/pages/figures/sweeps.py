"""The sweeps: the staircase of memory, the ladder of latencies, the chains of arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_text, in_order
from mansard.analytics.data.quantities import GIGA, NANO, capacity, quantity, seconds
from mansard.analytics.models.roofs.ceilings import STREAM_KERNELS, Level, latency_levels
from mansard.analytics.models.roofs.rates import USUAL_BACKENDS, TrialRate
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.charting import (
    Chart,
    colour,
    dash,
    following,
    log_scale,
    plot,
    rate_axis,
    shape,
    size_axis,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import (
    Drawn,
    Figure,
    Following,
    Prefix,
    Row,
    Schema,
    dropped_note,
    in_giga,
    make_figure,
    positive,
    schema_of,
    si_prefix,
)
from mansard.analytics.pages.figures.parameters import Chosen, LiveTable, Shown, equals, heading
from mansard.analytics.pages.figures.tables import Column, ceiling_text
from mansard.analytics.pages.results import Results
from mansard.core.precision import rate_unit, unit_title

WIDTH_PX, HEIGHT_PX = 900, 330
LINE_PX = 15  # of text
SLICED = ", sliced"  # of curves in which every SM has a slice of the working set
PATHS = ("through L1", "past L1")
STAIRCASE_CAPTION = (
    "Broad strokes: roofs, over their working sets. Dashed: cache capacities. Bars: 95 % intervals."
)
STAIRCASE_CAPTION_OF_A_GPU = (
    "Sliced: each SM reads its slice of the working set, which L1 may contain. Other curves bypass "
    "L1. The capacity of L1 is of all SMs."
)
LATENCY_CAPTION = ("One thread follows a random ring. Dashed: the L1 of an SM, and L2.",)
CHAINS_CAPTION = ("Dashed: peaks, from points with at least 64 FMA per element.",)
NONE = "No such sweep in {mode}: `mansard bench` measures it."
_SIZE = Column.text("Working set", "size")
_CALM = "!datum.is_disturbed"
_CROSS = "M-1,-1L1,1M1,-1L-1,1"
_TRIAL_SCHEMA = schema_of(text="mode interval trial", number="low high", flag="is_disturbed")
_SIZE_SCHEMA = _TRIAL_SCHEMA | schema_of(text="size", number="working_set_bytes")
_STAIRCASE_SCHEMA = _SIZE_SCHEMA | schema_of(text="kernel", number="rate")
_LATENCY_SCHEMA = _SIZE_SCHEMA | schema_of(text="path", number="latency")
_CHAIN_SCHEMA = _TRIAL_SCHEMA | schema_of(text="precision", number="fma_per_element rate")
_CACHE_SCHEMA = schema_of(text="mode level text", number="capacity_bytes", count="row")


def staircase_figure(results: Results, chosen: Chosen) -> Figure | None:
    """Bandwidth over the working set; None where no stream was timed."""
    drawn = staircase(results.rates, results.labels())
    if drawn.frame.is_empty():
        return None
    kernels = series_order(drawn.frame["kernel"].to_list())
    prefix = si_prefix(max(drawn.frame["rate"].to_list()))
    x_scale, x, y = _size_axes(drawn.frame, "rate", f"{prefix.letter}B/s", prefix)
    base = with_tooltip(
        plot(drawn.frame), kernel="kernel", size="working set", interval="bandwidth", trial="trial"
    ).encode(x=x, y=y, color=colour("kernel", kernels))
    steps = (
        plot(ceiling_steps(results.roofs, *_around(drawn.frame["working_set_bytes"], 1.3, 1.3)))
        .mark_rule(style="m-ceiling", strokeCap="butt")
        .encode(x=alt.X("from_bytes:Q", scale=x_scale), x2="to_bytes:Q", y=y, tooltip="text:N")
    )
    caches = cache_rules((roof.label, roof.levels) for roof in results.roofs)
    chart = _sweep(
        "Bandwidth",
        [steps, *_cache_marks(caches, x_scale)],
        _curves(base, "kernel", kernels, is_dashed=True),
        chosen,
        f"Bandwidth in {prefix.letter}B/s of each stream kernel over the working set, with the "
        "caches' capacities",
    )
    table = _table("staircase", "Bandwidth", drawn, "Kernel", "kernel")
    has_gpu = any(roof.processor == "gpu" for roof in results.roofs)
    caption = (STAIRCASE_CAPTION, *([STAIRCASE_CAPTION_OF_A_GPU] if has_gpu else []))
    return make_figure(
        "staircase", chart, table, caption, _notes(drawn), follows=_follows(drawn, chosen)
    )


def latency_figure(results: Results, chosen: Chosen) -> Figure | None:
    """Latency of one load over the working set; None where none was measured."""
    drawn = latencies(results.rates, results.labels())
    if drawn.frame.is_empty():
        return None
    x_scale, x, y = _size_axes(drawn.frame, "latency", "ns a load")
    base = with_tooltip(
        plot(drawn.frame), path="loads", size="working set", interval="latency", trial="trial"
    ).encode(x=x, y=y, color=colour("path", PATHS))
    # The caches that one thread sees. A published roof has no manifest.
    gpus = {run.run_id: run.gpu for run in results.dataset.manifests if run.gpu is not None}
    caches = cache_rules(
        (roof.label, latency_levels(gpus[roof.run_id]))
        for roof in results.roofs
        if roof.run_id in gpus
    )
    chart = _sweep(
        "Latency of a load",
        _cache_marks(caches.drop("level"), x_scale),
        _curves(base, "path", PATHS),
        chosen,
        "Nanoseconds of one dependent load over the working set",
    )
    table = _table("latency", "Latency", drawn, "Loads", "path")
    follows = _follows(drawn, chosen)
    return make_figure("latency", chart, table, LATENCY_CAPTION, _notes(drawn), follows=follows)


def chain_figure(results: Results, chosen: Chosen) -> Figure | None:
    """Rate of work over the length of the FMA chain; None where no chain was timed."""
    drawn = chains(results.rates, results.labels())
    if drawn.frame.is_empty():
        return None
    precisions = in_order(drawn.frame["precision"].to_list())
    highest = max(drawn.frame["rate"].to_list()) * 1.15
    prefix = si_prefix(highest)
    unit = unit_title(f"{prefix.letter}{{}}/s", precisions)
    y = alt.Y("rate:Q", scale=alt.Scale(domain=[0, highest]), axis=_axis(unit, prefix))
    base = with_tooltip(
        plot(drawn.frame),
        precision="precision",
        fma_per_element="FMA per element",
        interval="rate",
        trial="trial",
    ).encode(
        x=alt.X(
            "fma_per_element:Q",
            scale=log_scale(0.9, 1150, base=2),
            axis=alt.Axis(
                title="FMA per element", values=[4**power for power in range(6)], format="~g"
            ),
        ),
        y=y,
        color=colour("precision", precisions),
    )
    peak = plot(peak_rules(results.roofs)).encode(y=y)
    chart = _sweep(
        "Arithmetic",
        [
            peak.mark_rule(style="m-peak"),
            peak.mark_text(
                style="m-rule-label", align="right", x=alt.ExprRef("width - 4"), dy=-14
            ).encode(text="text:N"),
        ],
        _curves(base, "precision", precisions, size=56),
        chosen,
        f"{unit} of the FMA chains over the FMA done on each element",
    )
    across = Column.number("FMA per element", "fma_per_element", "g")
    table = _table("chains", "Rate", drawn, "Precision", "precision", across)
    follows = _follows(drawn, chosen)
    return make_figure("chains", chart, table, CHAINS_CAPTION, _notes(drawn), follows=follows)


def staircase(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Bandwidth of each stream trial over its working set.

    Other backends of a GPU and memory of its host have a table of their own.
    """
    rows = [
        {
            **_size_fields(rate, labels),
            "kernel": f"{rate.kernel}{SLICED}" if rate.scope == "sm" else rate.kernel,
            **_rate_fields(rate, "B/s"),
        }
        for rate in rates
        if rate.family == "stream" and _is_drawn(rate)
    ]
    return _by(["mode", "kernel", "working_set_bytes"], rows, _STAIRCASE_SCHEMA, "rate")


def latencies(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Nanoseconds of one load of each latency trial over its working set."""
    rows = []
    for rate in rates:
        if rate.family != "latency" or not _is_drawn(rate):
            continue
        load = rate.estimate.inverse()
        load_ns = load.over(NANO)
        rows.append(
            {
                **_size_fields(rate, labels),
                "path": PATHS[0] if rate.scope == "sm" else PATHS[1],
                "latency": load_ns.value,
                "low": load_ns.low,
                "high": load_ns.high,
                "interval": seconds(load.value, load.low, load.high),
            }
        )
    return _by(["mode", "path", "working_set_bytes"], rows, _LATENCY_SCHEMA, "latency")


def chains(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Rate of work of each FMA trial over the FMA done per element.

    A precision that ran over several working sets has a curve for each of them.
    """
    chosen = [rate for rate in rates if rate.family == "fma" and _is_drawn(rate)]
    smallest: dict[tuple[str, str], int] = {}
    for rate in chosen:
        key = rate.run_id, rate.precision
        smallest[key] = min(smallest.get(key, rate.working_set_bytes), rate.working_set_bytes)

    def name(rate: TrialRate) -> str:
        if rate.working_set_bytes == smallest[rate.run_id, rate.precision]:
            return rate.precision
        return f"{rate.precision}, {capacity(rate.working_set_bytes)}"

    rows = [
        {
            **_trial_fields(rate, labels),
            "precision": name(rate),
            "fma_per_element": rate.fma_per_element,
            **_rate_fields(rate, rate_unit(rate.precision)),
        }
        for rate in chosen
    ]
    return _by(["mode", "precision", "fma_per_element"], rows, _CHAIN_SCHEMA, "rate")


def series_order(names: Iterable[str]) -> list[str]:
    """Each curve once, kernels in their usual order; without any, the four of one backend."""
    present = set(names)
    usual = [f"{kernel}{end}" for end in ("", SLICED) for kernel in STREAM_KERNELS]
    curves = [*(name for name in usual if name in present), *sorted(present - set(usual))]
    return curves or usual[:4]


def cache_rules(levels: Iterable[tuple[str, Sequence[Level]]]) -> pl.DataFrame:
    """The capacity of each cache in use, one row per mode and level."""
    rows = [
        {
            "mode": mode,
            "level": level.name,
            "row": number,
            "capacity_bytes": float(level.capacity_bytes),
            "text": f"{level.name} {capacity(level.capacity_bytes)}",
        }
        for mode, inside in levels
        for number, level in enumerate(inside)
        if level.capacity_bytes
    ]
    return pl.DataFrame(rows, schema=_CACHE_SCHEMA)


def ceiling_steps(
    roofs: Sequence[Roofline], smallest_bytes: float, largest_bytes: float
) -> pl.DataFrame:
    """The roof of each level over the working sets from which it was taken."""
    rows = [
        {
            "mode": roof.label,
            "level": level.name,
            "from_bytes": max(level.low_bytes, smallest_bytes),
            "to_bytes": level.high_bytes or largest_bytes,
            "rate": ceiling.value / GIGA,
            "text": ceiling_text(ceiling),
        }
        for roof in roofs
        for level in roof.levels
        if (ceiling := roof.bandwidth(level.name)).value is not None
        and (level.high_bytes or largest_bytes) > smallest_bytes
    ]
    schema = schema_of(text="mode level text", number="from_bytes to_bytes rate")
    return positive(rows, schema, "from_bytes", "to_bytes", "rate").frame


def peak_rules(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The peak that the chains of each precision approach, one row per mode."""
    rows = [
        {
            "mode": roof.label,
            "precision": peak.subject,
            "rate": peak.value / GIGA,
            "text": f"{peak.subject} peak {ceiling_text(peak)}",
        }
        for roof in roofs
        for peak in roof.peaks
        if peak.value is not None and peak.family == "fma"
    ]
    return positive(rows, schema_of(text="mode precision text", number="rate"), "rate").frame


def _is_drawn(rate: TrialRate) -> bool:
    """Whether a trial is one of the curves: the usual backend, chaotic values, own memory."""
    usual = rate.backend in USUAL_BACKENDS and rate.memory != "zero-copy"
    return usual and rate.operands == "chaotic"


def _trial_fields(rate: TrialRate, labels: Mapping[str, str]) -> Row:
    trial = "unstable" if rate.unstable else "stable"
    if rate.disturbances:
        trial = f"disturbed, in no ceiling: {display_text('; '.join(rate.disturbances))}"
    return {
        "mode": labels[rate.run_id],
        "trial": trial,
        "is_disturbed": bool(rate.disturbances),
    }


def _size_fields(rate: TrialRate, labels: Mapping[str, str]) -> Row:
    return {
        **_trial_fields(rate, labels),
        "working_set_bytes": float(rate.working_set_bytes),
        "size": capacity(rate.working_set_bytes),
    }


def _rate_fields(rate: TrialRate, unit: str) -> Row:
    estimate = rate.estimate
    return {
        "rate": estimate.value / GIGA,
        "low": in_giga(estimate.low),
        "high": in_giga(estimate.high),
        "interval": quantity(estimate.value, unit, estimate.low, estimate.high),
    }


def _by(order: Sequence[str], rows: Sequence[Row], schema: Schema, height: str) -> Drawn:
    """The rows that logarithmic axes can show, sorted; the last of ``order`` is the axis across."""
    drawn = positive(rows, schema, order[-1], height)
    return Drawn(drawn.frame.sort(order), drawn.n_dropped)


def _axis(title: str, prefix: Prefix | None) -> alt.Axis:
    """An axis of numbers as they are, or of values in 10⁹ with the ``prefix`` of the title."""
    if prefix is None:
        return rate_axis(title)
    return alt.Axis(title=title, labelExpr=prefix.tick, tickCount=6)


def _size_axes(
    frame: pl.DataFrame, height: str, title: str, prefix: Prefix | None = None
) -> tuple[alt.Scale, alt.X, alt.Y]:
    """Working sets across and the column ``height`` up, both logarithmic."""
    low, high = _around(frame["working_set_bytes"], 1.3, 1.3)
    scale = log_scale(low, high, base=2)
    heights = log_scale(*_around(frame[height], 1.6, 1.7))
    y = alt.Y(f"{height}:Q", scale=heights, axis=_axis(title, prefix))
    return scale, alt.X("working_set_bytes:Q", scale=scale, axis=size_axis(low, high)), y


def _around(values: pl.Series, below: float, above: float) -> tuple[float, float]:
    known = values.to_list()
    return min(known) / below, max(known) * above


def _cache_marks(caches: pl.DataFrame, x_scale: alt.Scale) -> list[Chart]:
    """The capacities, named at the top, each a line lower: capacities can be close."""
    x = alt.X("capacity_bytes:Q", scale=x_scale)
    return [
        plot(caches).mark_rule(style="m-cache").encode(x=x),
        *[
            plot(caches.filter(pl.col("row") == row))
            .mark_text(
                style="m-rule-label", align="left", dx=5, baseline="top", y=2 + LINE_PX * row
            )
            .encode(x=x, text="text:N")
            for row in sorted(set(caches["row"].to_list()))
        ],
    ]


def _curves(
    base: Chart, field: str, names: Sequence[str], *, size: int = 46, is_dashed: bool = False
) -> list[Chart]:
    """Lines and points of calm trials, intervals, and crosses for disturbed trials."""
    calm = base.transform_filter(_CALM)
    line = calm.mark_line(strokeWidth=2, opacity=0.85)
    return [
        line.encode(strokeDash=dash(field, names)) if is_dashed else line,
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        base.transform_filter(f"!({_CALM})").mark_point(
            shape=_CROSS, size=60, filled=False, strokeWidth=2, opacity=1
        ),
        calm.mark_point(size=size, opacity=1).encode(shape=shape(field, names)),
    ]


def _sweep(
    title: str,
    behind: Sequence[Chart],
    curves: Sequence[Chart],
    chosen: Chosen,
    description: str,
) -> Chart:
    in_mode = [layer.transform_filter(equals("mode")) for layer in (*behind, *curves)]
    return following(
        alt.layer(*in_mode),
        chosen,
        "mode",
        width=WIDTH_PX,
        height=HEIGHT_PX,
        title=heading(title),
        description=description,
    )


def _table(
    name: str, height: str, drawn: Drawn, series: str, field: str, across: Column = _SIZE
) -> LiveTable:
    columns = (
        *(across, Column.text(series, field)),
        *(Column.text(height, "interval", is_numeric=True), Column.text("Trial", "trial")),
    )
    return LiveTable(name, height + " in {mode} as drawn", columns, _shown(drawn))


def _shown(drawn: Drawn) -> Shown:
    return Shown(drawn.frame, {"mode": "equal"})


def _follows(drawn: Drawn, chosen: Chosen) -> Following:
    return Following(_shown(drawn), chosen, "{mode}", NONE)


def _notes(drawn: Drawn) -> tuple[str, ...]:
    """What crosses mean, and how many trials are not drawn."""
    n_crosses = int(drawn.frame["is_disturbed"].sum())
    crosses = f"Crosses ({n_crosses}) are disturbed trials; no roof rests on them."
    dropped = dropped_note(drawn.n_dropped, "trials", "they have no positive rate")
    return (crosses, *dropped) if n_crosses else dropped
