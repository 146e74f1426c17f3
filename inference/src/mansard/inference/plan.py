"""The plans of runs of networks: times, builds, accuracy, counters, several networks at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import (
    WHOLE,
    Copies,
    Gpu,
    MachineIdentity,
    NetworkPart,
    Phase,
    PowerMode,
    Record,
    Schema,
    Waiting,
)
from mansard.core.text import cpu_list
from mansard.core.version import VERSION
from mansard.measuring.plan import PlannedTrial, RunPlan, cpus_of
from mansard.measuring.protocol import Protocol, find_protocol

SEED = 20_180_613  # of weights and inputs; the value means nothing
_ANY_MODE = "accuracy does not depend on the power mode"
PlanT = TypeVar("PlanT", bound=RunPlan)
# A builder that reports nothing, or builds one engine file, for longer than this counts as hung.
BUILDING_S = 4 * 3600.0
LABELS = "labels"  # the array of an .npz that holds the class of each sample
# Whether the caches are emptied before each kernel, so that what it reads comes from the memory.
CacheControl = Literal["all", "none"]
Way = Literal["threads", "processes"]
Order = Literal["pipelined", "in turn", "in step"]
_LONGEST = 60  # of a mapping's name in a line of progress


class InputSpec(Record, frozen=True, kw_only=True):
    """What one input of a network is fed.

    ``uniform``: random numbers from ``low`` to ``high``; ``integers``: random ones of them,
    ``high`` excluded; ``ones``; ``file``: the array of this name in the trial's ``inputs_file``.
    """

    name: str
    type_name: str  # as NumPy calls it
    shape: tuple[int, ...]
    fill: Literal["uniform", "integers", "ones", "file"]
    low: float = 0.0
    high: float = 1.0


class ShapeRange(Record, frozen=True, kw_only=True):
    """The shapes of one input with open dimensions that an engine file is built for."""

    least: tuple[int, ...]
    usual: tuple[int, ...]  # that it is tuned for
    most: tuple[int, ...]


class BuildSettings(Record, frozen=True, kw_only=True):
    """How an engine file is built; every field is part of the file's key."""

    optimization_level: int | None = None
    workspace_bytes: int | None = None
    dla_core: int | None = None
    # By LayerScore.index: the DLA runs these and the GPU the others. Empty: all that the DLA can.
    dla_nodes: tuple[int, ...] = ()
    with_fallback: bool = True  # to the GPU, of layers that the DLA lacks
    compute_capability: str | None = None  # to build for, as "8.6", without a device
    ranges: dict[str, ShapeRange] = msgspec.field(
        default_factory=dict
    )  # of inputs with open dimensions, by name
    # .npz of input arrays, whose first dimension is the samples; "": none
    calibration_file: str = ""
    calibration_hash: str = ""
    dataset: str = "random"  # in the engine file's name

    def __post_init__(self) -> None:
        absent = {
            name: reason
            for name, reason in _BUILDERS_OWN.items()
            if getattr(self, name) is None and name not in self.unknown
        }
        if absent:
            msgspec.structs.force_setattr(self, "unknown", {**self.unknown, **absent})
        super().__post_init__()

    @property
    def options(self) -> dict[str, str]:
        """Settings that change a time or that loading needs, where not the builder's default."""
        changed = {}
        if self.ranges:
            changed["open"] = ",".join(self.ranges)  # what loads the file gives their shapes
        if self.optimization_level is not None:
            changed["optimization_level"] = str(self.optimization_level)
        if self.workspace_bytes is not None:
            changed["workspace_bytes"] = str(self.workspace_bytes)
        if self.dla_core is not None:
            changed["dla_core"] = str(self.dla_core)
            changed["dla_rest"] = "on the GPU" if self.with_fallback else "refused"
        if self.dla_nodes:
            changed["dla_nodes"] = cpu_list(self.dla_nodes)
        return changed


_NODES = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")


def parse_nodes(text: str) -> tuple[int, ...]:
    """The nodes of ``0-56,60``, in rising order; raises UsageError."""
    nodes: set[int] = set()
    for part in text.split(",") if _NODES.fullmatch(text) else ():
        first, _, last = part.partition("-")
        nodes |= set(range(int(first), int(last or first) + 1))
    if not nodes:
        raise UsageError(
            f"--dla-nodes {text!r} names no nodes",
            fix="write --dla-nodes 0-56,60: their index in the score",
        )
    return tuple(sorted(nodes))


