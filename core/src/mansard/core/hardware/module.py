"""What is known of a Jetson module beforehand: the shape of one row of the table."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.core.hardware.metering import Metering

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
    chip_tpcs: int | None  # of the whole chip: what the bits of a gating mask stand for
    gpu_hz: float
    super_gpu_hz: float | None = None
    l2_bytes: int | None
    memory_bus_bits: int
    memory_hz: float  # of the memory controller (EMC); two transfers a cycle
    super_memory_hz: float | None = None
    memory_port_bytes: float | None = None  # that the GPU can move in one cycle of its own
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
