"""Machines and power modes in tables, how they were measured, and what modelled modes rest on.

Measured: by which protocol, and the trials that did not settle or were disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from mansard.analytics.data.machines import device_id, machine_id
from mansard.analytics.data.model_frames import quantity_unit
from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import NBSP, UNKNOWN, capacity, counted, percent, relative
from mansard.analytics.models.predict.totals_calibration import place_name
from mansard.analytics.models.roofs.rates import TRIAL_ORDER, describe
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.models.scaling.observations import network_measurements
from mansard.analytics.pages.figures.modes import MOST_TABLE_ROWS as MOST_ROWS
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
    """How often networks, operators and programs were run, and what of them was timed."""
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
    facts += _operator_facts(results)
    if programs:
        n_runs = sum(len(row.repetitions) for row in programs)
        facts.append(
            f"{counted(len(programs), 'measurement')} of programs: "
            f"{counted(n_runs, 'run')}, each to its end."
        )
    return facts


def _operator_facts(results: Results) -> Iterator[str]:
    """Where the zoo's operators were timed, and which predictions rest on them."""
    for place, fitted in results.calibration.items():
        if not fitted.n_operators:
            continue
        use = "does not use them: lines through whole networks are nearer"
        if fitted.shapes is not None:
            use = "predicts networks that were not measured by the shapes of these"
        elif fitted.classes is not None:
            use = "predicts networks that were not measured by classes of operators, with these"
        what = counted(fitted.n_operators, "operator")
        yield f"{place_name(*place)}: {what} of the zoo were timed; --calibrate {use}."


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
        f"{counted(row['len'], 'sample')} rejected: "
        f"{display_text(row['rejected_reason']).removeprefix('… ')}."
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


def known_modes_table(results: Results) -> Table:
    """Clocks, SMs and limits of the modes, the measured ones and others up to a limit."""
    measured = results.coefficients.filter(pl.col("source") != "modelled")
    sources = {
        (row["device"], row["mode"]): row["source"] for row in measured.iter_rows(named=True)
    }
    ordered = sorted(
        results.modes.iter_rows(named=True),
        key=lambda row: (row["device"], row["mode"]) not in sources,
    )
    rows = [
        [
            display_name(row["mode"]),
            display_name(row["device"]),
            sources.get((row["device"], row["mode"]), "modelled"),
            _megahertz(row["gpu_hz"]),
            _megahertz(row["memory_hz"]),
            _megahertz(row["cpu_hz"]),
            _count(row["n_sms"]),
            _count(row["n_cpus"]),
            "none named" if row["power_limit_w"] is None else f"{row['power_limit_w']:g} W",
        ]
        for row in ordered[:MOST_ROWS]
    ]
    more = f", {MOST_ROWS} of {len(ordered):,}" if len(ordered) > MOST_ROWS else ""
    columns = (
        *("Mode", "Device", "Roofs", "GPU MHz", "Memory MHz", "CPU MHz", "SMs", "CPUs"),
        "Power limit",
    )
    return Table(f"Power modes and their clocks{more}", columns, rows, frozenset({3, 4, 5, 6, 7}))


def scaling_table(results: Results) -> Table:
    """What the values of modelled modes rest on: their error when a measured mode is left out."""
    modelled = results.coefficients.filter(pl.col("source") == "modelled")
    summed = modelled.group_by("device", "quantity", "subject", "unit").agg(
        pl.len().alias("n"),
        pl.col("error").max().alias("error"),
        pl.col("n_fitted").max().alias("n_fitted"),
        pl.col("is_extrapolated").sum().alias("n_outside"),
        pl.col("value").is_null().sum().alias("n_unknown"),
        pl.col("reason").drop_nulls().first().alias("reason"),
    )
    rows = [
        [
            _quantity_name(row),
            display_name(row["device"]),
            str(row["n_fitted"] or UNKNOWN),
            UNKNOWN if row["error"] is None else percent(row["error"]),
            f"{row['n'] - row['n_unknown']:,} of {row['n']:,}",
            f"{row['n_outside']:,}",
            "" if row["reason"] is None else display_text(row["reason"]),
        ]
        for row in summed.sort("device", "quantity", "subject", "unit").iter_rows(named=True)
    ]
    columns = (
        *("Quantity", "Device", "Modes fitted", "Error with one left out (median)"),
        *("Modes with a value", "Extrapolated", "Remark"),
    )
    return Table("What modelled modes rest on", columns, rows, frozenset({2, 3, 4, 5}))


def _quantity_name(row: dict[str, str]) -> str:
    words = row["quantity"].replace("_", " ")
    on = f" on {row['unit']}s" if row["unit"] else ""
    subject = f", {display_name(row['subject'])}" if row["subject"] else ""
    return f"{words}{subject}{on}, {quantity_unit(row['quantity'], row['subject'])}"


def _megahertz(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value / 1e6:,.5g}"


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def settings_words(results: Results, roof: Roofline) -> str:
    """What the mode of ``roof`` sets, in a few words: ``2 CPU cores, clocks as found``."""
    manifests = {run.run_id: run for run in results.dataset.manifests}
    manifest = manifests.get(roof.run_id)
    if manifest is None:
        of_mode = results.modes.filter(pl.col("mode") == roof.mode)
        of_machine = of_mode.filter(pl.col("device") == roof.machine)
        rows = (of_machine if len(of_machine) else of_mode).rows(named=True)
        return clock_words(rows[0]) if len(rows) == 1 else ""
    mode = manifest.mode_read_back
    return clock_words(
        {
            "n_cpus": mode.n_cpus,
            "cpu_hz": mode.cpu_hz,
            "gpu_hz": mode.gpu_hz,
            "memory_hz": mode.memory_hz,
            "n_sms": mode.n_sms,
            "power_limit_w": mode.power_limit_w,
        }
    )


def clock_words(mode: Mapping[str, Any]) -> str:
    """A row of MODE_SCHEMA in words; what is not known of it is left out."""
    parts = []
    if mode["gpu_hz"] or mode["n_sms"]:
        sms = counted(mode["n_sms"], "SM") if mode["n_sms"] else "GPU"
        parts.append(f"{sms}{_at(mode['gpu_hz'])}")
    if mode["n_cpus"]:
        parts.append(f"{counted(mode['n_cpus'], 'CPU core')}{_at(mode['cpu_hz'])}")
    elif mode["cpu_hz"]:
        parts.append(f"CPU{_at(mode['cpu_hz'])}")
    if mode["memory_hz"]:
        parts.append(f"memory{_at(mode['memory_hz'])}")
    if mode["power_limit_w"]:
        parts.append(f"at most {mode['power_limit_w']:g}{NBSP}W")
    if parts and not any(mode[name] for name in ("gpu_hz", "cpu_hz", "memory_hz")):
        parts.append("clocks as found")
    return ", ".join(parts)


def _at(clock_hz: float | None) -> str:
    return f" at {clock_hz / 1e6:,.4g}{NBSP}MHz" if clock_hz else ""
