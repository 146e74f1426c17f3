"""Jetson Orin Nano 8GB Developer Kit ("Super") under L4T r36.4."""

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
Modes, caps, masks and one PARAM for each core: nvpmodel_p3767_0003_super.conf, which has the
GPU at /sys/devices/platform/17000000.gpu. The fastest mode is the last one. CPU table:
115200 + 76800·k kHz from 729600 to 1728000, all of them observed clocks or caps of modes; the
policies follow the chip's clusters, 4 and 2 cores. GPU table: the clocks of the modes, 102 MHz
apart. EMC: 2133 and 3199 MHz are caps of modes; 204 and 665.6 MHz as on AGX Orin. Rails,
address and zones: recorded lines of this board; idle VDD_IN 4.3, VDD_CPU_GPU_CV 0.45 and
VDD_SOC 1.4 W are theirs. VDD_CPU_GPU_CV steps by 40 mW there: 8 mA, or 40 µV of 5 mΩ, at 5 V.
Made up: the rest of the power model, which reaches 25 W with everything busy.
"""

_KHZ = spec.steps(729600, 76800, 14)
_CPUS = tuple(range(6))
_CLUSTERS = tuple(
    ClusterSpec(f"CLUSTER_{i}", cpus, _KHZ, 729600, "0xd42", 256 * 1024)
    for i, cpus in enumerate((_CPUS[:4], _CPUS[4:]))
)
# nvpmodel.conf names each core, though four of them share a clock.
_CORES = tuple(
    ClusterSpec(f"CPU_A78_{cpu}", (cpu,), _KHZ, 729600, "0xd42", 256 * 1024) for cpu in _CPUS
)
_GPU_FOLDER = "/sys/devices/platform/17000000.gpu"
_GPU = GpuSpec(
    devfreq=f"{_GPU_FOLDER}/devfreq/17000000.gpu",
    of_name="gpu",
    hz=spec.steps(306000000, 102000000, 8),
    legacy="/sys/devices/17000000.ga10b/devfreq/17000000.ga10b",
)
_EMC_CAP = "/sys/kernel/nvpmodel_clk_cap/emc"
_MASKS: tuple[Setting, ...] = (
    ("FBP_POWER_GATING", "FBP_PG_MASK", "2"),
    ("TPC_POWER_GATING", "TPC_PG_MASK", "240"),
)


_NAMED = spec.named_modes("Jetson Orin Nano 8GB Super")


def _mode(number: int, name: str) -> ModeSpec:
    mode = _NAMED[name]
    before, after = spec.gpu_settings(mode.gpu_hz, _MASKS)
    return ModeSpec(
        number,
        name,
        (
            *spec.core_settings(_CPUS, _CPUS),
            *before,
            *spec.cpu_settings(_CORES, _CPUS, mode.cpu_hz),
            *after,
            ("EMC", "MAX_FREQ", spec.cap_text(mode.memory_hz)),
        ),
    )


ORIN_NANO_SUPER = BoardSpec(
    name="orin-nano-super",
    model="NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
    compatible=("nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"),
    serial="1420000000002",
    release="R36 (release), REVISION: 4.7, GCID: 0, BOARD: generic, EABI: aarch64, "
    "DATE: Thu Sep 18 22:54:44 UTC 2025",
    kernel="5.15.148-tegra",
    ubuntu="22.04",
    l4t=(36, 4),
    memory_kb=7802880,
    clusters=_CLUSTERS,
    l3_bytes=2 * 1024**2,
    gpus=(_GPU,),
    gpu_folder=_GPU_FOLDER,
    emc_hz=(204000000, 665600000, 2133000000, 3199000000),
    emc_cap=_EMC_CAP,
    bwmgr=None,
    cactmon="/sys/kernel/debug/cactmon/mc_all",
    host1x="/sys/devices/platform/bus@0/13e00000.host1x",
    video=("15340000.vic", "15480000.nvdec"),
    clocks=(),
    monitors=(
        MonitorSpec(
            "ina3221",
            1,
            "0040",
            "c240000.i2c",
            3,
            (
                RailSpec("VDD_IN", 4.96, 2.45, memory_w=3.5, parts=("VDD_CPU_GPU_CV", "VDD_SOC")),
                RailSpec("VDD_CPU_GPU_CV", 4.96, 0.4, cpu_w=4.5, gpu_w=17.0),
                RailSpec("VDD_SOC", 4.96, 1.3, memory_w=2.5),
            ),
        ),
    ),
    zones=("cpu", "soc2", "soc0", "gpu", "tj", "soc1"),
    params=(
        spec.core_param(_CPUS),
        spec.file_param(
            "FBP_POWER_GATING",
            "FBP_PG_MASK",
            "/sys/devices/gpu.0/fbp_pg_mask",
            "/sys/devices/platform/gpu.0/fbp_pg_mask",
        ),
        *spec.gpu_file_params("/sys/devices/platform/gpu.0"),
        *spec.cluster_params(_CORES),
        spec.gpu_param(_GPU),
        spec.cap_param("EMC", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap", _EMC_CAP),
    ),
    modes=(
        _mode(0, "15W"),
        _mode(1, "25W"),
        _mode(2, "MAXN_SUPER"),
    ),
    default=1,
    resolves=True,
    cpu0_switch=True,
    n_tpcs=8,
    n_gpcs=1,
    family="r36",
    sources=SOURCES,
)
