"""Machines made of files, for choosing modes on them."""

from __future__ import annotations

from pathlib import Path

from mansard.core.records import MachineIdentity

CPU_STEPS_KHZ = (1_000_000, 1_500_000, 2_000_000, 2_400_000)
_NOT_HERE = "made up for a test"


def machine(n_cpus: int, kind: str = "cpu") -> MachineIdentity:
    """A machine of ``n_cpus`` cores, of which nothing else is known."""
    unknown = ("memory_bytes", "machine_hash", "board", "cuda", "driver")
    return MachineIdentity(
        kind=kind,  # type: ignore[arg-type]
        name="made up",
        is_simulated=True,
        architecture="any",
        cpus=tuple(range(n_cpus)),
        caches=(),
        memory_bytes=None,
        operating_system="none",
        kernel_release="0",
        machine_hash=None,
        accelerators=(),
        board=None,
        cuda=None,
        driver=None,
        unknown=dict.fromkeys(unknown, _NOT_HERE),
    )


def add_cpufreq(
    root: Path,
    clusters: tuple[tuple[int, ...], ...],
    steps_khz: tuple[tuple[int, ...], ...],
    *,
    is_continuous: bool = False,
) -> None:
    """Write a cpufreq policy for each cluster, at its highest step."""
    for cpus, steps in zip(clusters, steps_khz, strict=True):
        for cpu in cpus:
            folder = root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
            folder.mkdir(parents=True)
            write = {
                "related_cpus": " ".join(map(str, cpus)),
                "scaling_min_freq": steps[0],
                "scaling_max_freq": steps[-1],
                "scaling_cur_freq": steps[-1],
                "cpuinfo_min_freq": steps[0],
                "cpuinfo_max_freq": steps[-1],
            }
            if not is_continuous:
                write["scaling_available_frequencies"] = " ".join(map(str, steps))
            for name, value in write.items():
                (folder / name).write_text(f"{value}\n")
