"""The modes of each device for one network: Pareto front and heat map, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mansard.analytics.charts.data import Drawn
from mansard.analytics.charts.mode_charts import heat_chart, pareto_chart
from mansard.analytics.charts.mode_data import mode_points
from mansard.analytics.charts.parameters import EVERY, Chosen
from mansard.analytics.decide.records import Candidate
from mansard.analytics.report.figures import Figure, dropped_note, make_figure
from mansard.analytics.report.mode_labels import mode_labels
from mansard.analytics.report.mode_tables import mode_point_table
from mansard.analytics.report.page_parts import Missing
from mansard.analytics.results import Results

NO_NETWORK = (
    "No network was predicted, so there is nothing to compare modes by: "
    "`mansard bench model.onnx` scores one and predicts it in every mode."
)
ONE_MODE = (
    "Only one mode is known, and a front takes several: "
    "`mansard bench --mode all` measures the board's own, `mansard plan` says which are worth it."
)
NO_ENERGY = (
    "The front of latency and energy takes energies, and none is predicted: "
    "energies of work, traffic and time are fitted where a power meter can be read."
)
NO_CLOCKS = "No map over clocks: the modes of this machine do not differ in two known clocks."


@dataclass(frozen=True, eq=False)
class ModePoints:
    """What both figures draw, and the network they show while none is chosen."""

    drawn: Drawn
    first: str
    n_modes: int


def gather(results: Results) -> ModePoints:
    """The points of every device and network; empty where nothing was predicted."""
    picks = candidates(results)
    drawn = mode_points(results.predictions, results.modes, mode_labels(results), picks)
    networks = sorted(set(drawn.frame["network"].to_list()))
    first = next((pick.network for pick in picks if pick.network in networks), None)
    n_modes = results.predictions.select("device", "mode").n_unique()
    return ModePoints(drawn, first or (networks[0] if networks else EVERY), n_modes)


def candidates(results: Results) -> list[Candidate]:
    """The recommended network, batch, precision and mode of each recommendation that has one."""
    return [each.choice for each in results.recommendations if each.choice is not None]


def pareto_figure(points: ModePoints, chosen: Chosen) -> Figure | Missing:
    """Latency against energy, coloured by power."""
    frame = points.drawn.frame
    if frame.is_empty():
        return Missing(NO_NETWORK)
    priced = frame.filter(pl.col("energy") > 0)
    if priced["mode"].n_unique() < 2:
        return Missing(ONE_MODE if points.n_modes < 2 else NO_ENERGY)
    chart = pareto_chart(priced, chosen, points.first)
    return make_figure("pareto", chart, mode_point_table(priced, points.first), _notes(points))


def heat_figure(points: ModePoints, chosen: Chosen) -> Figure | Missing:
    """Latency and energy over GPU clock and memory clock."""
    cells = points.drawn.frame.filter(
        pl.col("is_cell") & (pl.col("gpu") > 0) & (pl.col("memory") > 0)
    )
    if points.drawn.frame.is_empty():
        return Missing(NO_NETWORK)
    if cells.select("gpu", "memory").n_unique() < 2:
        return Missing(ONE_MODE if points.n_modes < 2 else NO_CLOCKS)
    chart = heat_chart(cells, chosen, points.first)
    return make_figure("heat", chart, mode_point_table(cells, points.first))


def _notes(points: ModePoints) -> tuple[str, ...]:
    frame = points.drawn.frame
    n_drawn = frame.select("device", "mode").n_unique()
    few = (
        f"{n_drawn} of {points.n_modes:,} modes are drawn: of those with the same GPU and memory "
        "clock the one of least energy, an even choice of the clocks, and the front."
    )
    n_outside = frame.filter("is_extrapolated")["mode"].n_unique()
    outside = (
        f"{n_outside} modes drawn lie outside the clocks that were measured: they are extrapolated."
    )
    why = "their latency is unknown"
    return (
        *([few] if n_drawn < points.n_modes else []),
        *([outside] if n_outside else []),
        *dropped_note(points.drawn.n_dropped, "predictions", why),
    )
