"""Tables of networks and their layers for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.data.names import display_name, network_key
from mansard.analytics.data.quantities import UNKNOWN, digits, joules, percent, seconds
from mansard.analytics.figures.tables import Table, batch_text, bound_text
from mansard.analytics.results import Results
from mansard.analytics.roofs.plateau import estimate
from mansard.analytics.roofs.roofline import Roofline

MOST_MODES = 4  # side by side in a table


MOST_LAYERS = 40  # of one network


MOST_LAYER_CELLS = 1600  # in all, over networks, layers and modes: the page stays under 2 MB


@dataclass(frozen=True)
class NetworkDetail:
    """The layers of one network at one batch, under a line that can be opened."""

    title: str
    note: str
    table: Table


def network_table(results: Results) -> Table:
    """One row per network, batch, precision and mode; with energies where any is known."""
    has_energy = bool(results.networks["energy_j"].is_not_null().any())
    order = {roof.label: at for at, roof in enumerate(results.roofs)}
    rows = []
    for (_,), group in results.networks.group_by(["score_id"], maintain_order=True):
        cells = sorted(group.iter_rows(named=True), key=lambda row: order[row["label"]])
        rows += [_network_row(row, results.names, has_energy=has_energy) for row in cells]
    energy = ["Energy"] if has_energy else []
    columns = ["Network", "Batch", "Precision", "GFLOP", "MB", "FLOP/byte"]
    columns += ["Mode", "Time", *energy, "Bound"]
    numeric = frozenset({1, 3, 4, 5, *range(7, len(columns) - 1)})
    return Table("Modelled time of each network", columns, rows, numeric)


def _network_row(
    row: dict[str, object], names: Mapping[str, str], *, has_energy: bool
) -> list[str]:
    batch, intensity = row["batch"], _float(row["intensity"])
    return [
        names[network_key(str(row["model"]), str(row["model_hash"]))],
        batch_text(batch if isinstance(batch, int) else None),
        display_name(str(row["precision"])),
        _giga(row["work_flop"]),
        _mega(row["traffic_bytes"]),
        UNKNOWN if intensity is None else digits(intensity, 3),
        display_name(str(row["label"])),
        *_mode_cells(row, has_energy=has_energy),
    ]


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
                display_name(row.precision),
                display_name(row.engine),
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
    n_most = max(6, min(MOST_LAYERS, MOST_LAYER_CELLS // n_sets))
    return [_detail(results, row, n_most) for row in smallest.iter_rows(named=True)]


def _detail(results: Results, network: dict[str, object], n_most: int) -> NetworkDetail:
    modes = _detailed_modes(results.roofs)
    inside = results.groups.filter(pl.col("score_id") == network["score_id"])
    last = inside.filter(pl.col("label") == modes[-1])
    n_groups = len(last)
    slowest = last.sort("time_s", "group", descending=[True, False], nulls_last=False)
    kept = sorted(slowest.head(n_most)["group"].to_list())
    totals = {mode: float(inside.filter(pl.col("label") == mode)["time_s"].sum()) for mode in modes}
    cells: dict[int, dict[str, dict[str, object]]] = {}
    for row in inside.filter(pl.col("group").is_in(kept)).iter_rows(named=True):
        cells.setdefault(row["group"], {})[row["label"]] = row
    rows = [_layer_row(cells[group], modes, totals) for group in kept]
    columns = ["Layer", "Class", "GFLOP", "MB", "FLOP/byte"]
    for mode in modes:
        columns += [f"Time, {display_name(mode)}", "Share", "Bound"]
    numeric = {2, 3, 4}
    for at in range(len(modes)):
        numeric |= {5 + 3 * at, 6 + 3 * at}
    name = results.names[network_key(str(network["model"]), str(network["model_hash"]))]
    batch = network["batch"]
    title = f"{name}, batch {batch_text(batch if isinstance(batch, int) else None)}"
    note = (
        f"The {len(kept)} slowest of {n_groups} fused layers, in the order of the network."
        if len(kept) < n_groups
        else f"All {n_groups} fused layers."
    )
    if len(modes) < len(results.roofs):
        note += f" In {len(modes)} of {len(results.roofs)} modes; the charts have the others."
    return NetworkDetail(
        title=f"{title}, {network['precision']}",
        note=note,
        table=Table(f"Layers of {name}", columns, rows, frozenset(numeric)),
    )


def _detailed_modes(roofs: Sequence[Roofline]) -> list[str]:
    """The labels of all modes, or of the last, fastest one of each processor if they are many."""
    if len(roofs) <= MOST_MODES:
        return [roof.label for roof in roofs]
    last = {(roof.machine_id, roof.full_name, roof.processor): roof.label for roof in roofs}
    return list(last.values())[:MOST_MODES]


def _layer_row(
    cells: dict[str, dict[str, object]], modes: Sequence[str], totals: dict[str, float]
) -> list[str]:
    first = cells[modes[0]]
    work, traffic = first["work_flop"], first["traffic_bytes"]
    row = [
        display_name(str(first["name"])),
        str(first["op_class"]),
        _giga(work),
        _mega(traffic),
        digits(work / traffic, 3)
        if isinstance(work, float) and isinstance(traffic, float) and traffic
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


def _mode_cells(row: dict[str, object], *, has_energy: bool) -> list[str]:
    time, share = row["time_s"], row["bound_share"]
    if not isinstance(time, float):
        least = row["least_s"]
        bound = f", at least {seconds(least)}" if isinstance(least, float) and least > 0 else ""
        unpriced = [UNKNOWN] if has_energy else []
        return [f"{UNKNOWN}{bound}", *unpriced, display_name(str(row["reason"]))]
    energy = joules(_float(row["energy_j"]), *_interval(row, "energy_low_j", "energy_high_j"))
    bound_by = row["bound"]
    return [
        seconds(time, *_interval(row, "low_s", "high_s")),
        *([energy] if has_energy else []),
        bound_text(bound_by if isinstance(bound_by, str) else None, _float(share)),
    ]


def _interval(row: dict[str, object], low: str, high: str) -> tuple[float | None, float | None]:
    ends = _float(row[low]), _float(row[high])
    return (None, None) if None in ends else ends


def _float(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _giga(value: object) -> str:
    return digits(value / 1e9, 3) if isinstance(value, int | float) else UNKNOWN


def _mega(value: object) -> str:
    return digits(value / 1e6, 3) if isinstance(value, int | float) else UNKNOWN
