"""Tables of networks and of what was run, for the report."""

from __future__ import annotations

from typing import Any

from mansard.analytics.data.names import display_name, network_key
from mansard.analytics.data.quantities import (
    UNKNOWN,
    joules,
    seconds,
)
from mansard.analytics.pages.figures.parameters import mode_labels, roof_devices
from mansard.analytics.pages.figures.tables import (
    Column,
    batch_text,
    bound_text,
    scaled,
    shortened,
    tabulate,
)
from mansard.analytics.pages.results import Results
from mansard.analytics.pages.tables import generations, workloads
from mansard.analytics.pages.tables.practice import find_practices, practice_title
from mansard.analytics.pages.tables.workloads import measured_text, network_tables
from mansard.core.precision import unit_title
from mansard.core.table import Table

Cells = dict[str, Any]  # a row of a frame


def network_table(results: Results) -> Table:
    """One row per network, batch, precision and mode; with energies where any is known, and with
    what was measured where any network was run."""
    measured = measured_times(results)
    has_energy = bool(results.networks["energy_j"].is_not_null().any())
    practices, devices = find_practices(results), roof_devices(results)
    order = {roof.label: at for at, roof in enumerate(results.roofs)}
    precisions = results.networks["precision"].to_list()
    columns = [
        Column("Network", lambda row: results.names[network_key(row["model"], row["model_hash"])]),
        Column("Batch", lambda row: batch_text(row["batch"]), is_numeric=True),
        Column.name("Precision", "precision"),
        Column(
            unit_title("G{}", precisions),
            lambda row: scaled(row["work_flop"], 1e9, 3),
            is_numeric=True,
        ),
        Column("MB", lambda row: scaled(row["traffic_bytes"], 1e6, 3), is_numeric=True),
        Column(
            unit_title("{}/byte", precisions),
            lambda row: scaled(row["intensity"], 1.0, 3),
            is_numeric=True,
        ),
        Column.name("Mode", "label"),
        Column("Time", _time_text, is_numeric=True),
        Column(
            practice_title(practices.values()),
            lambda row: practices[devices[row["label"]]].text(_bound_s(row)),
            is_numeric=True,
        ),
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
    """Measured times of networks under a roof, with their engine, by ``_key``."""
    labels = mode_labels(results)
    times: dict[tuple[object, ...], list[str]] = {}
    for row in results.measured:
        key = (labels[row.device, row.mode], row.network, row.batch, row.precision, row.phase)
        # Why it was not timed stands with the networks that were run.
        text = f"{measured_text(row)}, {row.engine}" if row.time_s is not None else "not timed"
        text += f" ({row.remark})" if row.remark and row.time_s is not None else ""
        times.setdefault(key, []).append(text)
    return {key: "; ".join(texts) for key, texts in times.items()}


def _key(row: Cells) -> tuple[object, ...]:
    return tuple(row[name] for name in ("label", "network", "batch", "precision", "phase"))


def _bound_s(row: Cells) -> float | None:
    """The time, where it is the bound of the roofs alone."""
    return float(row["time_s"]) if row["time_s"] and row["interval"] == "roof" else None


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
    tables = network_tables(results.measured)
    return [shortened(table) for table in tables]


def accuracy_table(results: Results) -> Table:
    """How often networks are right; see ``workloads.accuracy_table``."""
    return shortened(workloads.accuracy_table(results.accuracies))


def part_tables(results: Results) -> list[Table]:
    """Layers that were run alone; see ``workloads.part_tables``."""
    tables = workloads.part_tables(results.part_sums, results.parts)
    tables += workloads.group_tables(results.group_times)
    return [shortened(table) for table in tables]


def memory_tables(results: Results) -> list[Table]:
    """The memory's use beside our traffic; see ``workloads.memory_table``."""
    tables = workloads.memory_table(results.memory)
    return [shortened(table) for table in tables]


def program_table(results: Results) -> Table:
    """Programs that were run; see ``workloads.program_table``."""
    return shortened(workloads.program_table(results.programs))


def generation_table(results: Results) -> Table:
    """Servers of language models; see ``generations.generation_table``."""
    return shortened(generations.generation_table(results.generations))
