"""The types of the boards' tables, and the parts that they share.

Paths are the board's own, absolute; frequencies are in Hz unless a name says kHz, as in the
kernel's files. Each table names its sources, and says "made up" where it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from mansard.core.hardware import NAMED_MODES, NamedMode

Setting = tuple[str, str, str]  # PARAM, argument, value: one line of a POWER_MODEL


class ClusterSpec(msgspec.Struct, frozen=True):
    """CPUs that share a clock and a cpufreq policy."""

    param: str  # what nvpmodel.conf calls it
    cpus: tuple[int, ...]
    khz: tuple[int, ...]  # ascending
    first_khz: int  # scaling_min_freq in every mode
    part: str  # "CPU part" of /proc/cpuinfo
    l2_bytes: int


class GpuSpec(msgspec.Struct, frozen=True):
    """One devfreq domain of the GPU."""

    devfreq: str  # its folder
    of_name: str  # device/of_node/name
    hz: tuple[int, ...]  # ascending
    legacy: str | None = None  # its folder in nvpmodel.conf where that is an older kernel's
    knext: str | None = None  # its folder behind *_KNEXT; None: devfreq_dev


class ParamSpec(msgspec.Struct, frozen=True):
    """One PARAM section of nvpmodel.conf."""

    kind: Literal["FILE", "CLOCK", "HWMON"]
    name: str
    arguments: tuple[tuple[str, str], ...]


class ModeSpec(msgspec.Struct, frozen=True):
    """One POWER_MODEL section."""

    id: int
    name: str
    settings: tuple[Setting, ...]


class RailSpec(msgspec.Struct, frozen=True):
    """One channel of a power monitor, and its share in the power model.

    power = idle_w + cpu_w·c + gpu_w·g + memory_w·m, with c, g and m the shares of the chip's
    dynamic power, f·V²·utilisation, that are 1 with everything on at the highest clock.
    """

    label: str
    volt: float
    idle_w: float
    cpu_w: float = 0.0
    gpu_w: float = 0.0
    memory_w: float = 0.0
    parts: tuple[str, ...] = ()  # rails that this one feeds as well
    noise_w: float = 0.0  # beside the relative noise of every rail
    shunt_ohm: float = 0.005
    max_ma: int = 32760  # warning limit of the current
    crit_ma: int = 32760


class MonitorSpec(msgspec.Struct, frozen=True):
    """One power monitor on an I2C bus; a rail is None where nothing is connected."""

    chip: Literal["ina3221", "ina3221x", "ina238"]
    bus: int
    address: str
    controller: str  # the platform device of the bus
    hwmon: int
    rails: tuple[RailSpec | None, ...]


class ClockSpec(msgspec.Struct, frozen=True):
    """A clock that bpmp drives: DLA, PVA. ``cap`` is its nvpmodel node."""

    name: str
    cap: str
    max_hz: int


class BoardSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One board. Where no comment in the table says otherwise, figures have its sources."""

    name: str
    model: str
    compatible: tuple[str, ...]
    serial: str
    release: str  # the first line of /etc/nv_tegra_release
    kernel: str
    ubuntu: str
    l4t: tuple[int, int]
    memory_kb: int
    clusters: tuple[ClusterSpec, ...]
    l3_bytes: int
    gpus: tuple[GpuSpec, ...]
    gpu_folder: str | None  # tpc_pg_mask and power/control
    emc_hz: tuple[int, ...]
    emc_cap: str | None  # nvpmodel's node; None: only bwmgr
    bwmgr: str | None  # devfreq folder of the memory clock
    cactmon: str | None
    host1x: str  # the folder of video engines and accelerators; on Thor made up
    video: tuple[str, ...]  # engines beside those that have a clock of their own
    clocks: tuple[ClockSpec, ...]
    monitors: tuple[MonitorSpec, ...]
    zones: tuple[str, ...]  # thermal zones, in the order of tegrastats
    params: tuple[ParamSpec, ...]
    modes: tuple[ModeSpec, ...]
    default: int
    resolves: bool  # limits of clocks are moved to the table
    cpu0_switch: bool  # whether cpu0/online is there
    n_tpcs: int
    n_gpcs: int  # how many clocks tegrastats shows for the GPU
    family: str  # of tegrastats lines: r32, r35, r36, r38
    sources: str

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(sorted(cpu for cluster in self.clusters for cpu in cluster.cpus))

    @property
    def rails(self) -> tuple[RailSpec, ...]:
        return tuple(
            rail for monitor in self.monitors for rail in monitor.rails if rail is not None
        )


CPU = "/sys/devices/system/cpu"
CLK = "/sys/kernel/debug/bpmp/debug/clk"
UNCAPPED = "-1"


def steps(first: int, step: int, n: int, *rest: int) -> tuple[int, ...]:
    """``n`` frequencies ``step`` apart, then ``rest``."""
    return (*range(first, first + step * n, step), *rest)


def named_modes(board: str) -> dict[str, NamedMode]:
    """NVIDIA's modes of ``board`` by name; a board's caps stand in one table for all rooms."""
    (modes,) = (table.modes for table in NAMED_MODES if table.board == board)
    return {mode.name: mode for mode in modes}


