"""Tables of networks and their layers for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.charts.data import batch_text, bound_text
from mansard.analytics.data.names import network_key, shown
from mansard.analytics.data.quantities import UNKNOWN, digits, percent, seconds
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.plateau import estimate

MOST_LAYERS = 40  # of one network
MOST_LAYER_CELLS = 2400  # in all, over networks, layers and modes: the page stays under 2 MB


@dataclass(frozen=True)
class NetworkDetail:
    """The layers of one network at one batch, under a line that can be opened."""

    title: str
    note: str
    table: Table


def network_table(results: Results) -> Table:
    """One row per network, batch and precision; two columns per mode."""
    modes = [roof.label for roof in results.roofs]
    rows = []
    for (_,), group in results.networks.group_by(["score_id"], maintain_order=True):
        first = group.row(0, named=True)
        cells = {row["label"]: row for row in group.iter_rows(named=True)}
        rows.append(
            [
                results.names[network_key(first["model"], first["model_hash"])],
                batch_text(first["batch"]),
                shown(first["precision"]),
                _giga(first["work_flop"]),
                _mega(first["traffic_bytes"]),
                digits(first["intensity"], 3) if first["intensity"] is not None else UNKNOWN,
                *[text for mode in modes for text in _mode_cells(cells[mode])],
            ]
        )
    columns = ["Network", "Batch", "Precision", "GFLOP", "MB", "FLOP/byte"]
    for mode in modes:
        columns += [f"Time, {shown(mode)}", f"Bound, {shown(mode)}"]
    numeric = frozenset({1, 3, 4, 5, *range(6, len(columns), 2)})
    return Table("Modelled time of each network", columns, rows, numeric)


def measurement_table(results: Results) -> Table:
    """Networks that were really run: the median of their repetitions with its interval."""
    rows = []
    for row in results.dataset.measurements:
        found = (
            estimate([np.asarray([value]) for value in row.seconds_s]) if row.seconds_s else None
        )
        rows.append(
            [
                results.names[network_key(row.model, row.model_hash)],
                str(row.batch),
                shown(row.precision),
                shown(row.engine),
                row.source,
                UNKNOWN if found is None else seconds(found.value, found.low, found.high),
                str(len(row.seconds_s)),
            ]
        )
    return Table(
        caption="Times of networks that were run",
        columns=("Network", "Batch", "Precision", "Engine", "Source", "Time", "Repetitions"),
        rows=rows,
        numeric=frozenset({1, 5, 6}),
    )


def network_details(results: Results) -> list[NetworkDetail]:
    """The layers of each network at its smallest batch, slowest first where there are many."""
    smallest = (
        results.networks.sort("batch", nulls_last=True)
        .group_by("model", "model_hash", "phase", "precision", maintain_order=True)
        .agg(pl.col("score_id").first(), pl.col("batch").first())
        .sort("model", "precision", "phase")
    )
    n_sets = max(1, len(smallest) * len(results.roofs))
    n_most = max(10, min(MOST_LAYERS, MOST_LAYER_CELLS // n_sets))
    return [_detail(results, row, n_most) for row in smallest.iter_rows(named=True)]


def _detail(results: Results, network: dict[str, object], n_most: int) -> NetworkDetail:
    modes = [roof.label for roof in results.roofs]
    inside = results.layers.filter(pl.col("score_id") == network["score_id"])
    last = inside.filter(pl.col("label") == modes[-1])
    n_layers = len(last)
    slowest = last.sort("time_s", "index", descending=[True, False], nulls_last=False)
    kept = sorted(slowest.head(n_most)["index"].to_list())
    totals = {mode: float(inside.filter(pl.col("label") == mode)["time_s"].sum()) for mode in modes}
    cells: dict[int, dict[str, dict[str, object]]] = {}
    for row in inside.filter(pl.col("index").is_in(kept)).iter_rows(named=True):
        cells.setdefault(row["index"], {})[row["label"]] = row
    rows = [_layer_row(cells[index], modes, totals) for index in kept]
    columns = ["Layer", "Operator", "GFLOP", "MB", "FLOP/byte"]
    for mode in modes:
        columns += [f"Time, {shown(mode)}", "Share", "Bound"]
    numeric = {2, 3, 4}
    for at in range(len(modes)):
        numeric |= {5 + 3 * at, 6 + 3 * at}
    name = results.names[network_key(str(network["model"]), str(network["model_hash"]))]
    batch = network["batch"]
    title = f"{name}, batch {batch_text(batch if isinstance(batch, int) else None)}"
    note = (
        f"The {len(kept)} slowest of {n_layers} layers, in the order of the network."
        if len(kept) < n_layers
        else f"All {n_layers} layers."
    )
    return NetworkDetail(
        title=f"{title}, {network['precision']}",
        note=note,
        table=Table(f"Layers of {name}", columns, rows, frozenset(numeric)),
    )


def _layer_row(
    cells: dict[str, dict[str, object]], modes: Sequence[str], totals: dict[str, float]
) -> list[str]:
    first = cells[modes[0]]
    work, traffic = first["work_flop"], first["traffic_bytes"]
    row = [
        shown(str(first["layer"])),
        shown(str(first["op_type"])),
        _giga(work),
        _mega(traffic),
        digits(work / traffic, 3)
        if isinstance(work, int) and isinstance(traffic, int) and traffic
        else UNKNOWN
        if work is None or traffic is None
        else "",
    ]
    for mode in modes:
        cell = cells[mode]
        time = cell["time_s"]
        share = time / totals[mode] if isinstance(time, float) and totals[mode] else None
        row += [
            seconds(time) if isinstance(time, float) else UNKNOWN,
            percent(share) if share is not None else "",
            str(cell["bound"] or cell["reason"] or "nothing"),
        ]
    return row


def _mode_cells(row: dict[str, object]) -> list[str]:
    time, share = row["time_s"], row["memory_share"]
    if not isinstance(time, float):
        least = row["least_s"]
        bound = f", at least {seconds(least)}" if isinstance(least, float) and least > 0 else ""
        return [f"{UNKNOWN}{bound}", shown(str(row["reason"]))]
    low, high = row["low_s"], row["high_s"]
    interval = (low, high) if isinstance(low, float) and isinstance(high, float) else (None, None)
    bound_by = row["bound"]
    return [
        seconds(time, *interval),
        bound_text(
            bound_by if isinstance(bound_by, str) else None,
            share if isinstance(share, float) else None,
        ),
    ]


def _giga(value: object) -> str:
    return digits(value / 1e9, 3) if isinstance(value, int) else UNKNOWN


def _mega(value: object) -> str:
    return digits(value / 1e6, 3) if isinstance(value, int) else UNKNOWN
