"""The plan of a run, whatever it measures: the fields that the plans of all kinds have."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.hashing import content_hash
from mansard.core.records import Gpu, MachineIdentity, PowerMode, Processor, Record
from mansard.measuring.protocol import Profile, Protocol


def cpus_of(machine: MachineIdentity, mode: PowerMode) -> tuple[int, ...]:
    """The CPUs to measure on: those of ``machine`` that ``mode`` leaves on.

    Raises UsageError where there is none.
    """
    cpus = machine.cpus[: mode.n_cpus]
    if mode.clusters:
        on = {cpu for cluster in mode.clusters for cpu in cluster.cpus}
        cpus = tuple(cpu for cpu in machine.cpus if cpu in on)
    if not cpus:
        raise UsageError(
            f"power mode {mode.name!r} leaves no CPU on that this process may use",
            fix="run without taskset or a smaller cpuset",
        )
    return cpus


class PlannedTrial(Record, frozen=True, kw_only=True):
    """One trial to be made; each kind adds the fields that say of what."""

    @property
    def trial_id(self) -> str:
        """The same trial of any run has the same id."""
        return content_hash(self)

    @property
    def title(self) -> str:
        """What is shown while it is measured."""
        raise NotImplementedError


class RunPlan(Record, frozen=True, kw_only=True):
    """Everything a run needs to know, and all that can change its result."""

    kind: ClassVar[str]  # where its MeasurementKind is defined: "module:name"

    profile: Profile
    machine: MachineIdentity
    processor: Processor  # that the work runs on
    gpu: Gpu | None  # as it was found before the mode was set; the mode may leave fewer SMs on
    mode: PowerMode
    cpus: tuple[int, ...]
    trials: tuple[PlannedTrial, ...]  # in the order they are made
    protocol: Protocol
    seed: int
    versions: dict[str, str]
    label: str = ""  # of a build or commit
    host: str = ""  # what the board is called where it is one of several; not part of the run's id
    repeat: int = 0  # which run of the same plan it is, beside the first
    environment: dict[str, str] = msgspec.field(default_factory=dict)  # by --env, secrets hashed

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({spec.trial_id for spec in self.trials}) < len(self.trials):
            raise ValueError("the plan has the same trial twice")

    @property
    def gpu_in_mode(self) -> Gpu | None:
        """``gpu`` with the SMs that the mode leaves on."""
        n_sms = self.mode.n_sms
        if self.gpu is None or n_sms is None:
            return self.gpu
        return msgspec.structs.replace(self.gpu, n_sms=n_sms)

    @property
    def plan_hash(self) -> str:
        """Hash of what is measured and how, without the machine and the mode.

        A field that is empty is not in it, so that runs of before it was added keep their ids.
        """
        beside = {"label": self.label, "repeat": self.repeat, "environment": self.environment}
        named = {name: value for name, value in beside.items() if value}
        return content_hash([self.trials, self.protocol, self.seed, *([named] if named else [])])

    @property
    def run_id(self) -> str:
        """Hash of machine, mode, plan and versions: equal exactly when a run would repeat."""
        # The kernel reports a slightly different MemTotal after an update of its own.
        machine = _without(self.machine, {"memory_bytes", "unknown"})
        # How many SMs are on, and how fast, depends on the mode.
        gpu = self.gpu and _without(self.gpu, {"n_sms", "memory_bytes", "unknown"})
        where = [machine, self.mode, self.cpus, self.processor, gpu]
        return content_hash([*where, self.profile, self.plan_hash, self.versions])


def _without(record: Record, names: set[str]) -> dict[str, object]:
    """The fields of ``record`` but for those called ``names``."""
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in names}
