"""The Thor module (tegra264): Blackwell GPU, Neoverse-V3AE cores."""

from __future__ import annotations

from mansard.core.hardware import metering
from mansard.core.hardware.module import MIB, PUBLISHED, RECORDED, CoreCluster, Module

_ABSENT = "has no Super configuration"
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

MODULES = (THOR_T5000,)
