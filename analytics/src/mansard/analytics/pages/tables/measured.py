"""How it was measured: machines, protocol, trials that did not settle or were disturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from mansard.analytics.data.dataset import device_id, machine_id
from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import capacity, counted, relative
from mansard.analytics.models.roofs.rates import TRIAL_ORDER, describe
from mansard.analytics.models.scaling.observations import network_measurements
from mansard.analytics.pages.figures.tables import clock_text
from mansard.analytics.pages.results import Results
from mansard.core.records import Gpu, MachineIdentity, Manifest, Record
from mansard.core.table import Table


def machine_tables(results: Results) -> list[Table]:
    """One table per machine and one per GPU: what it is, as the system and CUDA say it."""
    machines: dict[str, Manifest] = {}
    gpus: dict[str, Gpu] = {}
    # The machines of published roofs are not known.
    roofed = [roof.run_id for roof in results.roofs if roof.source != "published"]
    manifests = [results.dataset.manifest(run_id) for run_id in roofed]
    for manifest in (*manifests, *results.dataset.workload_manifests):
        machines.setdefault(machine_id(manifest.machine), manifest)
        if manifest.gpu is not None:
            gpus.setdefault(device_id(manifest), manifest.gpu)
    of_machines = [_machine_table(manifest.machine) for manifest in machines.values()]
    return [*(_gpu_table(gpu) for gpu in gpus.values()), *of_machines]


def _machine_table(machine: MachineIdentity) -> Table:
    caches = ", ".join(
        f"L{cache.level} {capacity(cache.size_bytes)} × {cache.n_instances}"
        for cache in machine.caches
    )
    memory = "unknown" if machine.memory_bytes is None else capacity(machine.memory_bytes)
    rows = [
        *([["Simulated", "yes: a made-up board, no real one was touched"]] * machine.is_simulated),
        ["Processor", display_name(machine.name)],
        ["Architecture", display_name(machine.architecture)],
        ["CPUs in use", f"{len(machine.cpus)}"],
        ["Data caches", caches or "unknown: the system reports none"],
        ["Main memory", memory],
        [
            "System",
            f"{display_name(machine.operating_system)}, "
            f"kernel {display_name(machine.kernel_release)}",
        ],
        ["Accelerators seen", ", ".join(map(display_name, machine.accelerators)) or "none"],
        *_board_rows(machine),
    ]
    caption = "Machine (simulated)" if machine.is_simulated else "Machine"
    return Table(title=caption, columns=("Property", "Value"), rows=rows)


def _gpu_table(gpu: Gpu) -> Table:
    rows = [
        ["GPU", display_name(gpu.name)],
        ["Compute capability", f"{gpu.sm / 10:.1f}"],
        ["SMs when first read", str(gpu.n_sms)],
        ["L1 of an SM", _known(gpu, "l1_bytes", capacity)],
        ["L2", _known(gpu, "l2_bytes", capacity)],
        ["Memory", _known(gpu, "memory_bytes", capacity)],
        ["Memory bus", _known(gpu, "memory_bus_bits", lambda bits: f"{bits:.0f} bits")],
        ["Highest memory clock", _known(gpu, "memory_hz", clock_text)],
        ["Highest SM clock", _known(gpu, "gpu_hz", clock_text)],
        ["Shares memory with the CPU", "yes" if gpu.is_integrated else "no"],
        ["Error correction", _known(gpu, "ecc", lambda on: "on" if on else "off")],
        *([["MIG slice", display_name(gpu.mig)]] if gpu.mig is not None else []),
        ["CUDA of the driver", _known(gpu, "driver_cuda")],
        ["CUDA of the kernels", _known(gpu, "runtime_cuda")],
    ]
    return Table(title="GPU", columns=("Property", "Value"), rows=rows)


def _board_rows(machine: MachineIdentity) -> list[list[str]]:
    """The identity of a board, and the software that a GPU needs."""
    board = machine.board
    if board is None:
        return [
            [name, display_name(value)]
            for name, value in (("CUDA", machine.cuda), ("NVIDIA driver", machine.driver))
            if value is not None
        ]
    names = {"module": "Module", "part_number": "Part number", "soc": "SoC"}
    names |= {"l4t": "L4T", "jetpack": "JetPack"}
    return [
        *[[name, _known(board, field)] for field, name in names.items()],
        ["CUDA", _known(machine, "cuda")],
        ["NVIDIA driver", _known(machine, "driver")],
    ]


def _known(record: Record, field: str, show: Callable[[Any], str] = display_name) -> str:
    """The value of ``field``, or why it is unknown."""
    value = getattr(record, field)
    return f"unknown: {display_text(record.unknown[field])}" if value is None else show(value)


def protocol_facts(results: Results) -> list[str]:
    """How it was measured, in sentences with figures from the rows."""
    trials = results.dataset.trials
    n_accepted, n_rejected = int(trials["n_accepted"].sum()), int(trials["n_rejected"].sum())
    total = n_accepted + n_rejected
    share = f" ({100 * n_rejected / total:.1f} %)" if total else ""
    n_runs = len(results.dataset.manifests)
    if n_runs == 0:
        roofs = "every roof of this page is published" if results.roofs else "there are no roofs"
        what = "No kernel was" if results.dataset.workload_manifests else "Nothing was"
        return [f"{what} measured here: {roofs}.", *_workload_facts(results)]
    return [
        f"{counted(len(trials), 'trial')} in {counted(n_runs, 'run')}; "
        f"{counted(n_accepted, 'sample')} accepted, "
        f"{n_rejected:,} rejected{share}.",
        *_rejections(results),
        *_workload_facts(results),
    ]


def _workload_facts(results: Results) -> list[str]:
    """How often networks and programs were run, and what of them was timed."""
    rows = list(network_measurements(results.dataset))
    programs = results.dataset.programs
    facts = []
    if rows:
        n_samples = sum(len(row.seconds_s) for row in rows)
        n_calls = sum(len(row.call_seconds_s) for row in rows)
        fed = display_text(" or ".join(in_order([row.inputs for row in rows])))
        facts.append(
            f"{counted(len(rows), 'measurement')} of networks: "
            f"{counted(n_samples, 'sample')} of loops of calls, "
            f"{counted(n_calls, 'call')} timed one by one; fed with {fed}."
        )
    if programs:
        n_runs = sum(len(row.repetitions) for row in programs)
        facts.append(
            f"{counted(len(programs), 'measurement')} of programs: "
            f"{counted(n_runs, 'run')}, each to its end."
        )
    return facts


def traffic_facts(results: Results) -> list[str]:
    """How each kernel's traffic is counted, as its trials say."""
    counting = results.dataset.trials.select("kernel", "traffic_counting").unique()
    return [
        f"{display_name(row['kernel'])}: {display_text(row['traffic_counting'])}."
        for row in counting.sort("kernel", "traffic_counting").iter_rows(named=True)
    ]


