"""The plan of a run of contention: pairs of victim and aggressor with their demands."""

from __future__ import annotations

import random
from itertools import product
from types import MappingProxyType
from typing import ClassVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import MachineIdentity, PowerMode, Schema
from mansard.core.text import cpu_list
from mansard.device.system import parse_cpu_list
from mansard.measuring.plan import PlannedTrial, RunPlan, cpus_of
from mansard.measuring.protocol import Profile, find_protocol
from mansard.microbench.plan import SEED, Probe

GPU = "gpu"
# For each profile: numbers of shares, of blocks per trial, and of samples per block and side.
_SIZES: MappingProxyType[Profile, tuple[int, int, int]] = MappingProxyType(
    {"brief": (3, 4, 5), "quick": (5, 6, 6), "full": (10, 10, 8)}
)
_TRIAL_CAP_S = 2.0  # one block more than needed, so that the estimate of a sweep's time holds


class ContentionTrial(PlannedTrial, frozen=True, kw_only=True):
    """Demands of a victim and an aggressor at the same time; the fields are ContentionPoint's."""

    victim: str
    aggressor: str
    victim_share: float
    aggressor_share: float

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        watched = f"{self.victim} at {self.victim_share:.0%}"
        return f"{watched} beside {self.aggressor} at {self.aggressor_share:.0%}"


class ContentionPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of contention.

    Of its protocol ``n_blocks_min`` is how many blocks a trial has, ``n_accepted_min`` its
    samples, alone and beside the other alike.
    """

    schema: ClassVar[Schema] = Schema("contention-plan", 1)
    kind: ClassVar[str] = "mansard.microbench.contention.trial:CONTENTION"

    trials: tuple[ContentionTrial, ...]


def accelerators_of(cpus: tuple[int, ...], *, has_gpu: bool) -> tuple[str, str]:
    """The two accelerators: the GPU and the CPUs, or two halves of the CPUs.

    ``cpus``: one of each physical core, so halves share no core. Beside a GPU the first is left to
    the thread that launches its kernels, where there is another. Raises UsageError for one core.
    """
    if has_gpu:
        return GPU, partition_name(cpus[1:] or cpus)
    if len(cpus) < 2:
        raise UsageError(
            "contention takes two processors, and there is one core to measure on",
            fix="use a machine or a power mode with more; hardware threads of a core are no two",
        )
    half = (len(cpus) + 1) // 2
    return partition_name(cpus[:half]), partition_name(cpus[half:])


def partition_name(cpus: tuple[int, ...]) -> str:
    """``cpu:0-3,6``: CPUs in the kernel's list format."""
    return f"cpu:{cpu_list(cpus)}"


def partition_cpus(name: str) -> tuple[int, ...]:
    """The CPUs of ``cpu:0-3``; raises UsageError for another name."""
    kind, _, text = name.partition(":")
    try:
        cpus = parse_cpu_list(text)
    except ValueError:
        cpus = ()
    if kind != "cpu" or not cpus:
        raise UsageError(f"{name!r} is not a partition of CPUs", fix="name them as cpu:0-3")
    return cpus


def make_contention_plan(
    machine: MachineIdentity, mode: PowerMode, profile: str, probed: Probe
) -> ContentionPlan:
    """Each accelerator as the victim of the other, in a random but repeatable order.

    ``probed``: the GPU, and the versions of what runs on either. Without a GPU, two halves of the
    CPUs are measured. Raises UsageError for an unknown profile and for a single core.
    """
    protocol = find_protocol(profile)
    n_shares, n_blocks, per_block = _SIZES[profile]  # type: ignore[index]  # checked above
    cpus = cpus_of(machine, mode)
    pair = accelerators_of(cpus, has_gpu=probed.gpu is not None)
    shares = [round((k + 1) / n_shares, 4) for k in range(n_shares)]
    trials = [
        ContentionTrial(
            victim=victim, aggressor=aggressor, victim_share=share, aggressor_share=other
        )
        for victim, aggressor in (pair, pair[::-1])
        for share, other in product(shares, [0.0, *shares])
    ]
    random.Random(SEED).shuffle(trials)  # noqa: S311 - an order, not a secret
    return ContentionPlan(
        profile=profile,  # type: ignore[arg-type]  # checked above
        machine=machine,
        processor="cpu" if probed.gpu is None else "gpu",
        gpu=probed.gpu,
        mode=mode,
        cpus=cpus,
        trials=tuple(trials),
        protocol=msgspec.structs.replace(
            protocol,
            n_blocks_min=n_blocks,
            n_accepted_min=n_blocks * per_block,
            time_cap_s=_TRIAL_CAP_S,
            n_energy_windows=0,
            settle_cap_s=0.0,
            idle_s=0.0,
        ),
        seed=SEED,
        versions=probed.versions,
        unknown={"gpu": "two halves of the CPUs are measured"} if probed.gpu is None else {},
    )
