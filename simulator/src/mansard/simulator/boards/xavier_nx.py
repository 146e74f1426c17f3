"""Jetson Xavier NX Developer Kit under L4T r35."""

from __future__ import annotations

from mansard.simulator.boards import spec
from mansard.simulator.boards.spec import (
    BoardSpec,
    ClockSpec,
    ClusterSpec,
    GpuSpec,
    ModeSpec,
    MonitorSpec,
    ParamSpec,
    RailSpec,
    Setting,
)

SOURCES = """
Modes, caps, masks, nodes and the limits of VDD_IN: nvpmodel_t194_p3668.conf (there
VDDIN_OC_LIMIT is on bus 7, as under r32; r35 has the monitor on bus 1). CPU table:
115200 + 76800·k kHz from 1190400, the lowest of all modes, to 1907200, the highest. GPU table:
510, 803.25 and 1109.25 MHz are caps of modes; the rest is made up at 51 or 102 MHz apart. EMC:
1600 and 1866 MHz are caps of modes, the rest is made up. Rails, address, zones: recorded lines
(VDD_IN 5.1 to 14.7 W, VDD_CPU_GPU_CV 0.7 to 10.9 W, VDD_SOC 1.1 to 1.4 W). Made up: highest
clocks of the accelerators (those of the 20W modes), shunts, the rest of the power model.
"""

_KHZ = spec.steps(1190400, 76800, 10, 1907200)
_CPUS = tuple(range(6))
_CLUSTERS = tuple(
    ClusterSpec(f"CPU_DENVER_{i}", (2 * i, 2 * i + 1), _KHZ, 1190400, "0x004", 2 * 1024**2)
    for i in range(3)
)
_GPU = GpuSpec(
    devfreq="/sys/devices/17000000.gv11b/devfreq/17000000.gv11b",
    of_name="gv11b",
    hz=(
        *(114750000, 204000000, 306000000, 408000000, 510000000, 599250000, 701250000),
        *spec.steps(803250000, 51000000, 7),
    ),
)
_HOST = "/sys/devices/platform/13e10000.host1x"
# Name, node, and its cap in the modes of 10, 15 and 20 W.
_CAPS: tuple[tuple[str, str, int, int, int], ...] = (
    ("NAFLL_DLA", "15880000.nvdla0/acm/clk_cap/nafll_dla", 896000000, 1100800000, 1100800000),
    (
        "NAFLL_DLA_FALCON",
        "15880000.nvdla0/acm/clk_cap/nafll_dla_falcon",
        524800000,
        640000000,
        640000000,
    ),
    ("DLA0_CORE", "15880000.nvdla0/acm/clk_cap/dla0_core", 896000000, 1100800000, 1100800000),
    ("DLA1_CORE", "158c0000.nvdla1/acm/clk_cap/dla1_core", 896000000, 1100800000, 1100800000),
    ("DLA0_FALCON", "15880000.nvdla0/acm/clk_cap/dla0_falcon", 524800000, 640000000, 640000000),
    ("DLA1_FALCON", "158c0000.nvdla1/acm/clk_cap/dla1_falcon", 524800000, 640000000, 640000000),
    ("NALL_PVA_VPS", "16000000.pva0/acm/clk_cap/nafll_pva_vps", 550400000, 819200000, 819200000),
    ("NAFLL_PVA_CORE", "16000000.pva0/acm/clk_cap/nafll_pva_core", 409600000, 601600000, 601600000),
    ("PVA0_VPS0", "16000000.pva0/acm/clk_cap/pva0_vps0", 550400000, 819200000, 819200000),
    ("PVA0_VPS1", "16000000.pva0/acm/clk_cap/pva0_vps1", 550400000, 819200000, 819200000),
    ("PVA1_VPS0", "16800000.pva1/acm/clk_cap/pva1_vps0", 550400000, 819200000, 819200000),
    ("PVA1_VPS1", "16800000.pva1/acm/clk_cap/pva1_vps1", 550400000, 819200000, 819200000),
    ("PVA0_AXI", "16000000.pva0/acm/clk_cap/pva0_axi", 409600000, 601600000, 601600000),
    ("PVA1_AXI", "16800000.pva1/acm/clk_cap/pva1_axi", 409600000, 601600000, 601600000),
    (
        "CVNAS",
        "/sys/devices/platform/14000000.tegra-cvnas/clk_cap",
        460800000,
        576000000,
        576000000,
    ),
    ("NVDEC", "15480000.nvdec/acm/clk_cap/nvdec", 665600000, 665600000, 793600000),
    ("NVDEC1", "15140000.nvdec1/acm/clk_cap/nvdec1", 665600000, 665600000, 793600000),
    ("NVENC", "154c0000.nvenc/acm/clk_cap/nvenc", 499200000, 499200000, 729600000),
    ("NVENC1", "15a80000.nvenc1/acm/clk_cap/nvenc1", 499200000, 499200000, 729600000),
    ("NVJPG", "15380000.nvjpg/acm/clk_cap/nvjpg", 371200000, 371200000, 460800000),
    ("SE1", "15810000.se/acm/clk_cap/se", 473600000, 473600000, 704000000),
    ("SE2", "15820000.se/acm/clk_cap/se", 473600000, 473600000, 704000000),
    ("SE3", "15830000.se/acm/clk_cap/se", 473600000, 473600000, 704000000),
    ("SE4", "15840000.se/acm/clk_cap/se", 473600000, 473600000, 704000000),
)
_CLOCKS = tuple(
    ClockSpec(name, node if node.startswith("/") else f"{_HOST}/{node}", high)
    for name, node, _, _, high in _CAPS
)
_MASK: tuple[Setting, ...] = (("TPC_POWER_GATING", "TPC_PG_MASK", "1"),)
_CAP_COLUMN = {10: 2, 15: 3, 20: 4}


