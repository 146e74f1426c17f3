"""Which machine it is, and the power mode it is in."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema


class Gpu(Record, frozen=True, kw_only=True):
    """The GPU that kernels run on, as it is now: a power mode or a MIG slice can shrink it."""

    schema: ClassVar[Schema] = Schema("gpu", 1)

    name: str
    sm: int  # compute capability: 87 is 8.7
    n_sms: int  # streaming multiprocessors that are on
    l1_bytes: int | None  # unified data cache of one SM, shared memory included
    l2_bytes: int | None
    memory_bytes: int | None
    memory_bus_bits: int | None
    memory_hz: float | None  # highest clock of the memory; two transfers a cycle
    gpu_hz: float | None  # highest clock of the SMs
    is_integrated: bool  # shares its memory with the CPU
    ecc: bool | None  # error correction of the memory
    mig: str | None  # profile of the MIG slice, such as 1g.12gb
    driver_cuda: str | None  # the newest CUDA that the driver runs
    runtime_cuda: str | None  # the CUDA that the kernels were built with


class Cache(Record, frozen=True, kw_only=True):
    """One level of data cache as the system reports it."""

    level: int
    size_bytes: int  # of one instance
    line_bytes: int | None
    shared_cpus: tuple[int, ...]  # the CPUs that share the first CPU's instance
    n_instances: int  # over the CPUs we may use


class Board(Record, frozen=True, kw_only=True):
    """What a Jetson says of itself: read from its device tree and its release file."""

    module: str | None  # by its part number, as ``core/hardware/`` names it
    part_number: str | None  # p3701-0005
    soc: str | None  # tegra234
    l4t: str | None  # 36.4.7
    jetpack: str | None  # by its L4T release


class MachineIdentity(Record, frozen=True, kw_only=True):
    """Which machine this is; everything in it is read from the system.

    Nothing in it hangs on the power mode: a core that a mode switches off is there all the same.
    """

    schema: ClassVar[Schema] = Schema("machine", 2)

    kind: Literal["cpu", "gpu", "jetson"]
    name: str
    is_simulated: bool
    architecture: str
    cpus: tuple[int, ...]  # one logical CPU for each physical core that we may use
    caches: tuple[Cache, ...]
    memory_bytes: int | None
    operating_system: str
    kernel_release: str
    machine_hash: (
        str | None
    )  # hash of the machine id: tells equal boards apart, identifies no person
    accelerators: tuple[str, ...]  # seen here, whether or not they are measured
    board: Board | None
    cuda: str | None  # version of the toolkit that is installed
    driver: str | None  # version of NVIDIA's kernel driver


class CpuCluster(Record, frozen=True, kw_only=True):
    """CPUs that share a clock, and its cap under a power mode."""

    cpus: tuple[int, ...]  # those that are on
    max_hz: float | None


class PowerMode(Record, frozen=True, kw_only=True):
    """The settings under which a measurement holds; clocks are caps, not readings.

    A mode is known by its name and its clocks: the numbers that nvpmodel gives them differ
    between boards and releases.
    """

    name: str
    # cores: a plain machine's core count; nvpmodel: one of the board's own; clocks: set one by
    # one; card: limits of a graphics card; present: whatever the machine is in
    kind: Literal["cores", "nvpmodel", "clocks", "card", "present"]
    n_cpus: int  # cores that are on
    clusters: tuple[CpuCluster, ...]  # empty where Mansard leaves the cores alone
    cpu_hz: float | None  # of the fastest cluster
    gpu_hz: float | None
    memory_hz: float | None
    dla_hz: float | None
    n_sms: int | None  # streaming multiprocessors that are not gated
    power_limit_w: float | None


class ModeCommands(Record, frozen=True, kw_only=True):
    """Shell lines that set a power mode and that undo it; empty: nothing to do."""

    set_lines: tuple[str, ...]
    undo_lines: tuple[str, ...]
    notes: tuple[str, ...]
