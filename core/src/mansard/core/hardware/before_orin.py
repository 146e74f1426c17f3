"""The modules before Orin: Xavier (tegra194), TX2 (tegra186), Nano and TX1 (tegra210)."""

from __future__ import annotations

from msgspec.structs import replace

from mansard.core.hardware import metering
from mansard.core.hardware.module import (
    CONFIGURED,
    FROM_MEMORY,
    MIB,
    PUBLISHED,
    RECORDED,
    CoreCluster,
    Module,
)

_ABSENT = "has no Super configuration"
_NO_GATING = "no power mode switches SMs off"
_SOURCES = {
    "sm": PUBLISHED,
    "n_sms": PUBLISHED,
    "n_tpcs": _NO_GATING,
    "chip_tpcs": _NO_GATING,
    "gpu_hz": PUBLISHED,
    "super_gpu_hz": _ABSENT,
    "l2_bytes": PUBLISHED,
    "memory_bus_bits": PUBLISHED,
    "memory_hz": PUBLISHED,
    "super_memory_hz": _ABSENT,
    "memory_port_bytes": "not recorded for this module",
    "cpu_clusters": RECORDED,
}
_XAVIER_SOURCES = {**_SOURCES, "n_tpcs": CONFIGURED, "chip_tpcs": CONFIGURED}


def _carmel(max_hz: float, n_pairs: int) -> tuple[CoreCluster, ...]:
    pairs = ((2 * number, 2 * number + 1) for number in range(n_pairs))
    return tuple(CoreCluster("Carmel", pair, max_hz) for pair in pairs)


def _tx2_cores(max_hz: float) -> tuple[CoreCluster, ...]:
    # CPUs 1 and 2 are the Denver cores: the ones that MAXQ switches off.
    return (
        CoreCluster("Cortex-A57", (0, 3, 4, 5), max_hz),
        CoreCluster("Denver 2", (1, 2), max_hz),
    )


AGX_XAVIER = Module(
    name="Jetson AGX Xavier",
    family="agx-xavier",
    part_numbers=("p2888-0001", "p2888-0003", "p2888-0004", "p2888-0005"),  # 16, 32, 32, 64 GB
    soc="tegra194",
    sm=72,
    n_sms=8,
    n_tpcs=4,
    chip_tpcs=4,
    gpu_hz=1377e6,
    l2_bytes=MIB // 2,
    memory_bus_bits=256,
    memory_hz=2133e6,
    cpu_clusters=_carmel(2265.6e6, 4),
    metering=metering.AGX_XAVIER,
    sources={
        **_XAVIER_SOURCES,
        "l2_bytes": FROM_MEMORY,
        "cpu_clusters": f"cores {CONFIGURED}; clock: NVIDIA's Jetson Linux Developer Guide, "
        "supported modes of AGX Xavier, MAXN: 2265.6 MHz; so MaxFreq of jetson_clocks --show",
    },
)
XAVIER_NX = Module(
    name="Jetson Xavier NX",
    family="xavier-nx",
    part_numbers=("p3668-0000", "p3668-0001", "p3668-0003"),  # developer kit, 8 GB, 16 GB
    soc="tegra194",
    sm=72,
    n_sms=6,
    n_tpcs=3,
    chip_tpcs=4,
    gpu_hz=1109.25e6,
    l2_bytes=MIB // 2,
    memory_bus_bits=128,
    memory_hz=1866e6,
    cpu_clusters=_carmel(1907.2e6, 3),
    metering=metering.ORIN_NX,
    sources={**_XAVIER_SOURCES, "gpu_hz": CONFIGURED, "cpu_clusters": CONFIGURED},
)
TX2 = Module(
    name="Jetson TX2",
    family="tx2",
    part_numbers=("p3310-1000",),
    soc="tegra186",
    sm=62,
    n_sms=2,
    n_tpcs=None,
    chip_tpcs=None,
    gpu_hz=1300e6,
    l2_bytes=MIB // 2,
    memory_bus_bits=128,
    memory_hz=1866e6,
    cpu_clusters=_tx2_cores(2035.2e6),
    metering=metering.TX2,
    sources={**_SOURCES, "l2_bytes": f"{RECORDED}: device attribute, 524,288 bytes"},
)
TX2_SMALL = replace(
    TX2,
    name="Jetson TX2 4GB or TX2i",
    part_numbers=("p3489-0888", "p3489-0000"),
    memory_hz=1600e6,
    cpu_clusters=_tx2_cores(1920e6),
    sources={**TX2.sources, "memory_hz": FROM_MEMORY, "cpu_clusters": FROM_MEMORY},
)
TX2_NX = replace(
    TX2,
    name="Jetson TX2 NX",
    part_numbers=("p3636-0001",),
    memory_hz=1600e6,
    metering=metering.TX2_NX,
    sources={**TX2.sources, "memory_hz": RECORDED},
)
NANO = Module(
    name="Jetson Nano",
    family="nano",
    part_numbers=("p3448-0000", "p3448-0002", "p3448-0003"),  # developer kit, eMMC, 2 GB
    soc="tegra210",
    sm=53,
    n_sms=1,
    n_tpcs=None,
    chip_tpcs=None,
    gpu_hz=921.6e6,
    l2_bytes=MIB // 4,
    memory_bus_bits=64,
    memory_hz=1600e6,
    cpu_clusters=(CoreCluster("Cortex-A57", (0, 1, 2, 3), 1479e6),),
    metering=metering.NANO,
    sources=_SOURCES,
)

MODULES = (AGX_XAVIER, XAVIER_NX, TX2, TX2_SMALL, TX2_NX, NANO)
