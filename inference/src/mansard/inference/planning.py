"""The plans of runs of networks, of builds and of accuracy, by what the engine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import Gpu, MachineIdentity, PowerMode
from mansard.core.version import VERSION
from mansard.inference.engines.engine import EngineProbe
from mansard.measuring.plan import PlannedTrial, RunPlan, cpus_of
from mansard.measuring.protocol import Protocol, find_protocol

SEED = 20_180_613  # of weights and inputs; the value means nothing
_ANY_MODE = "accuracy does not depend on the power mode"
PlanT = TypeVar("PlanT", bound=RunPlan)


def make_plan(
    kind: type[PlanT],
    machine: MachineIdentity,
    mode: PowerMode,
    trials: Sequence[PlannedTrial],
    probe: EngineProbe,
    gpu: Gpu | None,
    *,
    profile: str = "quick",
    protocol: Protocol | None = None,
) -> PlanT:
    """The plan of ``trials`` of a kind in one mode, in their order.

    ``gpu``: that the networks run on, as the kernels' probe found it, so that both are of one
    device; None: they run on the CPU. ``protocol``: None is that of the profile. Raises UsageError
    for an unknown profile.
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
        versions={"mansard": VERSION, **probe.versions},
        unknown={} if gpu is not None else {"gpu": "the networks run on the CPU"},
    )


def kept_to(plan: PlanT, cpus: tuple[int, ...]) -> PlanT:
    """``plan`` on some of its CPUs alone; on all of them where ``cpus`` is empty.

    Raises UsageError for one that the mode leaves off.
    """
    if lacking := sorted(set(cpus) - set(plan.cpus)):
        raise UsageError(
            f"there is no CPU {lacking[0]} to measure on in power mode {plan.mode.name!r}",
            fix=f"use some of {', '.join(map(str, plan.cpus))}",
        )
    return msgspec.structs.replace(plan, cpus=cpus or plan.cpus)


def any_mode(machine: MachineIdentity) -> PowerMode:
    """The mode of a plan that is the same for every mode, such as of accuracy: all CPUs, no cap."""
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
