"""The sweeps: the staircase of memory, the ladder of latencies, the chains of arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_text, in_order
from mansard.analytics.data.quantities import capacity, quantity, seconds
from mansard.analytics.figures.charting import (
    inline,
    layered,
    log_scale,
    rate_axis,
    shape_scale,
    size_axis,
    tooltips,
)
from mansard.analytics.figures.figure import (
    GIGA,
    Drawn,
    Figure,
    in_giga,
    make_figure,
    positive,
    sweep_notes,
)
from mansard.analytics.figures.label_layout import WIDTH_PX
from mansard.analytics.figures.parameters import Chosen, equals
from mansard.analytics.figures.tables import Table, ceiling_text
from mansard.analytics.results import Results
from mansard.analytics.roofs.ceilings import STREAM_KERNELS, Ceiling
from mansard.analytics.roofs.levels import Level, gpu_levels
from mansard.analytics.roofs.rates import USUAL_BACKENDS, TrialRate
from mansard.analytics.roofs.roofline import Roofline

SLICED = ", sliced"  # of curves whose working set is dealt out to the SMs


def staircase(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Bandwidth of each stream trial over its working set.

    Other backends of a GPU and memory of its host have a table of their own.
    """
    schema = {
        "mode": pl.String,
        "kernel": pl.String,
        "working_set_bytes": pl.Float64,
        "size": pl.String,
        "rate": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,
        "trial": pl.String,
        "is_disturbed": pl.Boolean,
    }
    rows = [
        {
            "mode": labels[rate.run_id],
            "kernel": series_name(rate),
            "working_set_bytes": float(rate.working_set_bytes),
            "size": capacity(rate.working_set_bytes),
            **_rate_fields(rate, "B/s"),
        }
        for rate in rates
        if rate.family == "stream" and is_drawn(rate)
    ]
    drawn = positive(rows, schema, "working_set_bytes", "rate")
    return Drawn(drawn.frame.sort("mode", "kernel", "working_set_bytes"), drawn.n_dropped)


def is_drawn(rate: TrialRate) -> bool:
    """Whether a trial is one of the curves: the usual backend, real values, own memory."""
    usual = rate.backend in USUAL_BACKENDS and rate.memory != "zero-copy"
    return usual and rate.operands == "chaotic"


def series_name(rate: TrialRate) -> str:
    """The curve of a stream: its kernel, and whether every SM of a GPU has a slice."""
    return f"{rate.kernel}{SLICED}" if rate.scope == "sm" else rate.kernel


def series_order(names: Iterable[str]) -> list[str]:
    """Each curve once, the kernels in their usual order; all of them where there is none."""
    found = set(names)
    usual = [f"{kernel}{end}" for end in ("", SLICED) for kernel in STREAM_KERNELS]
    return [*(name for name in usual if name in found), *sorted(found - set(usual))] or usual[:4]


def chains(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """FLOP/s of each FMA trial over the FMA done per element.

    A precision that ran over several working sets has a curve for each of them.
    """
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "fma_per_element": pl.Float64,
        "rate": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,
        "trial": pl.String,
        "is_disturbed": pl.Boolean,
    }
    chosen = [rate for rate in rates if rate.family == "fma" and is_drawn(rate)]
    smallest: dict[tuple[str, str], int] = {}
    for rate in chosen:
        key = rate.run_id, rate.precision
        smallest[key] = min(smallest.get(key, rate.working_set_bytes), rate.working_set_bytes)
    rows = [
        {
            "mode": labels[rate.run_id],
            "precision": _chain_name(rate, smallest[rate.run_id, rate.precision]),
            "fma_per_element": rate.fma_per_element,
            **_rate_fields(rate, "FLOP/s"),
        }
        for rate in chosen
    ]
    drawn = positive(rows, schema, "fma_per_element", "rate")
    return Drawn(drawn.frame.sort("mode", "precision", "fma_per_element"), drawn.n_dropped)


def _chain_name(rate: TrialRate, smallest_bytes: int) -> str:
    if rate.working_set_bytes == smallest_bytes:
        return rate.precision
    return f"{rate.precision}, {capacity(rate.working_set_bytes)}"


def _rate_fields(rate: TrialRate, unit: str) -> dict[str, object]:
    found = rate.estimate
    return {
        "rate": found.value / GIGA,
        "low": in_giga(found.low),
        "high": in_giga(found.high),
        "interval": quantity(found.value, unit, found.low, found.high),
        "trial": trial_state(rate),
        "is_disturbed": bool(rate.disturbances),
    }


def trial_state(rate: TrialRate) -> str:
    """Whether a trial counts, in a word or with what disturbed it."""
    if rate.disturbances:
        return f"disturbed, in no ceiling: {display_text('; '.join(rate.disturbances))}"
    return "unstable" if rate.unstable else "stable"