_BUILDERS_OWN = {
    "optimization_level": "the builder's own",
    "workspace_bytes": "the builder's own",
    "dla_core": "it is built for the GPU",
    "compute_capability": "that of the device that builds",
}


class BuildTrial(PlannedTrial, frozen=True, kw_only=True):
    """One engine file to be built; files are named as they are called in the folder of files."""

    model: str
    model_hash: str
    file: str
    file_hash: str
    input_specs: tuple[InputSpec, ...]  # of an input with a range: its usual shape
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    engine: str
    settings: BuildSettings
    engine_file: str  # that is written

    @property
    def title(self) -> str:
        """What is shown while it is built."""
        batch = "" if self.batch is None else f" × {self.batch}"
        return f"building {self.model}{batch} {self.precision}, {self.engine}"


class BuildPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of builds. Its protocol is not used."""

    schema: ClassVar[Schema] = Schema("build-plan", 1)
    kind: ClassVar[str] = "mansard.inference.builds:BUILDS"

    trials: tuple[BuildTrial, ...]


class NetworkTrial(PlannedTrial, frozen=True, kw_only=True):
    """One network to be run. Files are named as they are called in the folder of files."""

    model: str
    model_hash: str  # as that of ModelScore: without the weights
    file: str  # dimensions fixed, weights present, nodes labelled: ``preparing``
    file_hash: str  # of its content, and of the weights beside it
    inputs_file: str  # .npz; empty: no input is read from one
    inputs_hash: str
    input_specs: tuple[InputSpec, ...]
    inputs: str  # the same in words
    engine: str
    provider: str
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    n_threads: int | None  # None: as many as the plan has CPUs
    copies: Copies = "none"
    waiting: Waiting = "spin"
    with_graph: bool = False  # as a CUDA graph, where the engine can
    with_layers: bool = True
    phase: Phase = "inference"
    part: NetworkPart = WHOLE  # what was cut out of a network to be run alone
    rest_s: float = 0.0  # before it is loaded, with nothing of ours running
    meter_period_s: float = 0.0  # between two readings of the meters; 0: the meters' own
    engine_file: str = ""  # that the engine loads, built before; "": it loads ``file`` itself

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        batch = "" if self.batch is None else f" × {self.batch}"
        return f"{self.model}{batch} {self.precision}, {self.engine} {self.provider}"


class NetworkPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of networks."""

    schema: ClassVar[Schema] = Schema("network-plan", 1)
    kind: ClassVar[str] = "mansard.inference.networks:NETWORKS"

    trials: tuple[NetworkTrial, ...]


class Normalisation(Record, frozen=True, kw_only=True):
    """From stored pixels to what a network is fed: (pixel / scale - mean) / deviation.

    ``channel_axis``: of one sample; ``mean`` and ``deviation`` have one number for each channel.
    """

    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    channel_axis: int


class PreparedSamples(Record, frozen=True, kw_only=True):
    """Samples in the folder of files: an .npz with an array for each input, a sample each row.

    ``labels`` of it are the samples' classes, where ``is_labelled``. ``normalisation`` None: the
    arrays are fed as they are.
    """

    file: str
    file_hash: str  # of what it is made of
    name: str  # of the data set
    n_samples: int
    is_labelled: bool
    preprocessing: str  # in words
    normalisation: Normalisation | None

    @property
    def in_words(self) -> str:
        """``128 samples of val``."""
        return f"{self.n_samples} samples of {self.name}"


class AccuracyTrial(PlannedTrial, frozen=True, kw_only=True):
    """One network to be fed with samples. ``network`` says on which engine, in which precision."""

    network: NetworkTrial
    weights_hash: str  # of the file that the network comes from, and of weights beside it
    samples: PreparedSamples
    calibration: str  # what an int8 network's ranges come from, in words; empty: no int8
    output: str  # that holds a score for each class

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        return f"accuracy of {self.network.title}"


class AccuracyPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run that measures accuracy. The power mode does not matter to it."""

    schema: ClassVar[Schema] = Schema("accuracy-plan", 1)
    kind: ClassVar[str] = "mansard.inference.accuracy:ACCURACIES"

    trials: tuple[AccuracyTrial, ...]


class CounterTrial(NetworkTrial, frozen=True, kw_only=True):
    """One network to be run under Nsight Compute; the fields are those of ``CounterRun``."""

    chip: str
    metrics: tuple[str, ...]
    lacking: tuple[str, ...]
    n_calls: int
    cache_control: CacheControl = "all"


class CounterPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of counters."""

    schema: ClassVar[Schema] = Schema("counter-plan", 1)
    kind: ClassVar[str] = "mansard.inference.counters.trial:COUNTERS"

    trials: tuple[CounterTrial, ...]


