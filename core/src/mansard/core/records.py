"""The rows everyone exchanges. Units stand in the names; ``None`` always has a reason.

Every record is frozen, refuses fields it does not know, and keeps in ``unknown``
one reason for each of its fields that is ``None``: a missing number never looks
like a zero and never goes without an explanation.
"""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar, Literal

import msgspec

Source = Literal["measured", "modelled", "published"]
Phase = Literal["inference", "training"]


class Schema(msgspec.Struct, frozen=True):
    """What the records of a file are called, and which version of them it holds.

    The version is raised whenever a field is added, removed or changes its meaning.
    """

    name: str
    version: int


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all records: fields that are None and reasons must match one to one."""

    schema: ClassVar[Schema]  # of the records that files may hold
    unknown: dict[str, str] = {}

    def __post_init__(self) -> None:
        values = msgspec.structs.astuple(self)
        if self.unknown or None in values:
            self._check_reasons(values.count(None))
        for name in _float_fields(type(self)):
            # JSON has no way to write these, so the row could never be read again.
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{type(self).__name__}: {name} is {value}")

    def _check_reasons(self, n_missing: int) -> None:
        fields, unknown = self.__struct_fields__, self.unknown
        if n_missing == len(unknown):
            for name in unknown:
                if name not in fields or getattr(self, name) is not None:
                    break
            else:
                return
        missing = {name for name in fields if getattr(self, name) is None}
        unexplained, needless = sorted(missing - unknown.keys()), sorted(unknown.keys() - missing)
        raise ValueError(
            f"{type(self).__name__}: every None needs its reason in 'unknown' "
            f"(without reason: {unexplained}, reason without None: {needless})"
        )


@cache
def _float_fields(record: type[Record]) -> tuple[str, ...]:
    """The fields that may hold a float; most rows of a large file have none."""
    kinds: dict[str, str] = {}
    for parent in reversed(record.__mro__):
        kinds.update(getattr(parent, "__annotations__", {}))
    return tuple(name for name in record.__struct_fields__ if "float" in str(kinds[name]))


class Cache(Record, frozen=True, kw_only=True):
    """One level of data cache as the system reports it."""

    level: int
    size_bytes: int  # of one instance
    line_bytes: int | None
    shared_cpus: tuple[int, ...]  # the CPUs that share the first CPU's instance
    n_instances: int  # over the CPUs we may use


class MachineIdentity(Record, frozen=True, kw_only=True):
    """Which machine this is; everything in it is read from the system."""

    schema: ClassVar[Schema] = Schema("machine", 1)

    kind: Literal["cpu", "gpu", "jetson"]
    name: str
    architecture: str
    cpus: tuple[int, ...]  # one logical CPU for each physical core that we may use
    caches: tuple[Cache, ...]
    memory_bytes: int | None
    operating_system: str
    kernel_release: str
    machine_hash: str | None  # hash of the machine id: tells equal boards apart, names nobody
    accelerators: tuple[str, ...]  # seen here, whether or not they are measured


class PowerMode(Record, frozen=True, kw_only=True):
    """The settings under which a measurement holds; clocks are caps, not readings."""

    name: str
    n_cpus: int
    cpu_hz: float | None
    gpu_hz: float | None
    memory_hz: float | None


class PowerSample(Record, frozen=True, kw_only=True):
    """One reading of one rail, at a monotonic time."""

    schema: ClassVar[Schema] = Schema("power-sample", 1)

    rail: str
    monotonic_s: float
    power_w: float | None
    energy_j: float | None  # of meters that count energy: since the counter's start


class RailEnergy(Record, frozen=True, kw_only=True):
    """The energy of one rail over the blocks of one trial, without the pauses between them."""

    rail: str
    energy_j: float
    window_s: float
    n_samples: int


class Trial(Record, frozen=True, kw_only=True):
    """One kernel at one size under one power mode. Raw repetitions, no medians.

    Work and traffic are those of one repetition over all threads; how stores are
    counted is said in ``traffic_counting``.
    """

    schema: ClassVar[Schema] = Schema("trial", 1)

    run_id: str
    trial_id: str
    source: Source
    kernel: str
    family: Literal["fma", "stream"]
    backend: str
    precision: str
    fma_per_element: int | None
    cpus: tuple[int, ...]  # one pinned thread on each
    working_set_bytes: int  # over all threads
    work_flop: int
    traffic_bytes: int
    traffic_counting: str
    repetitions_per_sample: int  # so many that a sample is long against the clock's resolution
    seconds_s: tuple[float, ...]  # accepted samples: seconds of one repetition, as they ran
    block: tuple[int, ...]  # the block each accepted sample belongs to
    rejected_s: tuple[float, ...]
    rejected_reason: tuple[str, ...]  # one for each rejected sample
    stability: Literal["stable", "unstable"]
    stability_interval: float | None  # half width of the interval of the block medians, relative
    energy: tuple[RailEnergy, ...] | None
    clock_before_hz: float | None
    clock_after_hz: float | None
    temperature_before_c: float | None
    temperature_after_c: float | None
    throttled: bool | None
    source_hash: str  # of the kernel's source
    started_utc: str
    duration_s: float


class LayerScore(Record, frozen=True, kw_only=True, gc=False):
    """Work and traffic of one node of a network; counted, not measured.

    Counts are those of one pass of the network in its phase: a node in the body of a
    loop counts all its ``runs``, and in training forward, backward and update together.
    """

    index: int
    name: str
    op_type: str
    domain: str
    scope: str  # the graph it stands in: empty, or the nodes and attributes that hold it
    runs: int
    precision: str  # of the multiply-adds; where there are none, of the floating tensors
    unit: Literal["tensor core", "CUDA core", "none"]  # that could run the work on a GPU
    macs: int | None
    multiply_add_flop: int | None
    simple_flop: int | None
    function_flop: int | None
    work_flop: int | None  # the sum of the three classes
    backward_flop: int | None  # this much of the work
    update_flop: int | None  # and this much
    parameters: int | None
    weight_bytes: int | None
    input_bytes: int | None
    output_bytes: int | None
    read_bytes: int | None  # algorithmic traffic
    write_bytes: int | None
    traffic_bytes: int | None
    fused_group: int | None  # index of the node that heads its group
    fused_read_bytes: int | None
    fused_write_bytes: int | None
    fused_traffic_bytes: int | None
    cached_traffic_bytes: int | None
    saved_bytes: int | None  # kept by the forward pass for the backward one


# The fields of a LayerScore that add up over layers.
LAYER_COUNTS = (
    "macs",
    "multiply_add_flop",
    "simple_flop",
    "function_flop",
    "work_flop",
    "backward_flop",
    "update_flop",
    "parameters",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "read_bytes",
    "write_bytes",
    "traffic_bytes",
    "fused_read_bytes",
    "fused_write_bytes",
    "fused_traffic_bytes",
    "cached_traffic_bytes",
    "saved_bytes",
)

Optimizer = Literal["none", "sgd", "momentum", "adam"]


class ModelScore(Record, frozen=True, kw_only=True):
    """All layers of one network for one batch, precision and phase."""

    schema: ClassVar[Schema] = Schema("score", 2)

    model: str
    model_hash: str  # SHA-256 without the weights: files with equal ones have equal scores
    source: Source
    phase: Phase
    batch: int | None
    precision: str
    dimensions: dict[str, int]
    trips: dict[str, int]  # how often each loop ran
    optimizer: Optimizer
    recompute: bool  # whether the backward pass computes the activations again
    cache_bytes: int | None  # the last-level cache that cached traffic is for
    peak_activation_bytes: int | None  # every operator writes a tensor of its own
    in_place_peak_bytes: int | None  # elementwise ones take over what nothing reads any more
    fused_peak_bytes: int | None  # only what fused groups read and write
    kv_cache_bytes: int | None
    optimizer_state_bytes: int | None
    layers: tuple[LayerScore, ...]
    notes: tuple[str, ...]  # choices that were made where the file leaves one
    alternatives: tuple[LayerScore, ...]  # of branches that are not taken; in no sum


class Measurement(Record, frozen=True, kw_only=True):
    """One real network, run and timed. Raw repetitions, no medians."""

    schema: ClassVar[Schema] = Schema("measurement", 1)

    run_id: str
    model: str
    model_hash: str
    source: Source
    engine: str
    phase: Phase
    batch: int
    precision: str
    seconds_s: tuple[float, ...]
    energy: tuple[RailEnergy, ...] | None


class Manifest(Record, frozen=True, kw_only=True):
    """What a run was: enough to repeat it, and to refuse mixing it with another."""

    schema: ClassVar[Schema] = Schema("manifest", 1)

    run_id: str
    tool_version: str
    commit: str | None
    versions: dict[str, str]  # of everything that can change a timing
    machine: MachineIdentity
    mode_requested: PowerMode
    mode_read_back: PowerMode
    plan_hash: str
    profile: str
    n_trials: int
    meters: tuple[str, ...]
    meters_missing: dict[str, str]  # meter -> what is missing and what to do
    total_rule: str | None  # how rails make the total
    idle_power_w: float | None
    image_digest: str | None
    seed: int
    started_utc: str
    finished_utc: str | None
    started_monotonic_s: float
    finished_monotonic_s: float | None