def cache_rules(roofs: Sequence[Roofline]) -> pl.DataFrame:
    """The capacity of each cache in use, one row per mode and level."""
    rows = [
        {
            "mode": roof.label,
            "level": level.name,
            "row": number,
            "capacity_bytes": float(level.capacity_bytes),
            "text": f"{level.name} {capacity(level.capacity_bytes)}",
        }
        for roof in roofs
        for number, level in enumerate(roof.levels)
        if level.capacity_bytes
    ]
    schema = {
        "mode": pl.String,
        "level": pl.String,
        "row": pl.Int64,
        "capacity_bytes": pl.Float64,
        "text": pl.String,
    }
    return pl.DataFrame(rows, schema=schema)


def ceiling_steps(
    roofs: Sequence[Roofline], smallest_bytes: float, largest_bytes: float
) -> pl.DataFrame:
    """The roof of each level over the working sets it was taken from."""
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
        for level, ceiling in _roofs_of(roof)
        if ceiling.value is not None and (level.high_bytes or largest_bytes) > smallest_bytes
    ]
    schema = {
        "mode": pl.String,
        "level": pl.String,
        "from_bytes": pl.Float64,
        "to_bytes": pl.Float64,
        "rate": pl.Float64,
        "text": pl.String,
    }
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
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "rate": pl.Float64,
        "text": pl.String,
    }
    return positive(rows, schema, "rate").frame


def _roofs_of(roof: Roofline) -> list[tuple[Level, Ceiling]]:
    return [(level, roof.bandwidth(level.name)) for level in roof.levels]


HEIGHT_PX = 330


LINE_PX = 15  # of text


CALM = "!datum.is_disturbed"


CROSS = "M-1,-1L1,1M1,-1L-1,1"


def staircase_chart(
    points: pl.DataFrame,
    caches: pl.DataFrame,
    steps: pl.DataFrame,
    chosen: Chosen,
    kernels: Sequence[str],
    window: tuple[float, float, float, float],
) -> alt.LayerChart:
    """Bandwidth over working set, both logarithmic; one line per kernel."""
    x_low, x_high, y_low, y_high = window
    x_scale = log_scale(x_low, x_high, base=2)
    y = alt.Y("rate:Q", scale=log_scale(y_low, y_high), axis=rate_axis("GB/s"))
    kernels = list(kernels)
    base = alt.Chart(inline(points)).encode(
        x=alt.X("working_set_bytes:Q", scale=x_scale, axis=size_axis(x_low, x_high)),
        y=y,
        color=alt.Color("kernel:N", scale=alt.Scale(domain=kernels), title=None),
        tooltip=tooltips(kernel="kernel", size="working set", interval="bandwidth", trial="trial"),
    )
    calm = base.transform_filter(CALM)
    layers = [
        *_level_marks(steps, caches, x_scale, y),
        calm.mark_line(strokeWidth=2, opacity=0.85).encode(
            strokeDash=alt.StrokeDash("kernel:N", scale=alt.Scale(domain=kernels), title=None)
        ),
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        crosses(base),
        calm.mark_point(size=46, opacity=1).encode(
            shape=alt.Shape("kernel:N", scale=shape_scale(kernels), title=None),
        ),
    ]
    return sweep(
        layers,
        chosen,
        "Bandwidth in GB/s of each stream kernel over the working set, with the caches' capacities",
    )


def _level_marks(
    steps: pl.DataFrame, caches: pl.DataFrame, x_scale: alt.Scale, y: alt.Y
) -> list[alt.Chart]:
    return [
        alt.Chart(inline(steps))
        .mark_rule(style="m-ceiling", strokeCap="butt")
        .encode(x=alt.X("from_bytes:Q", scale=x_scale), x2="to_bytes:Q", y=y, tooltip="text:N"),
        alt.Chart(inline(caches))
        .mark_rule(style="m-cache")
        .encode(x=alt.X("capacity_bytes:Q", scale=x_scale)),
        *cache_labels(caches, x_scale),
    ]


def cache_labels(caches: pl.DataFrame, x_scale: alt.Scale) -> list[alt.Chart]:
    """The names of the cache levels at the top, each a line lower: capacities can be close."""
    return [
        alt.Chart(inline(caches.filter(pl.col("row") == row)))
        .mark_text(style="m-rule-label", align="left", dx=5, baseline="top", y=2 + LINE_PX * row)
        .encode(x=alt.X("capacity_bytes:Q", scale=x_scale), text="text:N")
        for row in sorted(set(caches["row"].to_list()))
    ]


