"""How it was measured, in the report: machine, protocol, meters, provenance."""

from __future__ import annotations

import polars as pl

from mansard.analytics.names import shown, shown_long
from mansard.analytics.page_parts import Table
from mansard.analytics.quantities import capacity, relative
from mansard.analytics.rates import TRIAL_ORDER, describe, unused_trials
from mansard.analytics.results import Results
from mansard.core.records import MachineIdentity, Manifest, Record


def machine_tables(results: Results) -> list[Table]:
    """One table per machine: what it is, as the system says it."""
    seen: dict[str, Manifest] = {}
    for roof in results.roofs:
        seen.setdefault(roof.machine_id, results.dataset.manifest(roof.run_id))
    return [_machine_table(manifest.machine) for manifest in seen.values()]


def protocol_facts(results: Results) -> list[str]:
    """How it was measured, in sentences with figures from the rows themselves."""
    trials = results.dataset.trials
    n_accepted, n_rejected = int(trials["n_accepted"].sum()), int(trials["n_rejected"].sum())
    total = n_accepted + n_rejected
    share = f" ({100 * n_rejected / total:.1f} %)" if total else ""
    n_runs = len(results.roofs)
    runs = "1 run" if n_runs == 1 else f"{n_runs} runs"
    return [
        f"{len(trials):,} trials in {runs}; {n_accepted:,} samples accepted, "
        f"{n_rejected:,} rejected{share}.",
        *_rejections(results),
    ]


def traffic_facts(results: Results) -> list[str]:
    """How each kernel's traffic is counted, as its trials say."""
    counting = results.dataset.trials.select("kernel", "traffic_counting").unique()
    return [
        f"{shown(row['kernel'])}: {shown_long(row['traffic_counting'])}."
        for row in counting.sort("kernel", "traffic_counting").iter_rows(named=True)
    ]


def _rejections(results: Results) -> list[str]:
    rejected = results.dataset.repetitions.filter(~pl.col("accepted"))
    # "1 involuntary context switch" and "5 involuntary context switches" are one reason here.
    reason = pl.col("rejected_reason").str.replace_all(r"\d+(\.\d+)?", "…")
    reason = reason.str.replace("switches", "switch", literal=True)
    counts = rejected.group_by(reason).len()
    counts = counts.sort("len", "rejected_reason", descending=[True, False])
    return [
        f"Rejected {row['len']:,} times for: {shown_long(row['rejected_reason'])}."
        for row in counts.head(5).iter_rows(named=True)
    ]


def unstable_table(results: Results) -> Table:
    """The trials that stayed unstable; they are used, and their ceilings are marked."""
    labels = results.labels()
    rows = [
        [
            shown(labels[row["run_id"]]),
            describe(row),
            relative(row["stability_interval"]),
            f"{row['n_accepted']}",
            f"{row['n_rejected']}",
        ]
        for row in results.dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["stability"] == "unstable"
    ]
    return Table(
        caption="Trials that did not settle",
        columns=("Mode", "Trial", "Interval of block medians", "Accepted", "Rejected"),
        rows=rows,
        numeric=frozenset({2, 3, 4}),
    )


def disturbed_table(results: Results) -> Table:
    """The trials that something disturbed; they are kept and drawn, and in no ceiling."""
    labels = results.labels()
    rows = [
        [shown(labels[row["run_id"]]), describe(row), shown_long("; ".join(row["disturbances"]))]
        for row in results.dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["disturbances"]
    ]
    return Table("Trials that were disturbed", ("Mode", "Trial", "Disturbed by"), rows)


def unused(results: Results) -> list[str]:
    """Trials that give no rate, one line each."""
    return list(unused_trials(results.dataset))


def _short_commit(manifest: Manifest) -> str:
    """The commit's first twelve digits, with the mark of a changed checkout."""
    if manifest.commit is None:
        return f"unknown: {manifest.unknown['commit']}"
    number, mark, rest = manifest.commit.partition("-")
    return f"{number[:12]}{mark}{rest}"


def _minute(utc: str) -> str:
    """``2026-11-21T04:19:52+00:00`` as ``2026-11-21 04:19``."""
    return utc[:16].replace("T", " ")


def provenance_table(results: Results) -> Table:
    """Which run came from where: ids, versions, times."""
    rows = []
    for roof in results.roofs:
        manifest = results.dataset.manifest(roof.run_id)
        # "mansard" has a column of its own; kernels are named by the hash of their source.
        versions = ", ".join(
            f"{name} {value}"
            for name, value in sorted(manifest.versions.items())
            if name != "mansard"
        )
        rows.append(
            [
                shown(manifest.run_id),
                shown(roof.label),
                shown(manifest.profile),
                shown(manifest.tool_version),
                shown(_short_commit(manifest)),
                shown(_minute(manifest.started_utc)),
                shown(_minute(manifest.finished_utc) if manifest.finished_utc else "not finished"),
                shown_long(versions),
            ]
        )
    return Table(
        caption="Runs behind this page",
        columns=(
            "Run",
            "Mode",
            "Profile",
            "Mansard",
            "Commit",
            "Started (UTC)",
            "Finished (UTC)",
            "Versions",
        ),
        rows=rows,
    )


def _machine_table(machine: MachineIdentity) -> Table:
    caches = ", ".join(
        f"L{cache.level} {capacity(cache.size_bytes)} × {cache.n_instances}"
        for cache in machine.caches
    )
    memory = "unknown" if machine.memory_bytes is None else capacity(machine.memory_bytes)
    rows = [
        *([["Simulated", "yes: a made-up board, no real one was touched"]] * machine.is_simulated),
        ["Processor", shown(machine.name)],
        ["Architecture", shown(machine.architecture)],
        ["CPUs in use", f"{len(machine.cpus)}"],
        ["Data caches", caches or "unknown: the system reports none"],
        ["Main memory", memory],
        ["System", f"{shown(machine.operating_system)}, kernel {shown(machine.kernel_release)}"],
        ["Accelerators seen", ", ".join(map(shown, machine.accelerators)) or "none"],
        *_board_rows(machine),
    ]
    caption = "Machine (simulated)" if machine.is_simulated else "Machine"
    return Table(caption=caption, columns=("Property", "Value"), rows=rows)


def _board_rows(machine: MachineIdentity) -> list[list[str]]:
    """What a board says of itself, and the software that a GPU needs."""
    board = machine.board
    if board is None:
        return [
            [name, shown(value)]
            for name, value in (("CUDA", machine.cuda), ("NVIDIA driver", machine.driver))
            if value is not None
        ]
    names = {"module": "Module", "part_number": "Part number", "soc": "SoC"}
    names |= {"l4t": "L4T", "jetpack": "JetPack"}
    rows = [[names[field], _or_reason(board, field)] for field in names]
    return [
        *rows,
        ["CUDA", _or_reason(machine, "cuda")],
        ["NVIDIA driver", _or_reason(machine, "driver")],
    ]


def _or_reason(record: Record, field: str) -> str:
    value = getattr(record, field)
    if value is None:
        return f"unknown: {shown_long(record.unknown[field])}"
    return shown(str(value))
