"""Modes as points and as cells: what a network takes in each, computed before it is drawn.

One batch size for each network: the recommended one, else its smallest. Latencies are in ms,
energies in mJ of one item, powers in W, clocks in MHz.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import polars as pl

from mansard.analytics.charts.data import Drawn
from mansard.analytics.decide.pareto import pareto_front
from mansard.analytics.decide.records import Candidate

MOST_ROWS = 2000  # in all: each is some 60 bytes of a page that stays under 2 MB
LEAST_CELLS = 12  # of one network, whatever the number of networks
MILLI, MEGA = 1e-3, 1e6
T = TypeVar("T")
_SET = ["device", "network", "precision"]
_CELL = [*_SET, "cell"]

MODE_POINT_SCHEMA = {
    "mode": pl.String,
    "device": pl.String,
    "network": pl.String,
    "precision": pl.String,
    "batch": pl.Int64,
    "gpu": pl.Float64,
    "memory": pl.Float64,
    "latency": pl.Float64,
    "energy": pl.Float64,
    "power": pl.Float64,
    "bound": pl.String,
    "source": pl.String,
    "is_extrapolated": pl.Boolean,
    "latency_shade": pl.Float64,  # 0 is the least of the network, 1 the most
    "energy_shade": pl.Float64,
    "is_cell": pl.Boolean,  # the best of its GPU and memory clock
    "is_front": pl.Boolean,  # no other is better in latency, energy and power at once
    "is_edge": pl.Boolean,  # of those, no slower one costs less energy
    "is_recommended": pl.Boolean,
    "is_main": pl.Boolean,  # the precision that is shown where none is chosen
}


def mode_points(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    labels: Mapping[tuple[str, str], str],
    recommended: Sequence[Candidate] = (),
) -> Drawn:
    """Every mode worth a mark for each device, network and precision; see MODE_POINT_SCHEMA.

    ``predictions`` has PREDICTION_SCHEMA, ``modes`` MODE_SCHEMA, ``labels`` the name of each device
    and mode. Of modes with one pair of clocks the one of least energy is kept, of many clocks an
    even choice. ``n_dropped``: predictions of that batch without a positive latency.
    """
    chosen = _of_one_batch(predictions, recommended)
    known = chosen.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    n_dropped = len(chosen) - len(known)
    if known.is_empty():
        return Drawn(pl.DataFrame(schema=MODE_POINT_SCHEMA), n_dropped)
    marked = _marked(_with_clocks(known, modes), recommended)
    kept = _kept(marked)
    frame = (
        kept.rename({"mode": "name"})
        .join(_names(labels), on=["device", "name"], how="left")
        .with_columns(
            mode=pl.coalesce("mode", "name"),
            gpu=(pl.col("gpu_hz") / MEGA).round_sig_figs(5),
            memory=(pl.col("memory_hz") / MEGA).round_sig_figs(5),
            latency=(pl.col("latency_s") / MILLI).round_sig_figs(4),
            energy=(pl.col("energy_j") / pl.col("batch") / MILLI).round_sig_figs(4),
            power=pl.col("power_w").round_sig_figs(4),
            bound="time_bound",
        )
        .select(list(MODE_POINT_SCHEMA))
        .sort(*_SET, "latency", "mode")
    )
    return Drawn(frame, n_dropped)


def _names(labels: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    rows = [(*key, label) for key, label in labels.items()]
    columns = ("device", "name", "mode")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def _of_one_batch(predictions: pl.DataFrame, recommended: Sequence[Candidate]) -> pl.DataFrame:
    keys = ["device", "network", "precision"]
    wanted = pl.DataFrame(
        [(each.device, each.network, each.precision, each.batch) for each in recommended],
        schema=[*((key, pl.String) for key in keys), ("wanted", pl.Int64)],
        orient="row",
    ).unique(keys, keep="first", maintain_order=True)
    inference = predictions.filter(pl.col("phase") == _main_phase(predictions))
    smallest = inference.group_by(keys).agg(pl.col("batch").min().alias("smallest"))
    batch = smallest.join(wanted, on=keys, how="left").select(
        *keys, pl.coalesce("wanted", "smallest").alias("one")
    )
    return (
        inference.join(batch, on=keys).filter(pl.col("batch").eq_missing(pl.col("one"))).drop("one")
    )


def _main_phase(predictions: pl.DataFrame) -> str:
    phases = set(predictions["phase"].drop_nulls().to_list())
    return "inference" if "inference" in phases or not phases else min(phases)


def _with_clocks(known: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    clocks = modes.select("device", "mode", "gpu_hz", "memory_hz").unique(["device", "mode"])
    cell = pl.when(pl.col("gpu_hz").is_not_null() & pl.col("memory_hz").is_not_null())
    return known.join(clocks, on=["device", "mode"], how="left").with_columns(
        cell=cell.then(pl.format("{}|{}", "gpu_hz", "memory_hz")).otherwise(pl.col("mode"))
    )


def _marked(known: pl.DataFrame, recommended: Sequence[Candidate]) -> pl.DataFrame:
    keys = ["device", "network", "precision", "mode"]
    chosen = {(each.device, each.network, each.precision, each.mode) for each in recommended}
    front = set(pareto_front(known).select(keys).iter_rows())
    flags = [
        {"is_recommended": row in chosen, "is_front": row in front}
        for row in known.select(keys).iter_rows()
    ]
    by_energy = ["energy_j", "latency_s", "mode"]
    ordered = (
        pl.concat([known, pl.DataFrame(flags)], how="horizontal")
        .sort(*_SET, *by_energy, nulls_last=True)
        .with_columns(is_cell=pl.col("mode").cum_count().over(_CELL) == 1)
        .sort(*_SET, "latency_s", "energy_j", nulls_last=True)
    )
    least_before = pl.col("energy_j").cum_min().shift(1).over(_SET)
    cheaper = least_before.is_null() | (pl.col("energy_j") < least_before)
    return ordered.with_columns(
        is_edge=pl.col("energy_j").is_not_null() & cheaper,
        latency_shade=_shade("latency_s"),
        energy_shade=_shade("energy_j"),
    ).join(_main_precisions(ordered), on=_SET)


def _shade(name: str) -> pl.Expr:
    """Where a value stands between the least (0) and the most (1) of its network, by logarithm."""
    log = pl.when(pl.col(name) > 0).then(pl.col(name).log())
    low, high = log.min().over(_SET), log.max().over(_SET)
    return pl.when(high > low).then((log - low) / (high - low)).otherwise(0.0).round(2)


def _main_precisions(known: pl.DataFrame) -> pl.DataFrame:
    """The precision of each network to show first: the recommended one, else the fastest."""
    best = known.group_by(_SET).agg(
        pl.col("is_recommended").any().alias("wanted"), pl.col("latency_s").min().alias("best")
    )
    ordered = best.sort("wanted", "best", "precision", descending=[True, False, False])
    first = pl.col("precision").cum_count().over("device", "network") == 1
    return ordered.with_columns(is_main=first).select(*_SET, "is_main")


def _kept(marked: pl.DataFrame) -> pl.DataFrame:
    """The recommended modes, an even choice of the edge, and one of the cells."""
    n_sets = max(1, marked.select(_SET).n_unique())
    n_most = max(LEAST_CELLS, MOST_ROWS // n_sets)
    edge = pl.col("is_edge")
    step = (edge.cum_sum() * n_most / edge.sum()).floor().over(_SET)
    even_edge = edge & ((edge.sum().over(_SET) <= n_most) | (step != step.shift(1).over(_SET)))
    cells = pl.any_horizontal(
        [
            (pl.col("device") == device) & _is_even(inside, n_most)
            for (device,), inside in marked.group_by(["device"], maintain_order=True)
        ]
    )
    return marked.filter(
        pl.col("is_recommended") | even_edge.fill_null(True) | (pl.col("is_cell") & cells)
    )


def _is_even(inside: pl.DataFrame, n_most: int) -> pl.Expr:
    """Whether a mode's GPU clock, or its name where it has none, is of an even choice."""
    n_memory = max(1, inside["memory_hz"].n_unique())
    column = "gpu_hz" if inside["gpu_hz"].null_count() == 0 else "mode"
    n_columns = n_most // n_memory if column == "gpu_hz" else n_most
    return pl.col(column).is_in(
        evenly(sorted(inside[column].unique().to_list()), max(2, n_columns))
    )


def evenly(values: Sequence[T], n_most: int) -> list[T]:
    """At most ``n_most`` of ``values``, evenly apart, the first and the last among them."""
    if len(values) <= n_most:
        return list(values)
    step = (len(values) - 1) / (n_most - 1)
    return [values[round(at * step)] for at in range(n_most)]
