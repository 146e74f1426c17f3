"""The plan of a run: which kernels, at which sizes, under which mode and protocol."""

from __future__ import annotations

import random
from typing import ClassVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import (
    Gpu,
    MachineIdentity,
    MemoryKind,
    Operands,
    PowerMode,
    Schema,
    Scope,
)
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.protocol import PROTOCOLS
from mansard.microbench.kernels.case import Case, Stores, choose_stores
from mansard.microbench.kernels.catalog import CATALOG, FMA_PER_ELEMENT
from mansard.microbench.probing import Probe, probe
from mansard.microbench.working_sets import (
    cache_capacity_bytes,
    fma_working_set,
    stream_working_sets,
)

STREAM_PRECISION = "fp32"  # a load moves bytes; the type of its elements does not matter
POINTS_PER_OCTAVE = {"brief": 0, "quick": 1, "full": 4}  # 0: one working set a memory level
BRIEF_FMA = (1, 16, 256)  # bound by memory, near the ridge, bound by compute
BRIEF_STREAMS = ("read", "triad")
SEED = 20_130_520  # fixed, so that the same plan has the same order; the value means nothing


class TrialSpec(PlannedTrial, frozen=True, kw_only=True):
    """One trial to be made. The working set is over all threads, or the whole GPU."""

    kernel: str
    backend: str  # numba-cpu, cupy, numba-cuda or cublas
    precision: str
    working_set_bytes: int
    fma_per_element: int | None
    stores: Stores | None
    operands: Operands = "chaotic"
    scope: Scope = "core"
    memory: MemoryKind = "host"

    @property
    def title(self) -> str:
        """What a person reads while the trial runs."""
        chain = f" × {self.fma_per_element}" if self.fma_per_element is not None else ""
        backend = "" if self.backend == "numba-cpu" else f" ({self.backend})"
        size = f"{self.working_set_bytes // 1024} KiB"
        return f"{self.kernel}{chain} {self.precision}{backend}, {size}"

    def case(self, n_threads: int) -> Case:
        """What one of ``n_threads`` threads runs: its share of the working set."""
        return Case(
            kernel=self.kernel,
            precision=self.precision,
            working_set_bytes=self.working_set_bytes // n_threads,
            fma_per_element=self.fma_per_element,
            stores=self.stores,
        )


class Plan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of kernels."""

    schema: ClassVar[Schema] = Schema("plan", 3)
    kind: ClassVar[str] = "mansard.microbench.trial:KERNELS"

    trials: tuple[TrialSpec, ...]


def make_plan(
    machine: MachineIdentity, mode: PowerMode, profile: str, found: Probe | None = None
) -> Plan:
    """The plan of one mode of a machine, for the GPU where ``found`` has one.

    Without ``found``, a plan for the CPU with the libraries of this process. Trials come in
    a random but repeatable order, so that a machine that warms up or slows down in the
    middle does not bend a curve. Raises UsageError for an unknown profile.
    """
    if profile not in PROTOCOLS:
        raise UsageError(f"unknown profile {profile!r}", fix=f"use {' or '.join(PROTOCOLS)}")
    found = found or probe("cpu")
    cpus = _cpus(machine, mode)
    if found.gpu is None:
        trials = [*_fma_trials(machine, cpus, profile), *_stream_trials(machine, cpus, profile)]
    else:
        trials = _gpu_trials(found.gpu, found.versions, mode, profile)
    random.Random(SEED).shuffle(trials)  # noqa: S311 - an order, not a secret
    return Plan(
        profile=profile,  # type: ignore[arg-type]  # checked above
        machine=machine,
        processor="cpu" if found.gpu is None else "gpu",
        gpu=found.gpu,
        mode=mode,
        cpus=cpus,
        trials=tuple(trials),
        protocol=PROTOCOLS[profile],  # type: ignore[index]
        seed=SEED,
        versions=found.versions,
        unknown={"gpu": "the kernels run on the CPU"} if found.gpu is None else {},
    )


def _gpu_trials(
    gpu: Gpu, versions: dict[str, str], mode: PowerMode, profile: str
) -> list[TrialSpec]:
    """The trials of a GPU with the SMs that ``mode`` leaves on, as far as it says so."""
    from mansard.microbench.cuda.trials import gpu_trials

    n_sms = mode.n_sms or gpu.n_sms
    return gpu_trials(msgspec.structs.replace(gpu, n_sms=n_sms), profile, versions)


def _cpus(machine: MachineIdentity, mode: PowerMode) -> tuple[int, ...]:
    """The CPUs to measure on: those of the machine that the mode leaves on."""
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


def _fma_trials(machine: MachineIdentity, cpus: tuple[int, ...], profile: str) -> list[TrialSpec]:
    working_set_bytes = fma_working_set(machine, cpus)
    return [
        TrialSpec(
            kernel="fma",
            backend="numba-cpu",
            precision=precision,
            working_set_bytes=working_set_bytes,
            fma_per_element=n_fma,
            stores=None,
            unknown={"stores": "the fma kernel stores in one way only"},
        )
        for precision in ("fp32", "fp64")
        for n_fma in (BRIEF_FMA if profile == "brief" else FMA_PER_ELEMENT)
    ]


def _stream_trials(
    machine: MachineIdentity, cpus: tuple[int, ...], profile: str
) -> list[TrialSpec]:
    last_level = max((cache.level for cache in machine.caches), default=0)
    last_cache_bytes = cache_capacity_bytes(machine, cpus, last_level)
    trials = []
    for size in stream_working_sets(machine, cpus, POINTS_PER_OCTAVE[profile]):
        for kernel in CATALOG:
            if kernel.family != "stream" or (
                profile == "brief" and kernel.name not in BRIEF_STREAMS
            ):
                continue
            stores = choose_stores(size, last_cache_bytes) if kernel.has_stores else None
            unknown = {"fma_per_element": "a stream has no chain of FMA"}
            if stores is None:
                unknown["stores"] = f"the {kernel.name} kernel has no variants of stores"
            trials.append(
                TrialSpec(
                    kernel=kernel.name,
                    backend="numba-cpu",
                    precision=STREAM_PRECISION,
                    working_set_bytes=size,
                    fma_per_element=None,
                    stores=stores,
                    unknown=unknown,
                )
            )
    return trials
