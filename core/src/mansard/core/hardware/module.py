"""What is known of a Jetson module beforehand: its row of the table, its power rails; JetPacks.

Labels of rails: recorded tegrastats lines. Totals: the r36 developer guide's description of the
power monitors for AGX Orin ("VDDQ_VDD2_1V8AO" is fed from "VIN_SYS_5V0"), and the
recorded lines, where VDD_IN or VIN always exceeds the sum of the others. Measured at the
wall, boards take 10 to 15 % more than these totals (reports of users).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

# Source: NVIDIA's JetPack archive, as public tools and projects repeat it (jetson_stats,
# jetson-containers, jetpack-nixos); where several name a release they agree, 28.2 comes from
# jetson_stats alone. A release that is not here stays unknown: it is never taken for its neighbour.
# Without trailing ".0": 36.3.0 is "36.3". DP: developer preview.
_JETPACKS = MappingProxyType(
    {
        "28.1": "3.1",
        "28.2": "3.2",
        "28.4": "3.3.3",
        "31.1": "4.1.1",
        "32.1": "4.2",
        "32.2": "4.2.1",
        "32.2.1": "4.2.2",
        "32.2.3": "4.2.3",
        "32.3.1": "4.3",
        "32.4.2": "4.4 DP",
        "32.4.3": "4.4",
        "32.4.4": "4.4.1",
        "32.5": "4.5",
        "32.5.1": "4.5.1",
        "32.5.2": "4.5.1",
        "32.6.1": "4.6",
        "32.7.1": "4.6.1",
        "32.7.2": "4.6.2",
        "32.7.3": "4.6.3",
        "32.7.4": "4.6.4",
        "32.7.5": "4.6.5",
        "32.7.6": "4.6.6",
        "34.1": "5.0 DP",
        "34.1.1": "5.0.1 DP",
        "35.1": "5.0.2",
        "35.2.1": "5.1",
        "35.3.1": "5.1.1",
        "35.4.1": "5.1.2",
        "35.5": "5.1.3",
        "35.6": "5.1.4",
        "35.6.1": "5.1.5",
        "35.6.2": "5.1.5",
        "36.2": "6.0 DP",
        "36.3": "6.0",
        "36.4": "6.1",
        "36.4.3": "6.2",
        "36.4.4": "6.2.1",
        "36.4.7": "6.2.1",
        "36.5": "6.2.2",
        "38.2": "7.0",
        "38.2.1": "7.0",
        "38.4": "7.1",
        "39.2": "7.2",
        "39.2.1": "7.2.1",
    }
)


def jetpack_of(l4t: str) -> str | None:
    """The JetPack of release ``36.4.7`` or ``36.3.0``; None where it is not known."""
    while l4t.endswith(".0"):
        l4t = l4t[:-2]
    return _JETPACKS.get(l4t)


class Metering(msgspec.Struct, frozen=True, kw_only=True):
    """``total_rails`` add up to the total; ``part_rails`` lie inside it, never added."""

    rails: tuple[str, ...]  # in the board's order
    total_rails: tuple[str, ...]
    rule: str
    boundary: str
    source: str

    @property
    def part_rails(self) -> tuple[str, ...]:
        """Rails that the total holds already: together they cannot exceed it."""
        return tuple(rail for rail in self.rails if rail not in self.total_rails)


_WALL = "the wall is 10 to 15 % higher"
_RECORDED = "labels and total recorded on boards by others"

ORIN_NX_RAILS = Metering(
    rails=("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"),
    total_rails=("VDD_IN",),
    rule="VDD_IN alone; it holds VDD_CPU_GPU_CV and VDD_SOC",
    boundary=f"module input; the carrier board is left out; {_WALL}",
    source=_RECORDED,
)
AGX_ORIN_RAILS = Metering(
    rails=("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"),
    total_rails=("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    rule="VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0; VDDQ_VDD2_1V8AO (memory) is fed from "
    "VIN_SYS_5V0 and not added",
    boundary=f"sum of module rails; the 19 V input is not metered; {_WALL}",
    source="labels recorded on boards by others; the sum by NVIDIA's description of the rails",
)
AGX_XAVIER_RAILS = Metering(
    rails=("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    total_rails=("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    rule="GPU + CPU + SOC + CV + VDDRQ + SYS5V; no rail holds the others",
    boundary=f"sum of module rails; the board's input is not metered; {_WALL}",
    source=_RECORDED,
)
_TX2_WIFI = "VDD_4V0_WIFI"
TX2_RAILS = Metering(
    rails=("VDD_SYS_GPU", "VDD_SYS_SOC", _TX2_WIFI, "VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"),
    total_rails=("VDD_IN",),
    rule="VDD_IN alone; it holds the other rails",
    boundary=f"module input; the carrier board is left out; {_WALL}",
    source=_RECORDED,
)
TX2_NX_RAILS = msgspec.structs.replace(
    TX2_RAILS, rails=tuple(r for r in TX2_RAILS.rails if r != _TX2_WIFI)
)
NANO_RAILS = Metering(
    rails=("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"),
    total_rails=("POM_5V_IN",),
    rule="POM_5V_IN alone; it holds POM_5V_GPU and POM_5V_CPU (some carriers of others swap "
    "the labels, so that a part exceeds the total)",
    boundary=f"module input; the carrier board is left out; {_WALL}",
    source=_RECORDED,
)
THOR_RAILS = Metering(
    rails=("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0", "VIN"),
    total_rails=("VIN",),
    rule="VIN alone; it holds VDD_GPU, VDD_CPU_SOC_MSS and VIN_SYS_5V0",
    boundary=f"board input; the power supply is left out; {_WALL}",
    source=_RECORDED,
)

_KINDS = (
    ORIN_NX_RAILS,
    AGX_ORIN_RAILS,
    AGX_XAVIER_RAILS,
    TX2_RAILS,
    TX2_NX_RAILS,
    NANO_RAILS,
    THOR_RAILS,
)


def metering_of(labels: Iterable[str]) -> Metering | None:
    """How the rails called ``labels`` make a total; None where they are not those of one board.

    Every rail that the total adds has to be among them; parts may be missing.
    """
    names = frozenset(labels)
    fitting = [kind for kind in _KINDS if set(kind.total_rails) <= names <= set(kind.rails)]
    totals = {kind.total_rails for kind in fitting}
    return fitting[0] if len(totals) == 1 else None


# Where a number comes from. A row names one of these for every number it holds.
PUBLISHED = "published by NVIDIA for the module"
RECORDED = "recorded on a board by others"
CONFIGURED = "NVIDIA's nvpmodel configuration of the module"
FROM_MEMORY = "from memory, not confirmed"

MIB = 1 << 20


class CoreCluster(msgspec.Struct, frozen=True):
    """CPU cores of one kind that share a clock. ``max_hz``: their highest in any mode."""

    core: str
    cpus: tuple[int, ...]
    max_hz: float


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A Jetson module. What the system reports at run time wins over every number here.

    ``gpu_hz`` and ``memory_hz`` are the highest clocks of the module as it was first
    sold, ``super_gpu_hz`` and ``super_memory_hz`` those of the later "Super"
    configuration. A number that is None does not exist or is not known;
    ``sources`` says which, and for every other number where it comes from.
    """

    name: str
    family: str  # short name, shared by modules that differ in memory or clocks alone
    part_numbers: tuple[str, ...]  # P-number and SKU, as the device tree has them
    soc: str
    sm: int  # CUDA's compute capability: 87 is 8.7
    n_sms: int
    n_tpcs: int | None  # groups of SMs that a power mode can switch off
    chip_tpcs: int | None  # of the whole chip: the bits of a gating mask
    gpu_hz: float
    super_gpu_hz: float | None = None
    l2_bytes: int | None
    memory_bus_bits: int
    memory_hz: float  # of the memory controller (EMC); two transfers a cycle
    super_memory_hz: float | None = None
    memory_port_bytes: float | None = None  # that the GPU can move per cycle of its clock
    cpu_clusters: tuple[CoreCluster, ...]
    metering: Metering
    sources: Mapping[str, str]

    @property
    def n_cpus(self) -> int:
        """CPU cores on the module, whether or not a mode switches them off."""
        return sum(len(cluster.cpus) for cluster in self.cpu_clusters)

    @property
    def highest_gpu_hz(self) -> float:
        """The GPU's highest clock in any configuration."""
        return self.super_gpu_hz or self.gpu_hz

    @property
    def highest_memory_hz(self) -> float:
        """The memory controller's highest clock in any configuration."""
        return self.super_memory_hz or self.memory_hz

    @property
    def rails(self) -> tuple[str, ...]:
        """The rails that the board meters, by its own labels."""
        return self.metering.rails

    @property
    def total_rails(self) -> tuple[str, ...]:
        """The rails that add up to the total."""
        return self.metering.total_rails

    @property
    def total_rule(self) -> str:
        """How the total is formed, in words."""
        return self.metering.rule

    @property
    def boundary(self) -> str:
        """What the total covers, and what it leaves out."""
        return self.metering.boundary
