"""The table of Jetson modules by part number, from TX1 (tegra210) to Thor (tegra264)."""

from __future__ import annotations

from types import MappingProxyType

from msgspec.structs import replace

from mansard.core.hardware.module import (
    AGX_ORIN_RAILS,
    AGX_XAVIER_RAILS,
    CONFIGURED,
    FROM_MEMORY,
    MIB,
    NANO_RAILS,
    ORIN_NX_RAILS,
    PUBLISHED,
    RECORDED,
    THOR_RAILS,
    TX2_NX_RAILS,
    TX2_RAILS,
    CoreCluster,
    Module,
)

_ABSENT = "has no Super configuration"
_NO_GATING = "no power mode switches SMs off"
_OLDER_SOURCES = {
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
_XAVIER_SOURCES = {**_OLDER_SOURCES, "n_tpcs": CONFIGURED, "chip_tpcs": CONFIGURED}


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
    metering=AGX_XAVIER_RAILS,
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
    metering=ORIN_NX_RAILS,
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
    metering=TX2_RAILS,
    sources={**_OLDER_SOURCES, "l2_bytes": f"{RECORDED}: device attribute, 524,288 bytes"},
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
    metering=TX2_NX_RAILS,
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
    metering=NANO_RAILS,
    sources=_OLDER_SOURCES,
)

_BEFORE_ORIN = (AGX_XAVIER, XAVIER_NX, TX2, TX2_SMALL, TX2_NX, NANO)


# The Orin modules (tegra234): Ampere GPU, Cortex-A78AE cores.
#
# The chip has 8 TPCs of 2 SMs; smaller modules are the same chip with some off for good.

_PORT = f"{RECORDED}: best STREAM bandwidth over the GPU's clock; the middle of the range"
_SOURCES = {
    "sm": PUBLISHED,
    "n_sms": PUBLISHED,
    "n_tpcs": CONFIGURED,
    "chip_tpcs": CONFIGURED,
    "gpu_hz": PUBLISHED,
    "super_gpu_hz": PUBLISHED,
    "l2_bytes": PUBLISHED,
    "memory_bus_bits": PUBLISHED,
    "memory_hz": PUBLISHED,
    "super_memory_hz": PUBLISHED,
    "memory_port_bytes": _PORT,
    "cpu_clusters": RECORDED,
}
_AGX_L2 = f"{RECORDED}: device attribute, 4,194,304 bytes"
_NANO_L2 = "device attribute in profiles of an Orin Nano: 2,097,152 bytes"
_NX_L2 = "taken to be the Orin Nano's, whose chip it shares; not read on a board"


def _clusters(max_hz: float, *sizes: int) -> tuple[CoreCluster, ...]:
    # Cluster n begins at CPU 4n, as the paths in NVIDIA's configurations show.
    return tuple(
        CoreCluster("Cortex-A78AE", tuple(range(4 * number, 4 * number + size)), max_hz)
        for number, size in enumerate(sizes)
    )


