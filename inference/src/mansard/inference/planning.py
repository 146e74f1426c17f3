"""From prepared networks to the plan of one mode, or of accuracy, by what the engine has."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.core.records import Gpu, MachineIdentity, PowerMode
from mansard.core.version import VERSION
from mansard.inference.accuracy.plan import AccuracyPlan, AccuracyTrial
from mansard.inference.engines.engine import EngineProbe
from mansard.inference.plan import BuildPlan, BuildTrial, NetworkPlan, NetworkTrial
from mansard.measuring.plan import cpus_of
from mansard.measuring.protocol import Protocol, find_protocol

SEED = 20_180_613  # of weights and inputs; the value means nothing


def make_build_plan(
    machine: MachineIdentity,
    mode: PowerMode,
    trials: Sequence[BuildTrial],
    probe: EngineProbe,
    gpu: Gpu | None,
) -> BuildPlan:
    """The plan of building ``trials`` in one mode; ``gpu``: as for ``make_network_plan``."""
    return BuildPlan(
        profile="quick",
        machine=machine,
        processor="cpu" if gpu is None else "gpu",
        gpu=gpu,
        mode=mode,
        cpus=cpus_of(machine, mode),
        trials=tuple(trials),
        protocol=find_protocol("quick"),
        seed=SEED,
        versions={"mansard": VERSION, **probe.versions},
        unknown={} if gpu is not None else {"gpu": "the engine files are built for the CPU"},
    )


def make_network_plan(
    machine: MachineIdentity,
    mode: PowerMode,
    profile: str,
    trials: Sequence[NetworkTrial],
    probe: EngineProbe,
    gpu: Gpu | None,
    *,
    protocol: Protocol | None = None,
) -> NetworkPlan:
    """The plan of ``trials`` in one mode, in their order.

    ``gpu``: that the networks run on, as the kernels' probe found it, so that both are of one
    device; None: they run on the CPU. ``protocol``: None is that of the profile. Raises UsageError
    for an unknown profile.
    """
    if gpu is not None and mode.n_sms is not None:
        gpu = msgspec.structs.replace(gpu, n_sms=mode.n_sms)
    return NetworkPlan(
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


_ANY_MODE = "accuracy does not depend on the power mode"


def make_accuracy_plan(
    machine: MachineIdentity,
    trial: AccuracyTrial,
    probe: EngineProbe,
    gpu: Gpu | None,
) -> AccuracyPlan:
    """The plan of ``trial`` alone, the same for every mode and profile: it is measured once."""
    mode = PowerMode(
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
        unknown=dict.fromkeys(
            ("cpu_hz", "gpu_hz", "memory_hz", "dla_hz", "n_sms", "power_limit_w"), _ANY_MODE
        ),
    )
    return AccuracyPlan(
        profile="brief",
        machine=machine,
        processor="cpu" if gpu is None else "gpu",
        gpu=gpu,
        mode=mode,
        cpus=machine.cpus,
        trials=(trial,),
        protocol=find_protocol("brief"),
        seed=SEED,
        versions={"mansard": VERSION, **probe.versions},
        unknown={} if gpu is not None else {"gpu": "the networks run on the CPU"},
    )
