"""What a simulated board is made of: the shape of the tables in ``boards/``.

Paths are the board's own, absolute; frequencies are in Hz unless a name says kHz, as the
kernel's files have them. Each table names its sources, and says "made up" where it has none.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Setting = tuple[str, str, str]  # PARAM, argument, value: one line of a POWER_MODEL


class Cluster(msgspec.Struct, frozen=True):
    """CPUs that share a clock and a cpufreq policy."""

    param: str  # what nvpmodel.conf calls it
    cpus: tuple[int, ...]
    khz: tuple[int, ...]  # ascending
    first_khz: int  # scaling_min_freq in every mode
    part: str  # "CPU part" of /proc/cpuinfo
    l2_bytes: int


class Gpu(msgspec.Struct, frozen=True):
    """One devfreq domain of the GPU."""

    devfreq: str  # its folder
    of_name: str  # device/of_node/name
    hz: tuple[int, ...]  # ascending
    legacy: str | None = None  # its folder in nvpmodel.conf where that is an older kernel's
    knext: str | None = None  # its folder behind *_KNEXT; None: devfreq_dev


class Param(msgspec.Struct, frozen=True):
    """One PARAM section of nvpmodel.conf."""

    kind: Literal["FILE", "CLOCK", "HWMON"]
    name: str
    arguments: tuple[tuple[str, str], ...]


class Mode(msgspec.Struct, frozen=True):
    """One POWER_MODEL section."""

    id: int
    name: str
    settings: tuple[Setting, ...]


class Rail(msgspec.Struct, frozen=True):
    """One channel of a power monitor, and what the power model lets it carry.

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


class Monitor(msgspec.Struct, frozen=True):
    """One power monitor on an I2C bus; a rail is None where nothing is connected."""

    chip: Literal["ina3221", "ina3221x", "ina238"]
    bus: int
    address: str
    controller: str  # the platform device of the bus
    hwmon: int
    rails: tuple[Rail | None, ...]


class Clock(msgspec.Struct, frozen=True):
    """A clock that bpmp drives: DLA, PVA. ``cap`` is its nvpmodel node."""

    name: str
    cap: str
    max_hz: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
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
    clusters: tuple[Cluster, ...]
    l3_bytes: int
    gpus: tuple[Gpu, ...]
    gpu_folder: str | None  # tpc_pg_mask and power/control
    emc_hz: tuple[int, ...]
    emc_cap: str | None  # nvpmodel's node; None: only bwmgr
    bwmgr: str | None  # devfreq folder of the memory clock
    cactmon: str | None
    clocks: tuple[Clock, ...]
    monitors: tuple[Monitor, ...]
    zones: tuple[str, ...]  # thermal zones, in the order of tegrastats
    params: tuple[Param, ...]
    modes: tuple[Mode, ...]
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
    def rails(self) -> tuple[Rail, ...]:
        return tuple(
            rail for monitor in self.monitors for rail in monitor.rails if rail is not None
        )
