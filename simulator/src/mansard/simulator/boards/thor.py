"""Jetson AGX Thor Developer Kit under L4T r38."""

from __future__ import annotations

from mansard.simulator.boards import spec
from mansard.simulator.boards.spec import (
    BoardSpec,
    ClusterSpec,
    GpuSpec,
    ModeSpec,
    MonitorSpec,
    ParamSpec,
    RailSpec,
)

SOURCES = """
Names and ids of the modes, default 1; 14 CPUs up to 2601 MHz; the devfreq domains gpu-gpc-0
(1575 MHz), gpu-nvd-0 (1692 MHz) and bwmgr (665.6 to 4266 MHz); rails, their chips and zones:
recorded lines and nodes. 972, 1566 and 2106 MHz are observed, always of two neighbours: one
policy for each pair. VDD_GPU steps by 393 mW: 20 mA, or 40 µV of 2 mΩ, at 19.66 V, and can be
below zero. Idle (VDD_GPU 2, VDD_CPU_SOC_MSS 5.9, VIN_SYS_5V0 5.6, VIN 19.8 W) and load (37.9,
30.1, 15.5, 124.5 W) are of recorded lines. Made up: the caps of the modes (no file of this
board was at hand), the name of the PARAM that gates the GPU, the tables between the clocks that
were seen, the GPU's folder, bus numbers. The INA238 has no label: its driver gives none (Linux,
drivers/hwmon/ina238.c). The GPU is gated by a file that its driver reads when it is loaded; the
masks of the modes are those that others found with the real tool (jetpack-nixos): 512 for the
first two, 17353 for the others.
"""

_KHZ = spec.steps(972000, 54000, 31, 2601000)
_CPUS = tuple(range(14))
_CLUSTERS = tuple(
    ClusterSpec(f"CPU_V3AE_{i}", (2 * i, 2 * i + 1), _KHZ, 972000, "0xd83", 1024**2)
    for i in range(7)
)
_GPU_FOLDER = "/sys/devices/platform/bus@0/gb10b"
_GPC = GpuSpec(
    devfreq=f"{_GPU_FOLDER}/devfreq/gpu-gpc-0",
    of_name="gb10b",
    hz=spec.steps(315000000, 90000000, 15),
)
_NVD = GpuSpec(
    devfreq=f"{_GPU_FOLDER}/devfreq/gpu-nvd-0",
    of_name="gb10b",
    hz=spec.steps(315000000, 81000000, 18),
)
_CLASS = "/sys/class/devfreq"


def _devfreq_param(name: str, domain: str) -> ParamSpec:
    files = (
        ("FREQ_TABLE", "available_frequencies"),
        ("MAX_FREQ", "max_freq"),
        ("MIN_FREQ", "min_freq"),
    )
    return ParamSpec(
        "CLOCK", name, tuple((argument, f"{_CLASS}/{domain}/{file}") for argument, file in files)
    )


GATES = "/opt/nvidia/l4t-gpusetup/gpu_pg_mask"


def _mode(
    number: int, name: str, n_cpus: int, cpu_hz: int | None, gpu_hz: int | None, emc: int
) -> ModeSpec:
    gated = "512" if number <= 1 else "17353"
    on = range(n_cpus)
    return ModeSpec(
        number,
        name,
        (
            *spec.core_settings(_CPUS, on),
            ("GPU_POWER_GATING", "GPU_PG_MASK", gated),
            *spec.cpu_settings(_CLUSTERS, on, cpu_hz),
            ("GPU", "MIN_FREQ", "0"),
            ("GPU", "MAX_FREQ", spec.cap_text(gpu_hz)),
            ("GPU_NVD", "MIN_FREQ", "0"),
            ("GPU_NVD", "MAX_FREQ", spec.UNCAPPED),
            ("EMC", "MAX_FREQ", str(emc)),
        ),
    )


THOR = BoardSpec(
    name="thor",
    model="NVIDIA Jetson AGX Thor Developer Kit",
    compatible=("nvidia,p4071-0000+p3834-0008", "nvidia,p3834-0008", "nvidia,tegra264"),
    serial="1420000000005",
    release="R38 (release), REVISION: 4.0, GCID: 0, BOARD: generic, EABI: aarch64, "
    "DATE: Wed Dec 31 00:00:00 UTC 2025",
    kernel="6.8.12-tegra",
    ubuntu="24.04",
    l4t=(38, 4),
    memory_kb=128790528,
    clusters=_CLUSTERS,
    l3_bytes=16 * 1024**2,
    gpus=(_GPC, _NVD),
    gpu_folder=None,
    emc_hz=(665600000, 2133000000, 2750000000, 3200000000, 4266000000),
    emc_cap=None,
    bwmgr="/sys/devices/platform/bus@0/bwmgr/devfreq/bwmgr",
    cactmon="/sys/kernel/debug/cactmon/mc_all",
    host1x="/sys/devices/platform/bus@0/8181200000.host1x",
    video=("8188050000.vic",),
    clocks=(),
    monitors=(
        MonitorSpec(
            "ina3221",
            2,
            "0040",
            "c600000.i2c",
            3,
            (
                RailSpec("VDD_GPU", 19.656, 1.4, gpu_w=36.0, noise_w=0.4, shunt_ohm=0.002),
                RailSpec("VDD_CPU_SOC_MSS", 19.656, 4.6, cpu_w=16.0, memory_w=9.0, shunt_ohm=0.002),
                RailSpec("VIN_SYS_5V0", 19.656, 5.0, memory_w=10.0, shunt_ohm=0.002),
            ),
        ),
        MonitorSpec(
            "ina238",
            2,
            "0044",
            "c600000.i2c",
            4,
            (
                RailSpec(
                    "VIN",
                    19.656,
                    5.0,
                    gpu_w=15.0,
                    cpu_w=10.0,
                    memory_w=10.0,
                    parts=("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"),
                ),
            ),
        ),
    ),
    zones=("cpu", "tj", "soc012", "gpu", "soc345"),
    params=(
        spec.core_param(_CPUS),
        spec.file_param("GPU_POWER_GATING", "GPU_PG_MASK", GATES),
        *spec.cluster_params(_CLUSTERS, knext=False),
        _devfreq_param("GPU", "gpu-gpc-0"),
        _devfreq_param("GPU_NVD", "gpu-nvd-0"),
        _devfreq_param("EMC", "bwmgr"),
    ),
    modes=(
        _mode(0, "MAXN", 14, None, None, -1),
        _mode(1, "120W", 14, 2592000000, 1395000000, -1),
        _mode(2, "90W", 12, 2106000000, 1035000000, -1),
        _mode(3, "70W", 8, 1566000000, 855000000, 3200000000),
    ),
    default=1,
    resolves=True,
    cpu0_switch=True,
    n_tpcs=0,
    n_gpcs=3,
    family="r38",
    sources=SOURCES,
)
