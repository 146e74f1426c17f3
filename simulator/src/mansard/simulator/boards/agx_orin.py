"""Jetson AGX Orin 64GB Developer Kit under L4T r36.4."""

from __future__ import annotations

from mansard.simulator.boards import spec
from mansard.simulator.boards.spec import (
    BoardSpec,
    ClockSpec,
    ClusterSpec,
    GpuSpec,
    ModeSpec,
    MonitorSpec,
    RailSpec,
)

SOURCES = """
Modes, caps, masks: the board's nvpmodel_p3701_0000.conf and its dump by ``nvpmodel -p
--verbose``; on r36 an uncapped EMC is -1 where r35 has 0. CPU table: 115200 + 76800·k kHz, up
to 2201600 and not below 729600, as all observed clocks fit. GPU table: the clocks of the
modes and the 102 MHz between them. EMC: 204 and 3199 MHz are seen in ``jetson_clocks
--show``, 2133 MHz in a mode, 665.6 MHz is made up. DLA, PVA: highest clocks from
``jetson_clocks --show``. VDD_GPU_SOC and VDD_CPU_CV step by 398 mW in recorded lines: 20 mA, or
40 µV of 2 mΩ, at 19.9 V. Rails, addresses, zones: recorded tegrastats lines and nodes.
Made up: the other shunts, current limits, and the power model, which meets
the recorded idle (VDD_GPU_SOC 2.4 W, VDD_CPU_CV 0.4 W, VIN_SYS_5V0 3.5 W), all cores at
2.2 GHz (VDD_CPU_CV 14.3 W) and a busy GPU at MAXN (VDD_GPU_SOC 35.8 W).
"""

_KHZ = spec.steps(729600, 76800, 20, 2201600)
_CLUSTERS = tuple(
    ClusterSpec(f"CPU_A78_{i}", tuple(range(4 * i, 4 * i + 4)), _KHZ, 729600, "0xd42", 256 * 1024)
    for i in range(3)
)
_CPUS = tuple(range(12))
_GPU = GpuSpec(
    devfreq="/sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu",
    of_name="gpu",
    hz=tuple(round(mhz * 1e6) for mhz in (*range(306, 1300, 102), 1300.5)),
    legacy="/sys/devices/17000000.ga10b/devfreq/17000000.ga10b",
)
_HOST = "/sys/devices/platform/bus@0/13e00000.host1x"
_CLOCKS = (
    ClockSpec("DLA0_CORE", f"{_HOST}/15880000.nvdla0/acm/clk_cap/dla0_core", 1600000000),
    ClockSpec("DLA0_FALCON", f"{_HOST}/15880000.nvdla0/acm/clk_cap/dla0_falcon", 844800000),
    ClockSpec("DLA1_CORE", f"{_HOST}/158c0000.nvdla1/acm/clk_cap/dla1_core", 1600000000),
    ClockSpec("DLA1_FALCON", f"{_HOST}/158c0000.nvdla1/acm/clk_cap/dla1_falcon", 844800000),
    ClockSpec("PVA0_VPS", f"{_HOST}/16000000.pva0/acm/clk_cap/pva0_vps", 1152000000),
    ClockSpec("PVA0_AXI", f"{_HOST}/16000000.pva0/acm/clk_cap/pva0_cpu_axi", 832000000),
)
_EMC_CAP = "/sys/kernel/nvpmodel_clk_cap/emc"


_NAMED = spec.named_modes("Jetson AGX Orin 64GB")


def _mode(
    number: int,
    name: str,
    clocks_hz: tuple[int, int, int, int] | None,  # DLA core, DLA falcon, PVA VPS, PVA AXI
) -> ModeSpec:
    mode = _NAMED[name.removeprefix("MODE_")]
    on = range(mode.n_cpus)
    gated = 256 - 2 ** (mode.n_sms // 2)  # the upper of 8 TPCs
    before, after = spec.gpu_settings(
        mode.gpu_hz, (("TPC_POWER_GATING", "TPC_PG_MASK", str(gated)),)
    )
    core, falcon, vps, axi = clocks_hz or (-1, -1, -1, -1)
    names = ("DLA0_CORE", "DLA1_CORE", "DLA0_FALCON", "DLA1_FALCON", "PVA0_VPS", "PVA0_AXI")
    caps = (core, core, falcon, falcon, vps, axi)
    return ModeSpec(
        number,
        name,
        (
            *spec.core_settings(_CPUS, on),
            *before,
            *spec.cpu_settings(_CLUSTERS, on, mode.cpu_hz),
            *after,
            ("EMC", "MAX_FREQ", spec.cap_text(mode.memory_hz)),
            *((clock, "MAX_FREQ", str(cap)) for clock, cap in zip(names, caps, strict=True)),
        ),
    )


AGX_ORIN = BoardSpec(
    name="agx-orin",
    model="NVIDIA Jetson AGX Orin Developer Kit",
    compatible=("nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234"),
    serial="1420000000001",
    release="R36 (release), REVISION: 4.7, GCID: 0, BOARD: generic, EABI: aarch64, "
    "DATE: Thu Sep 18 22:54:44 UTC 2025",
    kernel="5.15.148-tegra",
    ubuntu="22.04",
    l4t=(36, 4),
    memory_kb=64286720,
    clusters=_CLUSTERS,
    l3_bytes=2 * 1024**2,
    gpus=(_GPU,),
    gpu_folder="/sys/devices/platform/bus@0/17000000.gpu",
    emc_hz=(204000000, 665600000, 2133000000, 3199000000),
    emc_cap=_EMC_CAP,
    bwmgr=None,
    cactmon="/sys/kernel/debug/cactmon/mc_all",
    host1x=_HOST,
    video=("15340000.vic", "15480000.nvdec", "154c0000.nvenc"),
    clocks=_CLOCKS,
    monitors=(
        MonitorSpec(
            "ina3221",
            1,
            "0040",
            "c240000.i2c",
            3,
            (
                RailSpec("VDD_GPU_SOC", 19.904, 2.4, gpu_w=30.0, memory_w=3.4, shunt_ohm=0.002),
                RailSpec("VDD_CPU_CV", 19.904, 0.4, cpu_w=13.9, shunt_ohm=0.002),
                RailSpec("VIN_SYS_5V0", 5.0, 3.5, memory_w=2.3),
            ),
        ),
        MonitorSpec(
            "ina3221",
            1,
            "0041",
            "c240000.i2c",
            4,
            (None, RailSpec("VDDQ_VDD2_1V8AO", 5.0, 0.3, memory_w=2.2), None),
        ),
    ),
    zones=("cpu", "tboard", "soc2", "tdiode", "soc0", "gpu", "tj", "soc1"),
    params=(
        spec.core_param(_CPUS),
        *spec.gpu_file_params("/sys/devices/platform/gpu.0"),
        *spec.cluster_params(_CLUSTERS),
        spec.gpu_param(_GPU),
        spec.cap_param("EMC", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap", _EMC_CAP),
        *spec.clock_params(_CLOCKS),
    ),
    modes=(
        _mode(0, "MAXN", None),
        _mode(1, "MODE_15W", (614400000, 294400000, 307200000, 217600000)),
        _mode(2, "MODE_30W", (1369600000, 729600000, 512000000, 358400000)),
        _mode(3, "MODE_50W", (1369600000, 729600000, 704000000, 486400000)),
    ),
    default=2,
    resolves=True,
    cpu0_switch=True,
    n_tpcs=8,
    n_gpcs=2,
    family="r36",
    sources=SOURCES,
)
