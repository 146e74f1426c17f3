"""The plan of a run of kernels in one mode, from a probe of what can be measured."""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

import msgspec

from mansard.core.records import Gpu, MachineIdentity, PowerMode, Processor, Record, Schema
from mansard.core.version import VERSION
from mansard.measuring.plan import RunPlan, cpus_of
from mansard.measuring.protocol import find_protocol
from mansard.microbench.cpu.trial_specs import cpu_trials
from mansard.microbench.cuda.probe import probe_gpu
from mansard.microbench.cuda.trial_specs import gpu_trials
from mansard.microbench.kernel import TrialSpec, cpu_kernels, cuda_kernels

SEED = 20_130_520  # fixed, so that the same plan has the same order; the value means nothing
_ON_CPU = "not looked for: the kernels run on the CPU"


class KernelPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of kernels."""

    schema: ClassVar[Schema] = Schema("plan", 3)
    kind: ClassVar[str] = "mansard.microbench.trial:KERNELS"

    trials: tuple[TrialSpec, ...]


class Probe(Record, frozen=True, kw_only=True):
    """What a measuring process can use, probed before anything is planned."""

    schema: ClassVar[Schema] = Schema("probe", 1)

    versions: dict[str, str]  # of everything that can change a timing
    gpu: Gpu | None


def probe(processor: Processor) -> Probe:
    """What this process can measure ``processor`` with; a GPU that cannot be used has its reason.

    The versions are those that change a timing: ours, the compilers' and, by the hash of
    its source, every kernel's.
    """
    if processor == "cpu":
        return Probe(versions=cpu_versions(), gpu=None, unknown={"gpu": _ON_CPU})
    probed = probe_gpu()
    return Probe(
        versions=cuda_versions(probed.versions, probed.gpu),
        gpu=probed.gpu,
        unknown={} if probed.gpu is not None else {"gpu": probed.reason},
    )


def cuda_versions(libraries: Mapping[str, str], gpu: Gpu | None) -> dict[str, str]:
    """Versions of everything that can change a timing on ``gpu``, beside those of ``libraries``."""
    sm = 0 if gpu is None else gpu.sm
    kernels = {
        f"kernel {kernel.name} {kernel.backend}": kernel.source_hash
        for kernel in cuda_kernels()
        if kernel.has_code_for(sm)
    }
    return {"mansard": VERSION, **libraries, **kernels}


def cpu_versions() -> dict[str, str]:
    """Versions of everything that can change a timing on the CPU."""
    kernels = {f"kernel {kernel.name}": kernel.source_hash for kernel in cpu_kernels()}
    return {"mansard": VERSION, **library_versions("numba", "llvmlite", "numpy"), **kernels}


def library_versions(*names: str) -> dict[str, str]:
    """Versions of the libraries that are installed."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def make_plan(
    machine: MachineIdentity, mode: PowerMode, profile: str, probed: Probe | None = None
) -> KernelPlan:
    """The plan of one mode of a machine, for the GPU where ``probed`` has one.

    Without ``probed``, a plan for the CPU with the libraries of this process. Trials come in
    a random but repeatable order, so that a machine that warms up or slows down in the
    middle does not bend a curve. Raises UsageError for an unknown profile.
    """
    protocol = find_protocol(profile)
    probed = probed or probe("cpu")
    cpus = cpus_of(machine, mode)
    if probed.gpu is None:
        trials = cpu_trials(machine, cpus, profile)
    else:
        trials = _gpu_trials(probed.gpu, probed.versions, mode, profile)
    random.Random(SEED).shuffle(trials)  # noqa: S311 - an order, not a secret
    return KernelPlan(
        profile=profile,  # type: ignore[arg-type]  # checked above
        machine=machine,
        processor="cpu" if probed.gpu is None else "gpu",
        gpu=probed.gpu,
        mode=mode,
        cpus=cpus,
        trials=tuple(trials),
        protocol=protocol,
        seed=SEED,
        versions=probed.versions,
        unknown={"gpu": "the kernels run on the CPU"} if probed.gpu is None else {},
    )


def _gpu_trials(
    gpu: Gpu, versions: dict[str, str], mode: PowerMode, profile: str
) -> list[TrialSpec]:
    """The trials of a GPU with the SMs that ``mode`` leaves on, as far as it says so."""
    n_sms = mode.n_sms or gpu.n_sms
    return gpu_trials(msgspec.structs.replace(gpu, n_sms=n_sms), profile, versions)
