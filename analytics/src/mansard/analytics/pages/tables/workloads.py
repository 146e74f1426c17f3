"""Tables of networks and programs that were run, for a page and a terminal.

Of their times and accuracy, of the memory's use that a board reports beside the modelled traffic,
and of layers that were run alone, with their sum against the whole network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mansard.analytics.data.accuracies import NetworkAccuracy, share_text
from mansard.analytics.data.names import display_name, first_names, told_apart
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
from mansard.analytics.models.predict.group_times import GroupTime, GroupTimes
from mansard.analytics.models.predict.memory_use import MemoryTraffic
from mansard.analytics.models.predict.parts import PartSum, PartTimes
from mansard.analytics.models.predict.row_times import NetworkTimes, ProgramTimes, measured_ratios
from mansard.analytics.pages.figures.tables import (
    Column,
    batch_text,
    device_columns,
    scaled,
    tabulate,
)
from mansard.core.table import Table
from mansard.core.units import ROOF_FACTORS

_MODE = Column("Mode", lambda row: display_name(row.mode))


def _what_ran(rows: Iterable[Any]) -> tuple[Column, ...]:
    """The columns that say which network ran, where and how."""
    return (
        *device_columns(rows),
        Column("Network", lambda row: row.network),
        Column("Batch", lambda row: batch_text(row.batch), is_numeric=True),
        Column("Precision", lambda row: display_name(row.precision)),
        Column("Engine", lambda row: row.engine),
        _MODE,
    )


def memory_table(rows: Sequence[MemoryTraffic]) -> list[Table]:
    """One table, or none where no board reports it."""
    if not rows:
        return []
    columns = [
        *_what_ran(rows),
        Column("Memory use", lambda row: percent(row.mean_share), is_numeric=True),
        Column("GB/s reported", lambda row: scaled(row.reported_bytes_per_s, 1e9), is_numeric=True),
        Column("Time", lambda row: seconds(row.time_s), is_numeric=True),
        Column("MB modelled", lambda row: scaled(row.traffic_bytes, 1e6), is_numeric=True),
        Column("GB/s modelled", lambda row: scaled(row.modelled_bytes_per_s, 1e9), is_numeric=True),
        Column(
            "Modelled / reported",
            lambda row: UNKNOWN if row.ratio is None else digits(row.ratio, 2),
            is_numeric=True,
        ),
        Column("Source", lambda row: row.source),
    ]
    caption = "Memory use that the board reports, compared with modelled traffic"
    return [tabulate(caption, columns, rows)]


MOST_PARTS = 30  # of one network in one mode, the slowest
TERMS = {
    "Calls": "calls_s",
    "Conversions": "conversions_s",
    "Fusion": "fusion_s",
    "Caches": "caches_s",
    "Rest": "rest_s",
}


def part_tables(sums: Sequence[PartSum], parts: Sequence[PartTimes]) -> list[Table]:
    """The sums against the whole networks, then the slowest parts of each; none where none ran."""
    if not parts:
        return []
    return [_sum_table(sums), _part_table(slowest_parts(parts))]


def group_tables(chains: Sequence[GroupTimes]) -> list[Table]:
    """Groups by accelerator, of networks with measured costs of leaving one."""
    rows = [
        (chain, group)
        for chain in chains
        for group in chain.groups
        if any(of_one.leave_s is not None for of_one in chain.groups)
    ]
    if not rows:
        return []
    names = told_apart({chain.machine_id: display_name(chain.machine) for chain, _ in rows})
    device = Column("Device", lambda row: names[row[0].machine_id])
    columns = [
        *([device] if len(names) > 1 else []),
        Column("Network", lambda row: row[0].network),
        Column("Batch", lambda row: batch_text(row[0].batch), is_numeric=True),
        Column("Precision", lambda row: row[0].precision),
        Column("Engine", lambda row: row[0].engine),
        Column("Mode", lambda row: display_name(row[0].mode)),
        Column("Accelerator", lambda row: row[0].accelerator),
        Column("Group", lambda row: f"{row[1].number}", is_numeric=True),
        Column("Operators", lambda row: operators_text(row[1].op_types)),
        Column("Time", lambda row: _time_text(row[1]), is_numeric=True),
        Column("Cost of leaving", lambda row: _leave_text(row[1]), is_numeric=True),
        Column("Demand", lambda row: _demand_text(row[1]), is_numeric=True),
        Column("Above idle", lambda row: joules(row[1].energy_j), is_numeric=True),
        Column("Left to the GPU", lambda row: _share_text(row[1].fallback_share), is_numeric=True),
        Column("Source", lambda row: row[0].source),
        Column("Remark", lambda row: row[1].remark),
    ]
    return [
        tabulate("Groups of layers by accelerator, and what it costs to leave it", columns, rows)
    ]


def _time_text(row: GroupTime) -> str:
    if row.time_s is None or row.time_error is None:
        return seconds(row.time_s)
    half_s = row.time_s * row.time_error
    return seconds(row.time_s, max(0.0, row.time_s - half_s), row.time_s + half_s)


def _leave_text(row: GroupTime) -> str:
    """``73 µs ± 12 µs``; below 0 ``−3.1 µs``, as it was measured."""
    if row.leave_s is None:
        return UNKNOWN
    half = "" if row.leave_error_s is None else f" ± {seconds(row.leave_error_s)}"
    return f"{'−' if row.leave_s < 0 else ''}{seconds(abs(row.leave_s))}{half}"


def _demand_text(row: GroupTime) -> str:
    if row.demand_byte_per_s is None:
        return UNKNOWN
    label = "" if row.demand_source != "modelled" else " modelled"
    return f"{row.demand_byte_per_s / 1e9:.3g}{NBSP}GB/s{label}"


def _share_text(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def slowest_parts(parts: Sequence[PartTimes]) -> list[PartTimes]:
    """The slowest parts of each network, engine and mode, in execution order."""
    groups: dict[object, list[PartTimes]] = {}
    for row in parts:
        same = (row.device, row.mode, row.network, row.batch, row.precision, row.engine)
        groups.setdefault((same, row.part.kind), []).append(row)
    slowest = []
    for rows in groups.values():
        rows.sort(key=lambda row: -(row.time_s or 0.0))
        slowest += sorted(rows[:MOST_PARTS], key=lambda row: row.part.number)
    return slowest


def _sum_table(sums: Sequence[PartSum]) -> Table:
    def term(name: str) -> Callable[[PartSum], str]:
        return lambda row: signed_share(getattr(row, name), row.whole_s)

    columns = [
        *_what_ran(sums),
        Column("Parts", parts_text, is_numeric=True),
        Column("Their sum", lambda row: seconds(row.parts_s), is_numeric=True),
        Column("Whole", lambda row: seconds(row.whole_s), is_numeric=True),
        Column("Difference", term("difference_s"), is_numeric=True),
        *(Column(title, term(name), is_numeric=True) for title, name in TERMS.items()),
        Column("Energy, sum", lambda row: joules(row.parts_j), is_numeric=True),
        Column("Energy, whole", lambda row: joules(row.whole_j), is_numeric=True),
        Column("Source", lambda row: row.source),
    ]
    caption = "Layers that were run alone: their sum compared with the whole network"
    return tabulate(caption, columns, sums)


def _part_table(parts: Sequence[PartTimes]) -> Table:
    columns = [
        *_what_ran(parts),
        Column("Part", lambda row: f"{row.part.kind} {row.part.number}"),
        Column("Operators", lambda row: operators_text(row.part.op_types)),
        Column("Alone", lambda row: seconds(row.time_s, row.low_s, row.high_s), is_numeric=True),
        Column("In the network", lambda row: seconds(row.in_network_s), is_numeric=True),
        Column("Energy", energy_text, is_numeric=True),
        Column("Above idle", lambda row: joules(row.above_idle_j), is_numeric=True),
        Column("Power", lambda row: watts(row.power_w), is_numeric=True),
        Column("Source", lambda row: row.source),
        Column("Remark", lambda row: row.remark),
    ]
    caption = f"Layers that were run alone, at most {MOST_PARTS} of a network: the slowest"
    return tabulate(caption, columns, parts)


def parts_text(row: PartSum) -> str:
    """``21 layers``, or ``5 of 21 layers``."""
    count = f"{row.n_measured} of {row.n_parts}" if row.n_measured < row.n_parts else row.n_parts
    return f"{count} {row.kind}{'' if row.n_parts == 1 else 's'}"


def operators_text(op_types: Sequence[str]) -> str:
    """``Conv, Relu``; of many the first."""
    return first_names(op_types)


def signed_share(value_s: float | None, whole_s: float | None) -> str:
    """A difference as a share of the whole network's time: ``+3.1 %``."""
    if value_s is None or not whole_s:
        return UNKNOWN
    return f"{100 * value_s / whole_s:+.1f}{NBSP}%".replace("-", "−")