def _rejections(results: Results) -> list[str]:
    rejected = results.dataset.repetitions.filter(~pl.col("accepted"))
    # "1 involuntary context switch" and "5 involuntary context switches" are one reason here.
    reason = pl.col("rejected_reason").str.replace_all(r"\d+(\.\d+)?", "…")
    reason = reason.str.replace("switches", "switch", literal=True)
    counts = rejected.group_by(reason).len().collect()
    counts = counts.sort("len", "rejected_reason", descending=[True, False])
    return [
        f"Rejected {counted(row['len'], 'time')} for: {display_text(row['rejected_reason'])}."
        for row in counts.head(5).iter_rows(named=True)
    ]


def unstable_table(results: Results) -> Table:
    """The trials that stayed unstable; ceilings rest on them only where no other settled."""
    labels = results.labels()
    rows = [
        [
            display_name(labels[row["run_id"]]),
            describe(row),
            relative(row["stability_interval"]),
            f"{row['n_accepted']}",
            f"{row['n_rejected']}",
        ]
        for row in results.dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["stability"] == "unstable" and row["failure"] is None
    ]
    columns = ("Mode", "Trial", "Interval of block medians", "Accepted", "Rejected")
    return Table("Trials that did not settle", columns, rows, frozenset({2, 3, 4}))


def disturbed_table(results: Results) -> Table:
    """The trials that something disturbed; they are kept and drawn, and in no ceiling."""
    labels = results.labels()
    rows = [
        [
            display_name(labels[row["run_id"]]),
            describe(row),
            display_text("; ".join(row["disturbances"])),
        ]
        for row in results.dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["disturbances"]
    ]
    return Table("Trials that were disturbed", ("Mode", "Trial", "Disturbed by"), rows)
