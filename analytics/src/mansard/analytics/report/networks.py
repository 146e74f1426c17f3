"""Tables of networks and their layers, and of what was run, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from mansard.analytics.data.names import display_name, network_key
from mansard.analytics.data.quantities import (
    UNKNOWN,
    digits,
    joules,
    percent,
    seconds,
)
from mansard.analytics.figures.parameters import mode_labels
from mansard.analytics.figures.tables import (
    Column,
    Table,
    batch_text,
    bound_text,
    scaled,
    shortened,
    tabulate,
)
from mansard.analytics.report import memory_traffic, parts, workloads
from mansard.analytics.report.workloads import ModeText, measured_text, network_tables
from mansard.analytics.results import Results
from mansard.analytics.roofs.roofline import Roofline

MOST_MODES = 4  # side by side in a table
MOST_LAYERS = 40  # of one network
MOST_LAYER_CELLS = 1600  # in all, over networks, layers and modes: the page stays under 2 MB


Cells = dict[str, Any]  # a row of a frame


@dataclass(frozen=True)
class NetworkDetail:
    """The layers of one network at one batch, under a line that can be opened."""

    title: str
    note: str
    table: Table


def network_table(results: Results) -> Table:
    """One row per network, batch, precision and mode; with energies where any is known, and with
    what was measured where any network was run."""
    measured = measured_times(results)
    has_energy = bool(results.networks["energy_j"].is_not_null().any())
    order = {roof.label: at for at, roof in enumerate(results.roofs)}
    columns = [
        Column("Network", lambda row: results.names[network_key(row["model"], row["model_hash"])]),
        Column("Batch", lambda row: batch_text(row["batch"]), is_numeric=True),
        Column.name("Precision", "precision"),
        Column("GFLOP", lambda row: scaled(row["work_flop"], 1e9, 3), is_numeric=True),
        Column("MB", lambda row: scaled(row["traffic_bytes"], 1e6, 3), is_numeric=True),
        Column("FLOP/byte", lambda row: scaled(row["intensity"], 1.0, 3), is_numeric=True),
        Column.name("Mode", "label"),
        Column("Time", _time_text, is_numeric=True),
        *([Column("Measured", lambda row: measured.get(_key(row), ""))] if measured else []),
        *([Column("Energy", _energy_text, is_numeric=True)] if has_energy else []),
        Column("Bound", _bound_or_reason),
    ]
    rows = [
        row
        for (_,), group in results.networks.group_by(["score_id"], maintain_order=True)
        for row in sorted(group.iter_rows(named=True), key=lambda row: order[row["label"]])
    ]
    what = "Modelled and measured time" if measured else "Modelled time"
    return tabulate(f"{what} of each network", columns, rows)


def measured_times(results: Results) -> dict[tuple[object, ...], str]:
    """What was measured of a network under a roof, and by which engine, by ``_key``."""
    labels = mode_labels(results)
    found: dict[tuple[object, ...], list[str]] = {}
    for row in results.measured:
        key = (labels[row.device, row.mode], row.network, row.batch, row.precision, row.phase)
        # Why it was not timed stands with the networks that were run.
        text = f"{measured_text(row)}, {row.engine}" if row.time_s is not None else "not timed"
        text += f" ({row.remark})" if row.remark and row.time_s is not None else ""
        found.setdefault(key, []).append(text)
    return {key: "; ".join(texts) for key, texts in found.items()}


def _key(row: Cells) -> tuple[object, ...]:
    return tuple(row[name] for name in ("label", "network", "batch", "precision", "phase"))


def _time_text(row: Cells) -> str:
    if row["time_s"] is not None:
        return seconds(row["time_s"], row["low_s"], row["high_s"], row["interval"])
    return f"{UNKNOWN}, at least {seconds(row['least_s'])}" if row["least_s"] else UNKNOWN


def _energy_text(row: Cells) -> str:
    energy_j = None if row["time_s"] is None else row["energy_j"]
    return joules(energy_j, row["energy_low_j"], row["energy_high_j"], row["interval"])


def _bound_or_reason(row: Cells) -> str:
    if row["time_s"] is None:
        return display_name(str(row["reason"]))
    return bound_text(row["bound"], row["bound_share"])


def measured_tables(results: Results) -> list[Table]:
    """Networks that were run; see ``workloads.network_tables``."""
    found = network_tables(results.measured, _mode_text(results))
    return [shortened(each) for each in found]


def accuracy_table(results: Results) -> Table:
    """How often networks are right; see ``workloads.accuracy_table``."""
    return shortened(workloads.accuracy_table(results.accuracies))


def part_tables(results: Results) -> list[Table]:
    """Layers that were run alone; see ``parts.part_tables``."""
    labels = mode_labels(results)
    found = parts.part_tables(
        results.part_sums,
        results.parts,
        lambda row: display_name(labels[row.device, row.mode]),
    )
    found += parts.group_tables(results.group_times, lambda row: display_name(row.mode))
    return [shortened(each) for each in found]


def memory_tables(results: Results) -> list[Table]:
    """The memory's use beside our traffic; see ``memory_traffic.memory_table``."""
    labels = mode_labels(results)
    found = memory_traffic.memory_table(
        results.memory, lambda row: display_name(labels[row.device, row.mode])
    )
    return [shortened(each) for each in found]