def network_tables(rows: Sequence[NetworkTimes]) -> list[Table]:
    """Networks that were run beside what is predicted of each, failed ones with their reason; then
    single calls, energies and memory of those that ran. None where none was run."""
    if not rows:
        return []
    what = [
        *_what_ran(rows),
        Column("Label", lambda row: row.label),
    ]
    times = [
        *what,
        Column("Measured", measured_text, is_numeric=True),
        Column("Predicted", _predicted_text, is_numeric=True),
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
        Column("Energy", energy_text, is_numeric=True),
        Column("Above idle", lambda row: joules(row.above_idle_j), is_numeric=True),
        Column("Power", lambda row: watts(row.power_w), is_numeric=True),
        Column("Memory", lambda row: _memory_text(row.memory_bytes), is_numeric=True),
    ]
    tables = [tabulate("Networks that were run", times, rows)]
    if ran := [row for row in rows if row.n_calls]:
        tables.append(tabulate("Single calls, energy and memory", others, ran))
    return tables


def _metric_text(row: ProgramTimes) -> str:
    return "–" if row.metric is None and row.window else scaled(row.metric, 1.0)


def program_table(rows: Sequence[ProgramTimes]) -> Table:
    """Programs that were run, each followed by the windows that it named."""

    def of_whole(text: Callable[[ProgramTimes], str]) -> Callable[[ProgramTimes], str]:
        return lambda row: text(row) if row.window is None else "–"

    columns = [
        *device_columns(rows),
        Column("Program", lambda row: row.workload),
        _MODE,
        Column("Label", lambda row: row.label),
        Column("Time", measured_text, is_numeric=True),
        Column("Remark", lambda row: row.remark),
        Column("CPU time", of_whole(lambda row: seconds(row.cpu_s)), is_numeric=True),
        Column("Energy", energy_text, is_numeric=True),
        Column("Power", lambda row: watts(row.power_w), is_numeric=True),
        Column("Peak power", of_whole(lambda row: watts(row.peak_w)), is_numeric=True),
        Column("Memory", of_whole(lambda row: _memory_text(row.memory_bytes)), is_numeric=True),
        Column("Metric", _metric_text, is_numeric=True),
        Column("Runs", lambda row: str(row.n_runs), is_numeric=True),
        Column(
            "In each run",
            lambda row: "" if row.n_per_run is None else f"{row.n_per_run:.4g}",
            is_numeric=True,
        ),
        Column("Source", lambda row: row.source),
    ]
    return tabulate("Programs that were run", columns, rows)