AGX_ORIN_64 = Module(
    name="Jetson AGX Orin 64GB",
    family="agx-orin",
    part_numbers=("p3701-0005",),
    soc="tegra234",
    sm=87,
    n_sms=16,
    n_tpcs=8,
    chip_tpcs=8,
    gpu_hz=1300.5e6,
    l2_bytes=4 * MIB,
    memory_bus_bits=256,
    memory_hz=3199e6,
    memory_port_bytes=204.5,  # 200 to 209 seen
    cpu_clusters=_clusters(2201.6e6, 4, 4, 4),
    metering=AGX_ORIN_RAILS,
    sources={
        **_SOURCES,
        "gpu_hz": RECORDED,
        "super_gpu_hz": _ABSENT,
        "super_memory_hz": _ABSENT,
        "l2_bytes": _AGX_L2,
    },
)
# The first developer kit's: 32 GB of memory, but the GPU and the cores of the 64GB module.
# Early releases call the 64GB kit so too, in all but "chosen/ids".
AGX_ORIN_KIT = replace(
    AGX_ORIN_64, name="Jetson AGX Orin developer kit", part_numbers=("p3701-0000",)
)
AGX_ORIN_INDUSTRIAL = replace(
    AGX_ORIN_64,
    name="Jetson AGX Orin Industrial",
    part_numbers=("p3701-0008",),
    gpu_hz=1185e6,
    cpu_clusters=_clusters(1971.2e6, 4, 4, 4),
    sources={**AGX_ORIN_64.sources, "gpu_hz": FROM_MEMORY, "cpu_clusters": FROM_MEMORY},
)
AGX_ORIN_32 = replace(
    AGX_ORIN_64,
    name="Jetson AGX Orin 32GB",
    part_numbers=("p3701-0004",),
    n_sms=14,
    n_tpcs=7,
    gpu_hz=930e6,
    cpu_clusters=_clusters(2188.8e6, 4, 4),
    sources={
        **AGX_ORIN_64.sources,
        "gpu_hz": FROM_MEMORY,
        "l2_bytes": FROM_MEMORY,
        "cpu_clusters": f"cores {CONFIGURED}; clock {FROM_MEMORY}",
        "memory_port_bytes": "taken to be that of the 64GB module",
    },
)
ORIN_NX_16 = Module(
    name="Jetson Orin NX 16GB",
    family="orin-nx",
    part_numbers=("p3767-0000",),
    soc="tegra234",
    sm=87,
    n_sms=8,
    n_tpcs=4,
    chip_tpcs=8,
    gpu_hz=918e6,
    super_gpu_hz=1173e6,
    l2_bytes=2 * MIB,
    memory_bus_bits=128,
    memory_hz=3199e6,
    memory_port_bytes=102.0,  # 97 to 107 seen
    cpu_clusters=_clusters(1984e6, 4, 4),
    metering=ORIN_NX_RAILS,
    sources={**_SOURCES, "l2_bytes": _NX_L2, "super_memory_hz": "Super leaves it as it is"},
)
ORIN_NX_8 = replace(
    ORIN_NX_16,
    name="Jetson Orin NX 8GB",
    part_numbers=("p3767-0001",),
    gpu_hz=765e6,
    cpu_clusters=_clusters(1984e6, 4, 2),
)
ORIN_NANO_8 = Module(
    name="Jetson Orin Nano 8GB",
    family="orin-nano",
    part_numbers=("p3767-0003", "p3767-0005"),  # 0005: the developer kit's, with a card slot
    soc="tegra234",
    sm=87,
    n_sms=8,
    n_tpcs=4,
    chip_tpcs=8,
    gpu_hz=625e6,
    super_gpu_hz=1020e6,
    l2_bytes=2 * MIB,
    memory_bus_bits=128,
    memory_hz=2133e6,
    super_memory_hz=3199e6,
    memory_port_bytes=102.0,  # 97 to 107 seen
    cpu_clusters=_clusters(1728e6, 4, 2),
    metering=ORIN_NX_RAILS,
    sources={**_SOURCES, "l2_bytes": _NANO_L2},
)
ORIN_NANO_4 = replace(
    ORIN_NANO_8,
    name="Jetson Orin Nano 4GB",
    part_numbers=("p3767-0004",),
    n_sms=4,
    n_tpcs=2,
    memory_bus_bits=64,
    memory_port_bytes=None,
    sources={
        **ORIN_NANO_8.sources,
        "l2_bytes": FROM_MEMORY,
        "memory_port_bytes": "not recorded for this module",
        "cpu_clusters": "taken to be those of the 8GB module",
    },
)

_ORIN = (
    AGX_ORIN_64,
    AGX_ORIN_KIT,
    AGX_ORIN_INDUSTRIAL,
    AGX_ORIN_32,
    ORIN_NX_16,
    ORIN_NX_8,
    ORIN_NANO_8,
    ORIN_NANO_4,
)


_GATING = "what the bits of its gating mask stand for is not published"

THOR_T5000 = Module(
    name="Jetson Thor T5000",
    family="thor",
    part_numbers=("p3834-0008",),
    soc="tegra264",
    sm=110,  # CUDA 12.9 calls it 101
    n_sms=20,
    n_tpcs=10,
    chip_tpcs=None,
    gpu_hz=1575e6,
    l2_bytes=32 * MIB,
    memory_bus_bits=256,
    memory_hz=4266e6,
    # Recorded lines show single cores at clocks of their own; which share one is not known.
    cpu_clusters=(CoreCluster("Neoverse-V3AE", tuple(range(14)), 2601e6),),
    metering=THOR_RAILS,
    sources={
        "sm": PUBLISHED,
        "n_sms": PUBLISHED,
        "n_tpcs": PUBLISHED,
        "chip_tpcs": _GATING,
        "gpu_hz": RECORDED,
        "super_gpu_hz": _ABSENT,
        "l2_bytes": PUBLISHED,
        "memory_bus_bits": PUBLISHED,
        "memory_hz": RECORDED,
        "super_memory_hz": _ABSENT,
        "memory_port_bytes": "not recorded for this module",
        "cpu_clusters": RECORDED,
    },
)


MODULES = MappingProxyType(
    {
        part_number: module
        for module in (*_ORIN, *_BEFORE_ORIN, THOR_T5000)
        for part_number in module.part_numbers
    }
)
