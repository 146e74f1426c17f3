"""What was run and timed besides kernels: networks on an engine, and programs of the user's."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.score import Phase
from mansard.core.records.trial import Conditions, EnergyWindow, Processor

# What a timed call includes besides the network: copies of its inputs from the host's memory,
# of its outputs to it, both, or neither.
Copies = Literal["none", "in", "out", "both"]
# How a call starts the network's kernels: by a function call on the CPU, one by one on a GPU's
# queue, or all at once as a CUDA graph.
Launching = Literal["call", "enqueue", "graph"]
# What a thread does while it waits for the others or for the GPU.
Waiting = Literal["spin", "block"]


# Networks that are run beside others for what a call and a node of an engine take: so many nodes of
# one element in a row (inference/preparing/writing.py). They are not listed among the networks.
CHAIN_LENGTHS = (1, 65)


def chain_name(length: int) -> str:
    """How a chain of so many nodes is called, as ``Measurement.model``."""
    return f"chain of {length} tiny nodes"


def chain_length(model: str) -> int | None:
    """The nodes of a chain, by its name; None for any other network."""
    return next((each for each in CHAIN_LENGTHS if model == chain_name(each)), None)


class LayerTime(Record, frozen=True, kw_only=True):
    """One layer as the engine ran it: a node of the network, or several that it fused."""

    index: int  # in the order in which the engine first ran them
    name: str  # as the engine calls it
    op_type: str  # likewise
    provider: str  # what ran it, as the engine calls it
    nodes: tuple[int, ...] | None  # those of the network that it is, by LayerScore.index
    runs: int  # of one call of the network: more than one in the body of a loop
    seconds_s: tuple[float, ...]  # of each profiled call, over all its runs; or their mean alone
    kernel: str = ""  # that ran it, as the engine calls it; empty where it does not say


# "prefix": all stages of a network up to one; the last one, and those numbered after it, are the
# whole network, run again beside marked ones. "marked": the whole network, with what lives after a
# stage as one output more.
PartKind = Literal["", "layer", "stage", "prefix", "marked"]


class NetworkPart(Record, frozen=True, kw_only=True):
    """Which layers of which network were cut out and run as a network of their own.

    All fields are empty for a whole network.
    """

    whole: str = ""  # the name of the network that it was cut out of
    whole_hash: str = ""  # and its model_hash
    kind: PartKind = ""
    number: int = 0  # among the parts of its network, from 0, in the order in which they run
    n_parts: int = 0  # that the network was cut into
    nodes: tuple[int, ...] = ()  # by LayerScore.index; those that work or move
    op_types: tuple[str, ...] = ()  # one for each of ``nodes``


WHOLE = NetworkPart()


class CpuTime(Record, frozen=True, kw_only=True):
    """How long the threads of a process ran on a CPU in a call, summed over the threads.

    One value for each sample of the loop, rejected ones too: what other work takes of the CPU
    lengthens the wall time alone. With one thread it is the wall time of a call on an idle CPU.
    With several it is not: a thread that spins while it waits for the others runs all the time.
    """

    seconds_s: tuple[float, ...] | None  # of one call


class EnqueueTime(Record, frozen=True, kw_only=True):
    """How long the host took to enqueue calls on a GPU, and the GPU to run them, call by call.

    The GPU's time is the time between an event before the call and an event after it. Where the
    host is as slow as the GPU, this time includes gaps in which the GPU waited for the host. The
    calls are those of a separate pass, or those that were timed one by one.
    """

    enqueue_s: tuple[float, ...] | None
    compute_s: tuple[float, ...] | None


_UNTIMED = EnqueueTime(
    enqueue_s=None,
    compute_s=None,
    unknown=dict.fromkeys(
        ("enqueue_s", "compute_s"), "it was not recorded before version 8 of the row"
    ),
)
_EARLIER = CpuTime(
    seconds_s=None, unknown={"seconds_s": "it was not recorded before version 7 of the row"}
)


class Measurement(Record, frozen=True, kw_only=True):
    """One network on one engine, run and timed under one power mode. Raw times, no medians.

    ``seconds_s`` are of calls that follow one another without pause, each a share of a loop;
    ``call_seconds_s`` are of calls that were timed one by one, in a pass of their own;
    ``profiled_s`` are of the calls that the layers were timed in, which profiling slows down.
    """

    schema: ClassVar[Schema] = Schema("measurement", 8, oldest=6)

    run_id: str
    trial_id: str
    source: Source
    model: str
    model_hash: str  # as that of ModelScore: without the weights
    phase: Phase
    engine: str  # as ``measure --engine`` calls it
    engine_version: str
    processor: Processor
    provider: str  # as ``measure --provider`` calls it
    options: dict[str, str]  # of the engine, that can change a time
    threads: int | None  # of the engine on the CPU
    cpus: tuple[int, ...]
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    inputs: str  # what it was fed, in words
    copies: Copies
    launching: Launching
    waiting: Waiting
    failure: str | None  # why it could not be run, such as too little memory; no times then
    calls_per_sample: int | None
    seconds_s: tuple[float, ...]  # accepted samples: seconds of one call
    block: tuple[int, ...]  # the block that each accepted sample belongs to
    rejected_s: tuple[float, ...]
    rejected_reason: tuple[str, ...]  # one for each rejected sample
    stability: Literal["stable", "unstable"]
    stability_interval: float | None  # half width of the interval of the block medians, relative
    call_seconds_s: tuple[float, ...]
    profiled_s: tuple[float, ...] | None
    layers: tuple[LayerTime, ...] | None
    energy: tuple[EnergyWindow, ...] | None  # it runs without pause in each; repetitions are calls
    memory_bytes: (
        int | None
    )  # peak resident memory of the process less that before loading; CPU alone
    load_s: float | None  # from the file to a network that can be called
    first_call_s: float | None
    conditions: Conditions
    disturbances: tuple[str, ...]  # why it is kept but never averaged in; empty: none
    started_utc: str
    duration_s: float
    part: NetworkPart = WHOLE
    cpu_time: CpuTime = _EARLIER
    enqueue_time: EnqueueTime = _UNTIMED

    @property
    def is_part(self) -> bool:
        """Whether it is of layers that were cut out of a network, and not of a network."""
        return bool(self.part.whole)


class NamedWindow(Record, frozen=True, kw_only=True):
    """A stretch of a program that it named itself, with ``mansard.api.window``."""

    name: str
    start_s: float  # monotonic
    window_s: float
    energy: EnergyWindow | None


class ProgramRepetition(Record, frozen=True, kw_only=True):
    """One run of a program, from its start until it and all that it started have ended."""

    start_s: float  # monotonic
    wall_s: float
    user_s: float  # CPU time of the program and its children
    system_s: float
    peak_memory_bytes: int | None  # of the largest process
    energy: EnergyWindow | None
    peak_w: float | None  # the highest reading of the total
    metric: float | None  # the figure of merit, read from its output
    windows: tuple[NamedWindow, ...]
    # That llama-bench printed, by test: tokens/s. Empty of other programs.
    figures: dict[str, float] = msgspec.field(default_factory=dict)


class ProgramRun(Record, frozen=True, kw_only=True):
    """A program of the user's, run so often under one power mode until its time is known."""

    schema: ClassVar[Schema] = Schema("program-run", 5, oldest=3)

    run_id: str
    trial_id: str
    source: Source
    workload: str  # how it is called in tables and by ``recommend``
    command: tuple[str, ...]  # without its secrets: core/text.py
    folder: str  # that it was started in
    # Of the program, of the files that its arguments name, of standard input where that is a file,
    # and of its secrets.
    program_hash: str
    metric_pattern: str | None
    repetitions: tuple[ProgramRepetition, ...]
    stability: Literal["stable", "unstable"]
    stability_interval: float | None  # of the wall times, relative
    conditions: Conditions
    disturbances: tuple[str, ...]
    started_utc: str
    duration_s: float
    # The variables of the environment that are part of its identity.
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    depends: tuple[str, ...] = ()  # further files and folders whose content is part of its hash
    # Of each other variable that was set, four digits of a hash: enough to see that it changed.
    surroundings: dict[str, str] = msgspec.field(default_factory=dict)
