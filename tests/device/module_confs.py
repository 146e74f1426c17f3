"""An nvpmodel.conf written from a table of named modes, and boards that have one, theirs or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mansard.core.hardware import NAMED_MODES, NamedMode, NamedModes
from tests.device.nvpmodel_files import write

CPU = "/sys/devices/system/cpu"
GPU = "/sys/devices/platform/17000000.gpu/devfreq_dev"
_GPUS = {"tegra234": "17000000.ga10b", "tegra194": "17000000.gv11b", "tegra186": "17000000.gp10b"}


def table(board: str) -> NamedModes:
    (found,) = (each for each in NAMED_MODES if each.board == board)
    return found


def conf(board: NamedModes, modes: Sequence[NamedMode] | None = None) -> str:
    """The file of a board: cores, clocks and names; in the order of the table."""
    cores = [cpu for cluster in board.module.cpu_clusters for cpu in cluster.cpus]
    old = f"/sys/devices/{_GPUS[board.module.soc]}/devfreq/{_GPUS[board.module.soc]}"
    lines = ["< PARAM TYPE=FILE NAME=CPU_ONLINE >"]
    lines += [f"CORE_{cpu} {CPU}/cpu{cpu}/online" for cpu in cores]
    lines += ["< PARAM TYPE=CLOCK NAME=GPU >"]
    for name in ("FREQ_TABLE", "MAX_FREQ"):
        file = "available_frequencies" if name == "FREQ_TABLE" else "max_freq"
        lines += [f"{name} {old}/{file}", f"{name}_KNEXT {GPU}/{file}"]
    lines += ["< PARAM TYPE=CLOCK NAME=EMC >", "MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap"]
    lines += ["< PARAM TYPE=CLOCK NAME=CPU_ALL >", f"MAX_FREQ {CPU}/cpu0/cpufreq/scaling_max_freq"]
    for number, mode in enumerate(board.modes if modes is None else modes):
        lines += [f"< POWER_MODEL ID={number} NAME={mode.name} >"]
        lines += [f"CPU_ONLINE CORE_{cpu} {int(at < mode.n_cpus)}" for at, cpu in enumerate(cores)]
        lines += [f"GPU MAX_FREQ {_hz(mode.gpu_hz)}", f"EMC MAX_FREQ {_hz(mode.memory_hz, '0')}"]
        cpu_hz = mode.cpu_hz
        lines += [f"CPU_ALL MAX_FREQ {'-1' if cpu_hz is None else round(cpu_hz / 1e3)}"]
    return "\n".join([*lines, "< PM_CONFIG DEFAULT=0 >", ""])


def _hz(hz: float | None, uncapped: str = "-1") -> str:
    return uncapped if hz is None else str(round(hz))


def make_module(root: Path, part_number: str, cpus: str, gpu_hz: float, text: str) -> Path:
    """A board with that module, CPUs and GPU clock, and the configuration ``text``."""
    write(root, "etc/nvpmodel.conf", text)
    soc = next(b.module.soc for b in NAMED_MODES if part_number in b.module.part_numbers)
    write(root, "proc/device-tree/compatible", f"nvidia,{part_number}\0nvidia,{soc}")
    write(root, "proc/device-tree/model", "NVIDIA Jetson")
    write(root, f"{CPU}/present", cpus)
    write(root, f"{GPU}/available_frequencies", f"306000000 {gpu_hz:.0f}")
    return root
