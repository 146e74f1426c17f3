"""The rooflines of time, energy and power: three figures of one selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.charts import data as chart_data
from mansard.analytics.charts import energy_data, roof_chart, roof_geometry
from mansard.analytics.charts.energy_chart import ArchFrames, arch_chart
from mansard.analytics.charts.energy_data import Kind
from mansard.analytics.charts.label_layout import LABEL_SCHEMA, place_labels
from mansard.analytics.charts.parameters import Chosen
from mansard.analytics.charts.roof_labels import roof_labels
from mansard.analytics.data.names import in_order
from mansard.analytics.report import figure_tables
from mansard.analytics.report.figures import Figure, dropped_note, make_figure
from mansard.analytics.report.page_parts import Missing, Table
from mansard.analytics.report.priced_roofs import cap_w, priced_roofs
from mansard.analytics.results import Results

MOST_LAYERS_DRAWN = 30  # of one network in one mode
MOST_LAYER_ROWS = 1200  # in all: each is some 150 bytes of a page that stays under 2 MB
MOST_NETWORK_POINTS = 1200  # in all; networks of one batch are drawn however many they are
MOST_KEYS = 12  # networks in a key above the chart; of more their names and tooltips tell
WHOLE_PX, HALF_PX = (900, 500), (470, 430)
NO_METER = (
    "No energy roofline: it takes the energy of the trials, from a power meter that this machine "
    "can read. `mansard doctor` says which meters there are and what keeps one from being read."
)
NO_ROOFS = (
    "No roofs: nothing was measured here and no ceilings were imported. `mansard bench` measures "
    "them, `mansard import` takes a table of GFLOP/s and GB/s."
)
NO_PUBLISHED = "No energy roofline: nothing is published of the energy of work, traffic and time."


@dataclass(frozen=True, eq=False)
class Points:
    """Networks and layers as the three figures draw them."""

    networks: pl.DataFrame
    layers: pl.DataFrame
    names: Sequence[str]
    n_networks_dropped: int


def roof_points(results: Results) -> Points:
    """Networks under the roofs, and the slowest layers of each."""
    networks = chart_data.network_points(_few(results.networks), results.names)
    layers = chart_data.layer_points(_smallest(results), results.names, _n_layers(results))
    names = in_order(networks.frame["network"].to_list())
    return Points(networks.frame, layers.frame, names, networks.n_dropped)


def roofline_figure(
    results: Results, chosen: Chosen, points: Points, *, is_half: bool
) -> Figure | Missing:
    """The roofs of each mode and the networks under them, or why there are none."""
    if not results.roofs:
        return Missing(NO_ROOFS)
    layers = chart_data.under_roofs(points.layers, "rate")
    size_px = HALF_PX if is_half else WHOLE_PX
    seen = roof_geometry.window(results.roofs, points.networks, layers, size_px)
    roof_names = roof_labels(results.roofs, seen)
    lines = roof_geometry.roof_lines(results.roofs, seen)
    spots = _spots(points.networks, "rate")
    labels = place_labels(spots, roof_names, lines, seen)
    frames = roof_chart.RoofFrames(
        lines=lines,
        area=roof_geometry.roof_area(results.roofs, seen),
        labels=roof_names,
        ridges=roof_geometry.ridge_points(results.roofs),
        networks=points.networks,
        network_labels=labels,
        layers=points.layers,
        has_key=len(labels) < len(spots) and len(points.names) <= MOST_KEYS,
        seen=seen,
    )
    chart = roof_chart.roofline_chart(frames, chosen, points.names)
    why = "their time or their work is unknown or zero"
    notes = dropped_note(points.n_networks_dropped, "networks", why)
    if len(labels) < len(spots):
        notes += ("Where points stand close, not each has its name beside it: point at it.",)
    return make_figure("roofline", chart, figure_tables.roofline_points(points.networks), notes)


def arch_figure(results: Results, chosen: Chosen, points: Points, kind: Kind) -> Figure | Missing:
    """FLOP/J or W over intensity, or why there is neither."""
    priced, gaps = priced_roofs(results)
    if not priced:
        is_published = all(roof.source == "published" for roof in results.roofs)
        return Missing(gaps[0] if gaps else NO_PUBLISHED if is_published else NO_METER)
    across = roof_geometry.window(
        results.roofs, points.networks, chart_data.under_roofs(points.layers, "rate"), HALF_PX
    )
    networks = chart_data.under_roofs(points.networks, kind)
    lines = energy_data.arches(priced, across.x_low, across.x_high)
    seen = energy_data.arch_window(lines, networks, kind, across, HALF_PX)
    labels = energy_data.arch_labels(priced, kind, seen)
    names = pl.DataFrame(schema=LABEL_SCHEMA)
    if kind == "efficiency":
        strokes = energy_data.segments(lines, kind)
        names = place_labels(_spots(networks, kind), labels, strokes, seen)
    balances = energy_data.balance_points(priced)
    frames = ArchFrames(
        lines=lines,
        labels=labels,
        balances=balances.filter(pl.col("x").is_between(seen.x_low, seen.x_high)),
        caps=_caps(results) if kind == "power" else pl.DataFrame(schema=_CAP_SCHEMA),
        networks=networks,
        names=names,
        layers=points.layers,
        seen=seen,
    )
    chart = arch_chart(frames, kind, chosen, points.names)
    table = figure_tables.balance_table(priced) if kind == "efficiency" else None
    return make_figure(
        "energy-roofline" if kind == "efficiency" else "power-roof",
        chart,
        table or figure_tables.power_points(priced, networks),
        tuple(gaps),
    )


def balances(results: Results, mode: str) -> Table:
    """The balance points of each precision of ``mode`` that has all costs, without intervals."""
    own = [each for each in priced_roofs(results)[0] if each.mode == mode]
    return figure_tables.short_balance_table(own, mode)


_CAP_SCHEMA = {"mode": pl.String, "precision": pl.String, "y": pl.Float64, "text": pl.String}


def _caps(results: Results) -> pl.DataFrame:
    rows = [
        {
            "mode": roof.label,
            "precision": "",
            "y": limit_w,
            "text": f"the mode's limit, {limit_w:g} W",
        }
        for roof in results.roofs
        if (limit_w := cap_w(results, roof))
    ]
    return pl.DataFrame(rows, schema=_CAP_SCHEMA)


def _few(networks: pl.DataFrame) -> pl.DataFrame:
    """The smallest batch of each network, and larger ones as long as there is room."""
    rank = pl.col("batch").fill_null(0).rank("dense").over("model", "model_hash", "precision")
    ranked = networks.with_columns(_rank=rank)
    n_at_most = ranked.group_by("_rank").len().sort("_rank").with_columns(pl.col("len").cum_sum())
    fits = n_at_most.filter(pl.col("len") <= MOST_NETWORK_POINTS)["_rank"].max()
    return ranked.filter(pl.col("_rank") <= (fits or 1)).drop("_rank")


def _spots(networks: pl.DataFrame, height: str) -> pl.DataFrame:
    """Where networks stand, with the name that the chart prints."""
    several = pl.col("precision").n_unique().over("network", "batch", "mode") > 1
    both = pl.format("{} {}", pl.col("network"), pl.col("precision"))
    name = pl.when(several).then(both).otherwise(pl.col("network"))
    return networks.select(
        "mode", "batch", "network", "precision", text=name, x="intensity", y=height
    )


def _n_layers(results: Results) -> int:
    n_sets = max(1, results.networks.select("model", "model_hash", "precision", "label").n_unique())
    return max(5, min(MOST_LAYERS_DRAWN, MOST_LAYER_ROWS // n_sets))


def _smallest(results: Results) -> pl.DataFrame:
    """The fused layers of each network at its smallest batch: one set is enough to see."""
    chosen = (
        results.networks.sort("batch", "score_id", nulls_last=True)
        .group_by("model", "model_hash", "precision", maintain_order=True)
        .agg(pl.col("score_id").first())
    )
    return results.groups.join(chosen.select("score_id"), on="score_id", how="semi").sort(
        "score_id", "run_id", "group"
    )
