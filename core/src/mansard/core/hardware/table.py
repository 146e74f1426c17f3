"""The table of Jetson modules by part number: Orin and Thor here, with those before Orin."""

from __future__ import annotations

from types import MappingProxyType

from msgspec.structs import replace

from mansard.core.hardware import before_orin, metering
from mansard.core.hardware.module import (
    CONFIGURED,
    FROM_MEMORY,
    MIB,
    PUBLISHED,
    RECORDED,
    CoreCluster,
    Module,
)

# The Orin modules (tegra234): Ampere GPU, Cortex-A78AE cores.
#
# The chip has 8 TPCs of 2 SMs; smaller modules are the same chip with some off for good.

_PORT = f"{RECORDED}: best STREAM bandwidth over the GPU's clock; the middle of the range"
_ABSENT = "has no Super configuration"
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
    metering=metering.AGX_ORIN,
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
    metering=metering.ORIN_NX,
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
    metering=metering.ORIN_NX,
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
    metering=metering.THOR,
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
        for module in (*_ORIN, *before_orin.MODULES, THOR_T5000)
        for part_number in module.part_numbers
    }
)