def chain_chart(
    points: pl.DataFrame,
    peaks: pl.DataFrame,
    chosen: Chosen,
    precisions: Sequence[str],
    highest: float,
) -> alt.LayerChart:
    """FLOP/s over FMA per element: a roof one can trust is flat at its right end."""
    x = alt.X(
        "fma_per_element:Q",
        scale=log_scale(0.9, 1150, base=2),
        axis=alt.Axis(
            title="FMA per element", values=[4**power for power in range(6)], format="~g"
        ),
    )
    y = alt.Y("rate:Q", scale=alt.Scale(domain=[0, highest]), axis=rate_axis("GFLOP/s"))
    base = alt.Chart(inline(points)).encode(
        x=x,
        y=y,
        color=alt.Color("precision:N", scale=alt.Scale(domain=list(precisions)), title=None),
        tooltip=tooltips(
            precision="precision",
            fma_per_element="FMA per element",
            interval="rate",
            trial="trial",
        ),
    )
    peak = alt.Chart(inline(peaks)).encode(y=y)
    calm = base.transform_filter(CALM)
    layers = [
        peak.mark_rule(style="m-peak"),
        peak.mark_text(style="m-rule-label", align="left", x=6, dy=-9).encode(text="text:N"),
        calm.mark_line(strokeWidth=2, opacity=0.85),
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        crosses(base),
        calm.mark_point(size=56, opacity=1).encode(
            shape=alt.Shape("precision:N", scale=shape_scale(precisions), title=None)
        ),
    ]
    return sweep(layers, chosen, "GFLOP/s of the FMA chains over the FMA done on each element")


def crosses(base: alt.Chart) -> alt.Chart:
    """Trials that something disturbed: they are seen, and no line leads through them."""
    crosses: alt.Chart = base.transform_filter(f"!({CALM})").mark_point(
        shape=CROSS, size=60, filled=False, strokeWidth=2, opacity=1
    )
    return crosses


def sweep(layers: Sequence[alt.Chart], chosen: Chosen, description: str) -> alt.LayerChart:
    """``layers`` of the chosen mode, as one chart of the usual size."""
    in_mode = [layer.transform_filter(equals("mode")) for layer in layers]
    chart = layered(in_mode).add_params(chosen.parameter("mode"))
    return cast(
        "alt.LayerChart",
        chart.properties(width=WIDTH_PX, height=HEIGHT_PX, description=description),
    )


def staircase_figure(results: Results, chosen: Chosen) -> Figure | None:
    """Bandwidth over the working set; None where no stream was timed."""
    found = staircase(results.rates, results.labels())
    if found.frame.is_empty():
        return None
    caches = cache_rules(results.roofs)
    largest = max(found.frame["working_set_bytes"].to_list(), default=2.0**30)
    smallest = min(found.frame["working_set_bytes"].to_list(), default=2.0**12)
    rates = found.frame["rate"].to_list() or [1.0, 10.0]
    window = (smallest / 1.3, largest * 1.3, min(rates) / 1.6, max(rates) * 1.7)
    steps = ceiling_steps(results.roofs, window[0], window[1])
    kernels = series_order(found.frame["kernel"].to_list())
    chart = staircase_chart(found.frame, caches, steps, chosen, kernels, window)
    notes = sweep_notes(found)
    return make_figure("staircase", chart, staircase_points(found.frame), notes)


def chain_figure(results: Results, chosen: Chosen) -> Figure | None:
    """FLOP/s over the length of the FMA chain; None where no chain was timed."""
    found = chains(results.rates, results.labels())
    if found.frame.is_empty():
        return None
    precisions = in_order(found.frame["precision"].to_list())
    highest = max(found.frame["rate"].to_list(), default=1.0) * 1.15
    peaks = peak_rules(results.roofs)
    chart = chain_chart(found.frame, peaks, chosen, precisions, highest)
    notes = sweep_notes(found)
    return make_figure("chains", chart, chain_points(found.frame), notes)


