"""What was measured on: the machine, its board and its GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mansard.analytics.data.dataset import device_id
from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import capacity
from mansard.analytics.report.gpu_tables import clock_text
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.core.records import Gpu, MachineIdentity, Manifest, Record


def machine_tables(results: Results) -> list[Table]:
    """One table per machine and one per GPU: what it is, as the system and CUDA say it."""
    machines: dict[str, Manifest] = {}
    gpus: dict[str, Gpu] = {}
    for roof in results.roofs:
        if roof.source == "published":  # nobody read what machine it was
            continue
        manifest = results.dataset.manifest(roof.run_id)
        machines.setdefault(roof.machine_id, manifest)
        if manifest.gpu is not None:
            gpus.setdefault(device_id(manifest), manifest.gpu)
    found = [_machine_table(manifest.machine) for manifest in machines.values()]
    return [*(_gpu_table(gpu) for gpu in gpus.values()), *found]


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


def _gpu_table(gpu: Gpu) -> Table:
    rows = [
        ["GPU", shown(gpu.name)],
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
        *([["MIG slice", shown(gpu.mig)]] if gpu.mig is not None else []),
        ["CUDA of the driver", _known(gpu, "driver_cuda", shown)],
        ["CUDA of the kernels", _known(gpu, "runtime_cuda", shown)],
    ]
    return Table(caption="GPU", columns=("Property", "Value"), rows=rows)


def _known(gpu: Gpu, field: str, show: Callable[[Any], str]) -> str:
    value = getattr(gpu, field)
    if value is None:
        return f"unknown: {shown_long(gpu.unknown[field])}"
    return show(value)


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