_NAMED = spec.named_modes("Jetson Xavier NX")


def _mode(number: int, watts: int, kind: str) -> ModeSpec:
    mode = _NAMED[f"{watts}W_{kind}"]
    on = range(mode.n_cpus)
    before, after = spec.gpu_settings(mode.gpu_hz, _MASK)
    column = _CAP_COLUMN[watts]
    return ModeSpec(
        number,
        f"MODE_{mode.name}",
        (
            *spec.core_settings(_CPUS, on),
            *before,
            *spec.cpu_settings(_CLUSTERS, on, mode.cpu_hz),
            *after,
            ("EMC", "MAX_FREQ", spec.cap_text(mode.memory_hz)),
            *((cap[0], "MAX_FREQ", str(cap[column])) for cap in _CAPS),
            ("VDDIN_OC_LIMIT", "WARN", "4000" if watts == 20 else "3000"),
            ("VDDIN_OC_LIMIT", "CRIT", "5000"),
        ),
    )


XAVIER_NX = BoardSpec(
    name="xavier-nx",
    model="NVIDIA Jetson Xavier NX Developer Kit",
    compatible=("nvidia,p3449-0000+p3668-0000", "nvidia,p3668-0000", "nvidia,tegra194"),
    serial="1420000000003",
    release="R35 (release), REVISION: 4.1, GCID: 0, BOARD: t186ref, EABI: aarch64, "
    "DATE: Tue Aug  1 19:57:35 UTC 2023",
    kernel="5.10.120-tegra",
    ubuntu="20.04",
    l4t=(35, 4),
    memory_kb=7018496,
    clusters=_CLUSTERS,
    l3_bytes=4 * 1024**2,
    gpus=(_GPU,),
    gpu_folder="/sys/devices/17000000.gv11b",
    emc_hz=(
        *(204000000, 408000000, 665600000, 800000000),
        *(1065600000, 1331200000, 1600000000, 1866000000),
    ),
    emc_cap="/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
    bwmgr=None,
    cactmon="/sys/kernel/debug/cactmon/mc_all",
    host1x=_HOST,
    video=("15340000.vic",),
    clocks=_CLOCKS,
    monitors=(
        MonitorSpec(
            "ina3221",
            1,
            "0040",
            "platform/c240000.i2c",
            3,
            (
                RailSpec(
                    "VDD_IN",
                    5.0,
                    2.2,
                    memory_w=1.6,
                    parts=("VDD_CPU_GPU_CV", "VDD_SOC"),
                    max_ma=3000,
                    crit_ma=5000,
                ),
                RailSpec("VDD_CPU_GPU_CV", 5.0, 0.6, cpu_w=4.5, gpu_w=10.0),
                RailSpec("VDD_SOC", 5.0, 1.0, memory_w=0.5),
            ),
        ),
    ),
    zones=("AUX", "CPU", "AO", "GPU", "PMIC"),
    params=(
        spec.core_param(_CPUS),
        *spec.gpu_file_params(),
        *spec.cluster_params(_CLUSTERS),
        spec.gpu_param(_GPU),
        spec.cap_param("EMC", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"),
        *spec.clock_params(_CLOCKS),
        ParamSpec(
            "HWMON",
            "VDDIN_OC_LIMIT",
            (
                ("WARN", "/sys/devices/platform/c240000.i2c/i2c-1/1-0040/hwmon curr1_max"),
                ("CRIT", "/sys/devices/platform/c240000.i2c/i2c-1/1-0040/hwmon curr1_crit"),
            ),
        ),
    ),
    modes=(
        _mode(0, 15, "2CORE"),
        _mode(1, 15, "4CORE"),
        _mode(2, 15, "6CORE"),
        _mode(3, 10, "2CORE"),
        _mode(4, 10, "4CORE"),
        _mode(5, 10, "DESKTOP"),
        _mode(6, 20, "2CORE"),
        _mode(7, 20, "4CORE"),
        _mode(8, 20, "6CORE"),
    ),
    default=5,
    resolves=True,
    cpu0_switch=True,
    n_tpcs=4,
    n_gpcs=1,
    family="r35",
    sources=SOURCES,
)