def cap_text(hz: float | None, uncapped: str = UNCAPPED) -> str:
    """The text of a cap; of None the text for an uncapped clock."""
    return uncapped if hz is None else str(round(hz))


def khz_text(hz: float | None) -> str:
    """The value of a CPU's cap, which is in kHz."""
    return cap_text(None if hz is None else hz / 1e3)


def core_param(cpus: Sequence[int]) -> ParamSpec:
    """CPU_ONLINE: one switch for each core."""
    return ParamSpec(
        "FILE", "CPU_ONLINE", tuple((f"CORE_{cpu}", f"{CPU}/cpu{cpu}/online") for cpu in cpus)
    )


def file_param(name: str, argument: str, path: str, knext: str | None = None) -> ParamSpec:
    """A file that takes one value, with the newer kernel's path where it has one."""
    newer = ((f"{argument}_KNEXT", knext),) if knext else ()
    return ParamSpec("FILE", name, ((argument, path), *newer))


def gpu_file_params(knext: str | None = None, *, gates: bool = True) -> tuple[ParamSpec, ...]:
    """The GPU's own files, below gpu.0: gating of TPCs, and power control twice."""
    files = (
        ("TPC_POWER_GATING", "TPC_PG_MASK", "tpc_pg_mask"),
        ("GPU_POWER_CONTROL_ENABLE", "GPU_PWR_CNTL_EN", "power/control"),
        ("GPU_POWER_CONTROL_DISABLE", "GPU_PWR_CNTL_DIS", "power/control"),
    )
    return tuple(
        file_param(
            name, argument, f"/sys/devices/gpu.0/{file}", f"{knext}/{file}" if knext else None
        )
        for name, argument, file in files[0 if gates else 1 :]
    )


def cluster_params(clusters: Sequence[ClusterSpec], *, knext: bool = True) -> tuple[ParamSpec, ...]:
    """One CLOCK section for each cluster, through its first CPU."""
    files = (
        ("FREQ_TABLE", "scaling_available_frequencies"),
        ("MAX_FREQ", "scaling_max_freq"),
        ("MIN_FREQ", "scaling_min_freq"),
    )
    endings = ("", "_KNEXT") if knext else ("",)
    return tuple(
        ParamSpec(
            "CLOCK",
            cluster.param,
            tuple(
                (argument + ending, f"{CPU}/cpu{cluster.cpus[0]}/cpufreq/{file}")
                for ending in endings
                for argument, file in files
            ),
        )
        for cluster in clusters
    )


def gpu_param(gpu: GpuSpec, name: str = "GPU") -> ParamSpec:
    """The GPU's CLOCK section; older kernels have its clock under another name."""
    files = (
        ("FREQ_TABLE", "available_frequencies"),
        ("MAX_FREQ", "max_freq"),
        ("MIN_FREQ", "min_freq"),
    )
    old = tuple((argument, f"{gpu.legacy or gpu.devfreq}/{file}") for argument, file in files)
    newer = gpu.knext or f"{gpu.devfreq.rpartition('/devfreq/')[0]}/devfreq_dev"
    new = tuple((f"{argument}_KNEXT", f"{newer}/{file}") for argument, file in files)
    return ParamSpec("CLOCK", name, old + new)


def cap_param(name: str, path: str, knext: str | None = None) -> ParamSpec:
    """A clock that has only a cap."""
    return ParamSpec("CLOCK", name, (("MAX_FREQ", path), ("MAX_FREQ_KNEXT", knext or path)))


def clock_params(clocks: Sequence[ClockSpec]) -> tuple[ParamSpec, ...]:
    """The caps of the accelerators."""
    return tuple(cap_param(clock.name, clock.cap) for clock in clocks)


def core_settings(all_cpus: Sequence[int], on: Sequence[int]) -> tuple[Setting, ...]:
    """The settings of a mode that switch cores."""
    return tuple(("CPU_ONLINE", f"CORE_{cpu}", str(int(cpu in on))) for cpu in all_cpus)


def cpu_settings(
    clusters: Sequence[ClusterSpec], on: Sequence[int], hz: float | None
) -> tuple[Setting, ...]:
    """The clock range of each cluster that has a core on; None is uncapped."""
    cap = khz_text(hz)
    return tuple(
        setting
        for cluster in clusters
        if set(cluster.cpus) & set(on)
        for setting in (
            (cluster.param, "MIN_FREQ", str(cluster.first_khz)),
            (cluster.param, "MAX_FREQ", cap),
        )
    )


def gpu_settings(
    hz: float | None, masks: Sequence[Setting] = ()
) -> tuple[tuple[Setting, ...], ...]:
    """The settings before and after the CPU clocks: gating and power, then the GPU's range."""
    before = (*masks, ("GPU_POWER_CONTROL_ENABLE", "GPU_PWR_CNTL_EN", "on"))
    after = (
        ("GPU", "MIN_FREQ", "0"),
        ("GPU", "MAX_FREQ", cap_text(hz)),
        ("GPU_POWER_CONTROL_DISABLE", "GPU_PWR_CNTL_DIS", "auto"),
    )
    return before, after
