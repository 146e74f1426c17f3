"""The ladder of latencies as a chart: nanoseconds of one load over the working set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from mansard.analytics.charts import sweeps as charts
from mansard.analytics.charts.data import Drawn, positive
from mansard.analytics.charts.parameters import Chosen
from mansard.analytics.charts.sweep_data import is_drawn, trial_state
from mansard.analytics.data.quantities import capacity, seconds
from mansard.analytics.report.figures import Figure, make_figure, sweep_notes
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.levels import gpu_levels
from mansard.analytics.roofs.rates import TrialRate

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
    return make_figure("latency", chart, _table(found.frame), sweep_notes(found))


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
            "interval": _interval(rate),
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
    x_scale = charts.log_scale(x_low, x_high, base=2)
    base = alt.Chart(charts.inline(points)).encode(
        x=alt.X("working_set_bytes:Q", scale=x_scale, axis=charts.size_axis(x_low, x_high)),
        y=alt.Y(
            "latency:Q", scale=charts.log_scale(y_low, y_high), axis=charts.rate_axis("ns a load")
        ),
        color=alt.Color("path:N", scale=alt.Scale(domain=list(_PATHS)), title=None),
        tooltip=charts.tooltips(
            path="loads", size="working set", interval="latency", trial="trial"
        ),
    )
    calm = base.transform_filter(charts.CALM)
    rules = alt.Chart(charts.inline(caches)).mark_rule(style="m-cache")
    layers = [
        rules.encode(x=alt.X("capacity_bytes:Q", scale=x_scale)),
        *charts.cache_labels(caches, x_scale),
        calm.mark_line(strokeWidth=2, opacity=0.85),
        base.mark_rule(style="m-interval", clip=True).encode(y="low:Q", y2="high:Q"),
        charts.crosses(base),
        calm.mark_point(size=46, opacity=1).encode(
            shape=alt.Shape("path:N", scale=charts.shape_scale(_PATHS), title=None)
        ),
    ]
    return charts.sweep(layers, chosen, "Nanoseconds of one dependent load over the working set")


def _interval(rate: TrialRate) -> str:
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


def _table(frame: pl.DataFrame) -> Table:
    rows = [
        [row["size"], row["mode"], row["path"], row["interval"], row["trial"]]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("Working set", "Mode", "Loads", "Latency", "Trial")
    return Table("Latencies as drawn", columns, rows, frozenset({3}))