class MultiStage(Record, frozen=True, kw_only=True):
    """One stage of a network, and the device that runs it."""

    network: NetworkTrial  # the stage as a network of its own, or a whole network
    device: str  # "gpu", "dla0", "dla1", "cpu", "cpu:0-3"


class MultiNetwork(Record, frozen=True, kw_only=True):
    """One network: its stages in the order in which they run. Their precision is one."""

    stages: tuple[MultiStage, ...]

    @property
    def model(self) -> str:
        """The name of the whole network."""
        first = self.stages[0].network
        return first.part.whole or first.model

    @property
    def model_hash(self) -> str:
        first = self.stages[0].network
        return first.part.whole_hash or first.model_hash


class MultiTrial(PlannedTrial, frozen=True, kw_only=True):
    """Networks that run concurrently and repeatedly, for a fixed time."""

    mapping: str  # what it is called
    mapped: tuple[MultiNetwork, ...]
    seconds_s: float  # of the window in which runs count, after warming up
    way: Way = "threads"
    order: Order = "in turn"
    is_exclusive: bool = False  # a device runs one stage at a time
    # In step: (network, stage) in the order in which they begin, each once; a device runs its own
    # in this order.
    turns: tuple[tuple[int, int], ...] = ()
    # In step: a round begins when all of the last has ended. Else a device begins its next round
    # at once.
    has_rounds: bool = True
    meter_period_s: float = 0.0  # between two readings of the meters; 0: the meters' own

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        names = self.mapping if len(self.mapping) < _LONGEST else f"{len(self.mapped)} networks"
        return f"{names}, {self.order}"

    @property
    def stage_networks(self) -> list[NetworkTrial]:
        """The networks of all stages, in the order in which they are mapped."""
        return [stage.network for network in self.mapped for stage in network.stages]


class MultiPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of runs of several networks."""

    schema: ClassVar[Schema] = Schema("multi-plan", 1)
    kind: ClassVar[str] = "mansard.inference.multi.trial:MULTI"

    trials: tuple[MultiTrial, ...]


def make_plan(
    kind: type[PlanT],
    machine: MachineIdentity,
    mode: PowerMode,
    trials: Sequence[PlannedTrial],
    versions: Mapping[str, str],
    gpu: Gpu | None,
    *,
    profile: str = "quick",
    protocol: Protocol | None = None,
) -> PlanT:
    """The plan of ``trials`` of a kind in one mode, in their order.

    ``versions``: of the engine, by its probe. ``gpu``: the one that the networks run on, as the
    kernels' probe describes it, so that both name the same device; None: they run on the CPU.
    ``protocol``: by default that of the profile. Raises UsageError for an unknown profile.
    """
    return kind(
        profile=profile,  # type: ignore[arg-type]  # checked by find_protocol
        machine=machine,
        processor="cpu" if gpu is None else "gpu",
        gpu=gpu,
        mode=mode,
        cpus=cpus_of(machine, mode),
        trials=tuple(trials),
        protocol=protocol or find_protocol(profile),
        seed=SEED,
        versions={"mansard": VERSION, **versions},
        unknown={} if gpu is not None else {"gpu": "the networks run on the CPU"},
    )


def with_cpus(plan: PlanT, cpus: tuple[int, ...]) -> PlanT:
    """``plan`` restricted to ``cpus``, or unchanged where ``cpus`` is empty.

    Raises UsageError for a CPU that is offline in the plan's mode.
    """
    if lacking := sorted(set(cpus) - set(plan.cpus)):
        raise UsageError(
            f"there is no CPU {lacking[0]} to measure on in power mode {plan.mode.name!r}",
            fix=f"use some of {', '.join(map(str, plan.cpus))}",
        )
    return msgspec.structs.replace(plan, cpus=cpus or plan.cpus)


def any_mode(machine: MachineIdentity) -> PowerMode:
    """The mode of a plan whose results are the same in every mode, such as accuracy: all CPUs."""
    absent = ("cpu_hz", "gpu_hz", "memory_hz", "dla_hz", "n_sms", "power_limit_w")
    return PowerMode(
        name="any",
        kind="present",
        n_cpus=len(machine.cpus),
        clusters=(),
        cpu_hz=None,
        gpu_hz=None,
        memory_hz=None,
        dla_hz=None,
        n_sms=None,
        power_limit_w=None,
        unknown=dict.fromkeys(absent, _ANY_MODE),
    )
