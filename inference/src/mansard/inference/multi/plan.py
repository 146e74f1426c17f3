"""The plan of runs of several networks at once: what runs where, and in which order."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from mansard.core.errors import UsageError
from mansard.core.records import Record, Schema
from mansard.inference.plan import NetworkTrial
from mansard.measuring.plan import PlannedTrial, RunPlan

Way = Literal["threads", "processes"]
Order = Literal["pipelined", "in turn", "in step"]
MOST_LOADABLES = 16  # of a DLA core; NVIDIA, TensorRT Developer Guide, "DLA Limitations"
_CPU = "cpu"
_LONGEST = 60  # of a mapping's name in a line of progress
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


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
    """Networks that run at once for a while, again and again."""

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

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        names = self.mapping if len(self.mapping) < _LONGEST else f"{len(self.mapped)} networks"
        return f"{names}, {self.order}"


class MultiPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of runs of several networks."""

    schema: ClassVar[Schema] = Schema("multi-plan", 1)
    kind: ClassVar[str] = "mansard.inference.multi.trial:MULTI"

    trials: tuple[MultiTrial, ...]


def stage_networks(trial: MultiTrial) -> list[NetworkTrial]:
    """The networks of all stages, one after the other."""
    return [stage.network for network in trial.mapped for stage in network.stages]


def device_cpus(device: str, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs that a device is, or that feed it; ``cpus``: those of the mode.

    ``cpu:0-3`` and ``cpu:0,2`` name CPUs by their numbers. Raises UsageError for a name of no
    device, and for CPUs that the mode leaves off.
    """
    kind, _, numbers = device.partition(":")
    if not numbers:
        if kind not in {_CPU, "gpu"} and not is_dla(device):
            raise UsageError(
                f"unknown device {device!r}", fix="use gpu, dla0, dla1, cpu or cpu:0-3"
            )
        return cpus
    found: list[int] = []
    for part in numbers.split(",") if kind == _CPU else [""]:
        ends = _RANGE.fullmatch(part)
        if ends is None:
            raise UsageError(f"device {device!r} names no CPUs", fix="write cpu:0-3")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    lacking = sorted(set(found) - set(cpus))
    if lacking or not found:
        raise UsageError(
            f"device {device!r}: there is no CPU {lacking[0] if lacking else numbers} in this mode",
            fix=f"the mode has CPUs {', '.join(map(str, cpus))}",
        )
    return tuple(sorted(set(found)))


def is_cpu(device: str) -> bool:
    """Whether a device is CPUs: what runs there is in the host's memory."""
    return device.partition(":")[0] == _CPU


def is_dla(device: str) -> bool:
    """Whether a device is a DLA core: ``dla0``, ``dla1``."""
    return device.startswith("dla") and device[3:].isdecimal()
