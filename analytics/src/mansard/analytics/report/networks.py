"""Tables of networks and their layers for the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from mansard.analytics.data.names import display_name, network_key
from mansard.analytics.data.quantities import (
    NBSP,
    UNKNOWN,
    capacity,
    digits,
    joules,
    percent,
    seconds,
    watts,
)
from mansard.analytics.figures.parameters import mode_labels
from mansard.analytics.figures.tables import (
    Column,
    Table,
    batch_text,
    bound_text,
    condensed,
    scaled,
    shortened,
    tabulate,
)
from mansard.analytics.predict.measured import NetworkTimes, ProgramTimes
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
        text = f"{measured_text(row)}, {row.engine}" if row.time_s is not None else "not timed"
        text += f" ({row.remark})" if row.remark else ""
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
    """Networks that were run beside what is predicted of each, failed ones with their reason; then
    single calls, energies and memory of those that ran. None where none was run."""
    if not results.measured:
        return []
    labels = mode_labels(results)
    what = [
        Column("Network", lambda row: row.network),
        Column("Batch", lambda row: batch_text(row.batch), is_numeric=True),
        Column("Precision", lambda row: display_name(row.precision)),
        Column("Engine", lambda row: row.engine),
        Column("Mode", lambda row: display_name(labels[row.device, row.mode])),
    ]
    times = [
        *what,
        Column("Measured", measured_text, is_numeric=True),
        Column("Predicted", predicted_text, is_numeric=True),
        Column("Error", _error_text, is_numeric=True),
        Column("Source", lambda row: row.source),
        Column("Remark", lambda row: row.remark),
    ]
    others = [
        *what,
        Column("p50", lambda row: seconds(row.p50_s), is_numeric=True),
        Column("p90", lambda row: seconds(row.p90_s), is_numeric=True),
        Column("p99", lambda row: seconds(row.p99_s), is_numeric=True),
        Column("Worst", lambda row: seconds(row.worst_s), is_numeric=True),
        Column("Energy", lambda row: joules(row.energy_j), is_numeric=True),
        Column("Above idle", lambda row: joules(row.above_idle_j), is_numeric=True),
        Column("Power", lambda row: watts(row.power_w), is_numeric=True),
        Column("Memory", lambda row: _memory_text(row.memory_bytes), is_numeric=True),
    ]
    ran = tuple(row for row in results.measured if row.n_calls)
    found = [("Networks that were run", times, results.measured)]
    found += [("Single calls, energy and memory", others, ran)] if ran else []
    return [
        condensed(shortened(tabulate(caption, columns, rows)), _SHARED, kept=("Mode", "Measured"))
        for caption, columns, rows in found
    ]


_SHARED = ("Precision", "Engine", "Source")


def program_table(results: Results) -> Table:
    """Programs that were run, each followed by the windows that it named."""
    labels = mode_labels(results)

    def of_whole(text: Callable[[ProgramTimes], str]) -> Callable[[ProgramTimes], str]:
        return lambda row: text(row) if row.window is None else "–"

    columns = [
        Column("Program", lambda row: row.workload),
        Column("Mode", lambda row: display_name(labels[row.device, row.mode])),
        Column("Time", measured_text, is_numeric=True),
        Column("Remark", lambda row: row.remark),
        Column("CPU time", of_whole(lambda row: seconds(row.cpu_s)), is_numeric=True),
        Column("Energy", lambda row: joules(row.energy_j), is_numeric=True),
        Column("Power", lambda row: watts(row.power_w), is_numeric=True),
        Column("Peak power", of_whole(lambda row: watts(row.peak_w)), is_numeric=True),
        Column("Memory", of_whole(lambda row: _memory_text(row.memory_bytes)), is_numeric=True),
        Column("Metric", of_whole(lambda row: scaled(row.metric, 1.0)), is_numeric=True),
        Column("Runs", lambda row: str(row.n_runs), is_numeric=True),
        Column("In each run", _per_run_text, is_numeric=True),
        Column("Source", lambda row: row.source),
    ]
    table = shortened(tabulate("Programs that were run", columns, results.programs))
    return condensed(table, ("Source",), kept=("Time",))


def measured_text(row: NetworkTimes | ProgramTimes) -> str:
    """The measured time, with the 95 % prediction interval of the next measurement's."""
    return seconds(row.time_s, row.low_s, row.high_s)


def predicted_text(row: NetworkTimes) -> str:
    """The predicted time by what its interval means: ``at best 11.2 ms``."""
    ends = (row.predicted_low_s, row.predicted_high_s)
    return seconds(row.predicted_s, *ends, row.predicted_interval)


def _error_text(row: NetworkTimes) -> str:
    return UNKNOWN if row.error is None else f"{100 * row.error:+.0f}{NBSP}%".replace("-", "−")


def _per_run_text(row: ProgramTimes) -> str:
    return "" if row.n_per_run is None else f"{row.n_per_run:.4g}"


def _memory_text(memory_bytes: int | None) -> str:
    return UNKNOWN if memory_bytes is None else capacity(memory_bytes)


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
