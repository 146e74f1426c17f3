"""Tables of networks and programs that were run, and of accuracy, for a page and a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from mansard.analytics.data.accuracies import NetworkAccuracy, share_text
from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, UNKNOWN, capacity, joules, seconds, watts
from mansard.analytics.models.predict.measured import NetworkTimes, ProgramTimes
from mansard.analytics.models.predict.parts import PartTimes
from mansard.analytics.pages.figures.tables import Column, Table, batch_text, scaled, tabulate

ModeText: TypeAlias = Callable[[NetworkTimes | ProgramTimes], str]  # what a row's mode is called


def network_tables(rows: Sequence[NetworkTimes], mode: ModeText) -> list[Table]:
    """Networks that were run beside what is predicted of each, failed ones with their reason; then
    single calls, energies and memory of those that ran. None where none was run."""
    if not rows:
        return []
    what = [
        Column("Network", lambda row: row.network),
        Column("Batch", lambda row: batch_text(row.batch), is_numeric=True),
        Column("Precision", lambda row: display_name(row.precision)),
        Column("Engine", lambda row: row.engine),
        Column("Mode", mode),
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
    found = [tabulate("Networks that were run", times, rows)]
    if ran := [row for row in rows if row.n_calls]:
        found.append(tabulate("Single calls, energy and memory", others, ran))
    return found


def program_table(rows: Sequence[ProgramTimes], mode: ModeText) -> Table:
    """Programs that were run, each followed by the windows that it named."""

    def of_whole(text: Callable[[ProgramTimes], str]) -> Callable[[ProgramTimes], str]:
        return lambda row: text(row) if row.window is None else "–"

    columns = [
        Column("Program", lambda row: row.workload),
        Column("Mode", mode),
        Column("Time", measured_text, is_numeric=True),
        Column("Remark", lambda row: row.remark),
        Column("CPU time", of_whole(lambda row: seconds(row.cpu_s)), is_numeric=True),
        Column("Energy", energy_text, is_numeric=True),
        Column("Power", lambda row: watts(row.power_w), is_numeric=True),
        Column("Peak power", of_whole(lambda row: watts(row.peak_w)), is_numeric=True),
        Column("Memory", of_whole(lambda row: _memory_text(row.memory_bytes)), is_numeric=True),
        Column("Metric", of_whole(lambda row: scaled(row.metric, 1.0)), is_numeric=True),
        Column("Runs", lambda row: str(row.n_runs), is_numeric=True),
        Column("In each run", _per_run_text, is_numeric=True),
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
        return f"{row.n_not_finite} of {row.n_samples} samples have a score that is no number"
    return ""


def measured_text(row: NetworkTimes | ProgramTimes) -> str:
    """The measured time, with the 95 % prediction interval of the next measurement's."""
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


def _per_run_text(row: ProgramTimes) -> str:
    return "" if row.n_per_run is None else f"{row.n_per_run:.4g}"


def _memory_text(memory_bytes: int | None) -> str:
    return UNKNOWN if memory_bytes is None else capacity(memory_bytes)
