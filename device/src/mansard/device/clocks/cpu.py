"""CPU clusters and cores: cpufreq policies, and which CPUs are on.

Source: Documentation/admin-guide/pm/cpufreq.rst and cpu-hotplug in the Linux kernel.
"""

from __future__ import annotations

from pathlib import Path

from mansard.device.clocks.domain import KHZ, Domain, read_frequencies, why_not_writable
from mansard.device.system import below, exists, read_int
from mansard.device.topology import CPU_FOLDER, list_cpus, online_path, related_cpus


def read_online(root: Path) -> dict[int, bool]:
    """Each CPU of the machine and whether it is on.

    A CPU without a file ``online`` cannot be switched off; the first one often has none.
    """
    return {cpu: read_int(below(root, online_path(cpu))) != 0 for cpu in list_cpus(root)}


def find_clusters(root: Path) -> tuple[Domain, ...]:
    """The CPUs that share a clock, by cluster; those that are wholly off cannot be seen."""
    found: dict[tuple[int, ...], Domain] = {}
    for cpu in read_online(root):
        folder = f"{CPU_FOLDER}/cpu{cpu}/cpufreq"
        if not exists(root, f"{folder}/scaling_max_freq"):
            continue
        cpus = related_cpus(root, cpu) or (cpu,)
        if cpus not in found and read_int(below(root, f"{folder}/scaling_max_freq")) is not None:
            found[cpus] = _cluster(root, folder, cpus)
    return tuple(found.values())


def _cluster(root: Path, folder: str, cpus: tuple[int, ...]) -> Domain:
    available_hz = read_frequencies(root, f"{folder}/scaling_available_frequencies", KHZ)
    is_continuous = not available_hz
    if is_continuous:  # intel_pstate and amd_pstate list none
        ends = [read_int(below(root, f"{folder}/cpuinfo_{end}_freq")) for end in ("min", "max")]
        available_hz = tuple(float(end * KHZ) for end in ends if end)
    maximum, minimum = f"{folder}/scaling_max_freq", f"{folder}/scaling_min_freq"
    return Domain(
        name=f"cpu{cpus[0]}-{cpus[-1]}" if len(cpus) > 1 else f"cpu{cpus[0]}",
        kind="cpu",
        unit_hz=KHZ,
        available_hz=available_hz,
        is_continuous=is_continuous and len(available_hz) == 2,
        max_path=maximum,
        min_path=minimum,
        cur_path=f"{folder}/scaling_cur_freq",
        cpus=cpus,
        why_not=why_not_writable(root, maximum, minimum),
    )
