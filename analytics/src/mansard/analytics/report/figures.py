"""The report's figures: a chart, the table under it, and its drawing without scripts."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl
import vl_convert
from markupsafe import Markup

from mansard.analytics.charts import data as chart_data
from mansard.analytics.charts import roof_chart, roof_geometry, sweep_data, sweep_rules
from mansard.analytics.charts import sweeps as charts
from mansard.analytics.charts.label_layout import place_labels
from mansard.analytics.charts.roof_labels import roof_labels
from mansard.analytics.charts.theme import LIGHT, vega_config
from mansard.analytics.data.names import in_order
from mansard.analytics.report import figure_tables
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results

MOST_LAYERS_DRAWN = 30  # of one network in one mode
MOST_LAYER_ROWS = 900  # in all: each is some 200 bytes of a page that stays under 2 MB


Chart = alt.Chart | alt.LayerChart | alt.FacetChart


@dataclass(frozen=True)
class Figure:
    """One chart of the page. ``spec`` is JSON that is safe inside a script element."""

    name: str
    description: str
    spec: Markup
    picture: str  # data URI of a static drawing
    table: Table
    notes: tuple[str, ...]


def roofline_figure(results: Results) -> Figure:
    """The roofs of each mode and the networks under them."""
    networks = chart_data.network_points(results.networks, results.names)
    layers = chart_data.layer_points(_smallest(results), results.names, _n_layers(results))
    seen = roof_geometry.window(results.roofs, networks.frame, layers.frame)
    roof_names = roof_labels(results.roofs, seen)
    lines = roof_geometry.roof_lines(results.roofs, seen)
    points = networks.frame.select("mode", "batch", text=_point_name(), x="intensity", y="rate")
    labels = place_labels(points, roof_names, lines, seen)
    frames = roof_chart.RoofFrames(
        lines=lines,
        area=roof_geometry.roof_area(results.roofs, seen),
        labels=roof_names,
        ridges=roof_geometry.ridge_points(results.roofs),
        networks=networks.frame,
        network_labels=labels,
        layers=layers.frame,
        all_named=len(labels) == len(points),
        seen=seen,
    )
    names = in_order(networks.frame["network"].to_list())
    chart = roof_chart.roofline_chart(frames, mode_names(results), _batches(networks.frame), names)
    notes = _dropped(networks.n_dropped, "networks", "their time or their work is unknown or zero")
    return make_figure("roofline", chart, figure_tables.roofline_points(networks.frame), notes)


def staircase_figure(results: Results) -> Figure:
    """Bandwidth over the working set."""
    found = sweep_data.staircase(results.rates, results.labels())
    caches = sweep_rules.cache_rules(results.roofs)
    largest = max(found.frame["working_set_bytes"].to_list(), default=2.0**30)
    smallest = min(found.frame["working_set_bytes"].to_list(), default=2.0**12)
    rates = found.frame["rate"].to_list() or [1.0, 10.0]
    window = (smallest / 1.3, largest * 1.3, min(rates) / 1.6, max(rates) * 1.7)
    steps = sweep_rules.ceiling_steps(results.roofs, window[0], window[1])
    kernels = sweep_data.series_order(found.frame["kernel"].to_list())
    chart = charts.staircase_chart(found.frame, caches, steps, mode_names(results), kernels, window)
    notes = sweep_notes(found)
    return make_figure("staircase", chart, figure_tables.staircase_points(found.frame), notes)


def chain_figure(results: Results) -> Figure:
    """FLOP/s over the length of the FMA chain."""
    found = sweep_data.chains(results.rates, results.labels())
    precisions = in_order(found.frame["precision"].to_list())
    highest = max(found.frame["rate"].to_list(), default=1.0) * 1.15
    peaks = sweep_rules.peak_rules(results.roofs)
    chart = charts.chain_chart(found.frame, peaks, mode_names(results), precisions, highest)
    notes = sweep_notes(found)
    return make_figure("chains", chart, figure_tables.chain_points(found.frame), notes)


def make_figure(name: str, chart: Chart, table: Table, notes: tuple[str, ...] = ()) -> Figure:
    """``chart`` as a figure of a page; its description is the picture's text."""
    spec = chart.to_dict()
    description = str(spec["description"])
    spec.pop("config", None)  # the page sets it, for light or for dark
    svg = _renumbered(vl_convert.vegalite_to_svg(spec, config=vega_config(LIGHT)))
    picture = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return Figure(name, description, json_markup(spec), picture, table, notes)


def json_markup(value: Any) -> Markup:
    """``safe_json`` for a template that escapes everything else."""
    return Markup(safe_json(value))  # noqa: S704 - safe_json leaves no markup in it


def safe_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _renumbered(svg: str) -> str:
    """The drawing with its clip paths counted from 0; Vega counts over the process's life."""
    numbers: dict[str, int] = {}
    return re.sub(
        r'(url\(#clip|id="clip)(\d+)',
        lambda match: f"{match[1]}{numbers.setdefault(match[2], len(numbers))}",
        svg,
    )


def mode_names(results: Results) -> list[str]:
    """The labels of all runs, in the order of their roofs."""
    return [roof.label for roof in results.roofs]


def _point_name() -> pl.Expr:
    several = pl.col("precision").n_unique().over("network", "batch", "mode") > 1
    both = pl.format("{} {}", pl.col("network"), pl.col("precision"))
    return pl.when(several).then(both).otherwise(pl.col("network"))


def _n_layers(results: Results) -> int:
    n_sets = max(1, len(results.names) * len(results.roofs))
    return max(5, min(MOST_LAYERS_DRAWN, MOST_LAYER_ROWS // n_sets))


def _batches(networks: pl.DataFrame) -> list[str]:
    found = set(networks["batch"].to_list())
    return sorted(found, key=lambda batch: (not batch.isdigit(), len(batch), batch))


def _smallest(results: Results) -> pl.DataFrame:
    """The layers of each network at its smallest batch: one set per network is enough to see."""
    chosen = (
        results.networks.sort("batch", "score_id", nulls_last=True)
        .group_by("model", "model_hash", maintain_order=True)
        .agg(pl.col("score_id").first())
    )
    return results.layers.join(chosen.select("score_id"), on="score_id", how="semi").sort(
        "score_id", "run_id", "index"
    )


def sweep_notes(found: chart_data.Drawn) -> tuple[str, ...]:
    """What crosses mean, and how many trials are not drawn."""
    n_crosses = int(found.frame["is_disturbed"].sum())
    crosses = f"Crosses ({n_crosses}) are trials that something disturbed; no roof rests on them."
    dropped = _dropped(found.n_dropped, "trials", "they have no positive rate")
    return (crosses, *dropped) if n_crosses else dropped


def _dropped(n_dropped: int, what: str, why: str) -> tuple[str, ...]:
    return (f"{n_dropped} {what} are not drawn: {why}.",) if n_dropped else ()
