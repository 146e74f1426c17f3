"""Jetson TX2 Developer Kit under L4T r32, with the older layout of power monitors."""

from __future__ import annotations

from mansard.simulator.boards import spec
from mansard.simulator.boards.spec import (
    BoardSpec,
    ClusterSpec,
    GpuSpec,
    ModeSpec,
    MonitorSpec,
    RailSpec,
    Setting,
)

SOURCES = """
Modes and caps: nvpmodel_t186.conf. Some caps are between the steps of the tables (1.2 GHz,
850 MHz): this kernel keeps a limit as it was written. GPU table: the clocks of a recorded sweep
of VGG19; EMC: 1062.4 to 1866 MHz are of another, 665.6 MHz is seen in a line, the rest is made
up. CPU table: 345.6 MHz and about 2035 MHz are seen, 153.6 MHz apart is made up. Rails,
addresses, zones, idle (VDD_IN 1.8 W) and load (VDD_IN 14 W, GPU 6.9 W, DDR 2.7 W): recorded
lines. Rails of 19 V step by 76 mW there, those of 4.8 V by 19 mW: 4 mA, or 40 µV of 10 mΩ. The
device tree's model is "quill", the board's code name. [from memory: model and compatible]
"""

_KHZ = spec.steps(345600, 153600, 12)
_CPUS = tuple(range(6))
_A57 = ClusterSpec("CPU_A57", (0, 3, 4, 5), _KHZ, 345600, "0xd07", 2 * 1024**2)
_DENVER = ClusterSpec("CPU_DENVER", (1, 2), _KHZ, 345600, "0x003", 2 * 1024**2)
_GPU = GpuSpec(
    devfreq="/sys/devices/17000000.gp10b/devfreq/17000000.gp10b",
    of_name="gp10b",
    hz=(
        *spec.steps(114750000, 102000000, 7),
        *(854250000, 930750000, 1032750000, 1122000000, 1236750000, 1300500000),
    ),
    knext="/sys/devices/17000000.gp10b/devfreq/devfreq0",
)
_EMC_CAP = "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"


_NAMED = spec.named_modes("Jetson TX2")


def _mode(number: int, name: str) -> ModeSpec:
    mode = _NAMED[name]
    has_denver = mode.n_cpus == len(_CPUS)
    on = _CPUS if has_denver else _A57.cpus
    clusters = ("CPU_A57", "CPU_DENVER") if has_denver else ("CPU_A57",)
    cap = spec.khz_text(mode.cpu_hz)
    clocks: list[Setting] = []
    for cluster in clusters:
        clocks += [(cluster, "MIN_FREQ", "0"), (cluster, "MAX_FREQ", cap)]
    before, after = spec.gpu_settings(mode.gpu_hz)
    return ModeSpec(
        number,
        name,
        (
            *spec.core_settings(_CPUS[1:], on),
            *clocks,
            *before,
            *after,
            ("EMC", "MAX_FREQ", spec.cap_text(mode.memory_hz, "0")),
        ),
    )


TX2 = BoardSpec(
    name="tx2",
    model="quill",
    compatible=("nvidia,p2597-0000+p3310-1000", "nvidia,quill", "nvidia,tegra186"),
    serial="1420000000004",
    release="R32 (release), REVISION: 7.1, GCID: 0, BOARD: t186ref, EABI: aarch64, "
    "DATE: Sat Feb 19 17:07:00 UTC 2022",
    kernel="4.9.253-tegra",
    ubuntu="18.04",
    l4t=(32, 7),
    memory_kb=8048640,
    clusters=(_A57, _DENVER),
    l3_bytes=0,
    gpus=(_GPU,),
    gpu_folder="/sys/devices/17000000.gp10b",
    emc_hz=(
        *(204000000, 408000000, 665600000, 800000000),
        *(1062400000, 1331200000, 1600000000, 1866000000),
    ),
    emc_cap=_EMC_CAP,
    bwmgr=None,
    cactmon="/sys/kernel/actmon_avg_activity/mc_all",
    host1x="/sys/devices/13e10000.host1x",
    video=("15340000.vic", "15480000.nvdec", "154c0000.nvenc"),
    clocks=(),
    monitors=(
        MonitorSpec(
            "ina3221x",
            0,
            "0040",
            "3160000.i2c",
            0,
            (
                RailSpec("VDD_SYS_GPU", 19.08, 0.15, gpu_w=6.75, shunt_ohm=0.01),
                RailSpec("VDD_SYS_SOC", 19.08, 0.38, memory_w=1.0, shunt_ohm=0.01),
                RailSpec("VDD_4V0_WIFI", 4.8, 0.0, shunt_ohm=0.01),
            ),
        ),
        MonitorSpec(
            "ina3221x",
            0,
            "0041",
            "3160000.i2c",
            0,
            (
                RailSpec(
                    "VDD_IN",
                    19.08,
                    0.7,
                    memory_w=0.8,
                    parts=(
                        *("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI"),
                        *("VDD_SYS_CPU", "VDD_SYS_DDR"),
                    ),
                    shunt_ohm=0.01,
                ),
                RailSpec("VDD_SYS_CPU", 19.08, 0.3, cpu_w=3.5, shunt_ohm=0.01),
                RailSpec("VDD_SYS_DDR", 4.8, 0.27, memory_w=2.4, shunt_ohm=0.01),
            ),
        ),
    ),
    zones=("PLL", "MCPU", "PMIC", "Tboard", "GPU", "BCPU", "thermal", "Tdiode"),
    params=(
        spec.core_param(_CPUS),
        *spec.gpu_file_params(gates=False),
        *spec.cluster_params((_A57, _DENVER)),
        spec.gpu_param(_GPU),
        spec.cap_param("EMC", _EMC_CAP),
    ),
    modes=(
        _mode(0, "MAXN"),
        _mode(1, "MAXQ"),
        _mode(2, "MAXP_CORE_ALL"),
        _mode(3, "MAXP_CORE_ARM"),
    ),
    default=2,
    resolves=False,
    cpu0_switch=False,
    n_tpcs=0,
    n_gpcs=1,
    family="r32",
    sources=SOURCES,
)