def accuracy_table(rows: Sequence[NetworkAccuracy]) -> Table:
    """How often networks are right, each with the 95 % interval of its share."""
    columns = [
        Column("Network", lambda row: row.network),
        Column("Precision", lambda row: display_name(row.precision)),
        Column("Device", lambda row: row.device),
        Column("Engine", lambda row: row.engine_words),
        Column("Data", lambda row: row.dataset),
        Column("Samples", lambda row: f"{row.n_samples:,}", is_numeric=True),
        Column("Top-1", lambda row: share_text(row.top1), is_numeric=True),
        Column("Top-5", lambda row: share_text(row.top5), is_numeric=True),
        Column("Same as fp32", lambda row: share_text(row.agreement), is_numeric=True),
        Column("Drop", lambda row: share_text(row.drop), is_numeric=True),
        Column("Ranges of int8", lambda row: row.calibration),
        Column("Source", lambda row: row.source),
        Column("Remark", _accuracy_remark),
    ]
    return tabulate("Accuracy of networks", columns, rows)


def _accuracy_remark(row: NetworkAccuracy) -> str:
    if row.remark:
        return f"not run: {row.remark}"
    if row.n_not_finite:
        return f"{row.n_not_finite} of {row.n_samples} samples have a score that is not a number"
    return ""


def ratio_words(rows: Iterable[NetworkTimes]) -> str:
    """How much longer than their bounds networks take: those of ``rows``, else recorded ones."""
    ratios = measured_ratios(rows)
    if not ratios:
        return ROOF_FACTORS
    low, high = digits(ratios[0], 3), digits(ratios[-1], 3)
    ends = low if low == high else f"{low} to {high}"
    return f"measured times are {ends} times the bound"


def measured_text(row: NetworkTimes | ProgramTimes) -> str:
    """The measured time, with the 95 % prediction interval of the next measurement's.

    Where other work disturbed every sample, that of these samples.
    """
    if isinstance(row, NetworkTimes) and row.time_s is None and row.disturbed_s:
        return f"{seconds(*row.shown_s, advise=False)}, disturbed"
    return seconds(row.time_s, row.low_s, row.high_s)


def energy_text(row: NetworkTimes | PartTimes | ProgramTimes) -> str:
    """The energy of a call with what its windows leave open, or the most that it may be."""
    return joules(row.energy_j, row.energy_low_j, row.energy_high_j)


def _predicted_text(row: NetworkTimes) -> str:
    """The predicted time by what its interval means: ``at best 11.2 ms``."""
    ends = (row.predicted_low_s, row.predicted_high_s)
    return seconds(row.predicted_s, *ends, row.predicted_interval)


def _error_text(row: NetworkTimes) -> str:
    return UNKNOWN if row.error is None else f"{100 * row.error:+.0f}{NBSP}%".replace("-", "−")


def _memory_text(memory_bytes: int | None) -> str:
    return UNKNOWN if memory_bytes is None else capacity(memory_bytes)