def staircase_points(frame: pl.DataFrame) -> Table:
    """Bandwidths over working sets."""
    rows = [
        [row["size"], row["mode"], row["kernel"], row["interval"], row["trial"]]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("Working set", "Mode", "Kernel", "Bandwidth", "Trial")
    return Table("Bandwidth as drawn", columns, rows, frozenset({3}))


def chain_points(frame: pl.DataFrame) -> Table:
    """FMA rates over the length of the chain."""
    rows = [
        [
            f"{row['fma_per_element']:g}",
            row["mode"],
            row["precision"],
            row["interval"],
            row["trial"],
        ]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("FMA per element", "Mode", "Precision", "Rate", "Trial")
    return Table("FMA rates as drawn", columns, rows, frozenset({3}))


NANO = 1e-9


_PATHS = ("through L1", "past L1")


_SCHEMA = {
    "mode": pl.String,
    "path": pl.String,
    "working_set_bytes": pl.Float64,
    "size": pl.String,
    "latency": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "interval": pl.String,
    "trial": pl.String,
    "is_disturbed": pl.Boolean,
}


_LEVEL_SCHEMA = {
    "mode": pl.String,
    "row": pl.Int64,
    "capacity_bytes": pl.Float64,
    "text": pl.String,
}


def latency_figure(results: Results, chosen: Chosen) -> Figure | None:
    """The latencies of every mode; None where none was measured."""
    found = latency_points(results.rates, results.labels())
    if not len(found.frame):
        return None
    sizes, values = found.frame["working_set_bytes"], found.frame["latency"]
    window = (
        min(sizes.to_list()) / 1.3,
        max(sizes.to_list()) * 1.3,
        min(values.to_list()) / 1.6,
        max(values.to_list()) * 1.7,
    )
    chart = latency_chart(found.frame, _capacities(results), chosen, window)
    return make_figure("latency", chart, _latency_table(found.frame), sweep_notes(found))


def latency_points(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Nanoseconds of one load of each latency trial over its working set."""
    rows = [
        {
            "mode": labels[rate.run_id],
            "path": _PATHS[0] if rate.scope == "sm" else _PATHS[1],
            "working_set_bytes": float(rate.working_set_bytes),
            "size": capacity(rate.working_set_bytes),
            "latency": 1 / rate.estimate.value / NANO,
            "low": None if rate.estimate.high is None else 1 / rate.estimate.high / NANO,
            "high": None if rate.estimate.low is None else 1 / rate.estimate.low / NANO,
            "interval": _latency_interval(rate),
            "trial": trial_state(rate),
            "is_disturbed": bool(rate.disturbances),
        }
        for rate in rates
        if rate.family == "latency" and is_drawn(rate)
    ]
    drawn = positive(rows, _SCHEMA, "working_set_bytes", "latency")
    return Drawn(drawn.frame.sort("mode", "path", "working_set_bytes"), drawn.n_dropped)


def latency_chart(
    points: pl.DataFrame,
    caches: pl.DataFrame,
    chosen: Chosen,
    window: tuple[float, float, float, float],
) -> alt.LayerChart:
    """Latency over working set, both logarithmic, with the caches that one SM sees."""
    x_low, x_high, y_low, y_high = window
    x_scale = log_scale(x_low, x_high, base=2)
    base = alt.Chart(inline(points)).encode(
        x=alt.X("working_set_bytes:Q", scale=x_scale, axis=size_axis(x_low, x_high)),
        y=alt.Y("latency:Q", scale=log_scale(y_low, y_high), axis=rate_axis("ns a load")),
        color=alt.Color("path:N", scale=alt.Scale(domain=list(_PATHS)), title=None),
        tooltip=tooltips(path="loads", size="working set", interval="latency", trial="trial"),
    )
    calm = base.transform_filter(CALM)
    rules = alt.Chart(inline(caches)).mark_rule(style="m-cache")
    layers = [
        rules.encode(x=alt.X("capacity_bytes:Q", scale=x_scale)),
        *cache_labels(caches, x_scale),
        calm.mark_line(strokeWidth=2, opacity=0.85),
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        crosses(base),
        calm.mark_point(size=46, opacity=1).encode(
            shape=alt.Shape("path:N", scale=shape_scale(_PATHS), title=None)
        ),
    ]
    return sweep(layers, chosen, "Nanoseconds of one dependent load over the working set")


def _latency_interval(rate: TrialRate) -> str:
    found = rate.estimate
    low = None if found.high is None else 1 / found.high
    return seconds(1 / found.value, low, None if found.low is None else 1 / found.low)


def _capacities(results: Results) -> pl.DataFrame:
    rows = []
    gpus = {manifest.run_id: manifest.gpu for manifest in results.dataset.manifests}
    for roof in results.roofs:
        gpu = gpus.get(roof.run_id)  # a published roof has no manifest
        for number, level in enumerate(gpu_levels(gpu, 1) if gpu is not None else ()):
            if level.capacity_bytes:
                text = f"{level.name} {capacity(level.capacity_bytes)}"
                size = float(level.capacity_bytes)
                rows.append(
                    {"mode": roof.label, "row": number, "capacity_bytes": size, "text": text}
                )
    return pl.DataFrame(rows, schema=_LEVEL_SCHEMA)


def _latency_table(frame: pl.DataFrame) -> Table:
    rows = [
        [row["size"], row["mode"], row["path"], row["interval"], row["trial"]]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("Working set", "Mode", "Loads", "Latency", "Trial")
    return Table("Latencies as drawn", columns, rows, frozenset({3}))