def program_table(results: Results) -> Table:
    """Programs that were run; see ``workloads.program_table``."""
    return shortened(workloads.program_table(results.programs, _mode_text(results)))


def _mode_text(results: Results) -> ModeText:
    labels = mode_labels(results)
    return lambda row: display_name(labels[row.device, row.mode])


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


def _detail(results: Results, network: Cells, n_most: int) -> NetworkDetail:
    modes = _detailed_modes(results.roofs)
    inside = results.groups.filter(pl.col("score_id") == network["score_id"])
    last = inside.filter(pl.col("label") == modes[-1])
    n_groups = len(last)
    slowest = last.sort("time_s", "group", descending=[True, False], nulls_last=False)
    kept = sorted(slowest.head(n_most)["group"].to_list())
    totals = {mode: float(inside.filter(pl.col("label") == mode)["time_s"].sum()) for mode in modes}
    cells: dict[int, dict[str, Cells]] = {}
    for row in inside.filter(pl.col("group").is_in(kept)).iter_rows(named=True):
        cells.setdefault(row["group"], {})[row["label"]] = row
    columns = ["Layer", "Class", "GFLOP", "MB", "FLOP/byte"]
    for mode in modes:
        columns += [f"Time, {display_name(mode)}", "Share", "Bound"]
    numeric = {2, 3, 4, *(at for at in range(5, len(columns)) if at % 3 != 1)}
    name = results.names[network_key(network["model"], network["model_hash"])]
    note = (
        f"The {len(kept)} slowest of {n_groups} fused layers, in the order of the network."
        if len(kept) < n_groups
        else f"All {n_groups} fused layers."
    )
    if len(modes) < len(results.roofs):
        note += f" In {len(modes)} of {len(results.roofs)} modes; the charts have the others."
    rows = [_layer_row(cells[group], modes, totals) for group in kept]
    return NetworkDetail(
        title=f"{name}, batch {batch_text(network['batch'])}, {network['precision']}",
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
    cells: Mapping[str, Cells], modes: Sequence[str], totals: Mapping[str, float]
) -> list[str]:
    first = cells[modes[0]]
    work, traffic = first["work_flop"], first["traffic_bytes"]
    is_known = work is not None and traffic is not None
    row = [
        display_name(str(first["name"])),
        str(first["op_class"]),
        scaled(work, 1e9, 3),
        scaled(traffic, 1e6, 3),
        (digits(work / traffic, 3) if traffic else "") if is_known else UNKNOWN,
    ]
    for mode in modes:
        cell = cells[mode]
        time_s = cell["time_s"]
        row += [
            seconds(time_s),
            "" if time_s is None or not totals[mode] else percent(time_s / totals[mode]),
            str(cell["bound"] or cell["reason"] or "nothing"),
        ]
    return row
