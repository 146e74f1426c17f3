"""What is known of a trial's kernel before it runs: its work, its traffic and its source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mansard.core.records import Family, Gpu
from mansard.microbench.kernels.catalog import find_kernel
from mansard.microbench.plan import Plan, TrialSpec

if TYPE_CHECKING:
    from mansard.measuring.sampling import Samples


@dataclass(frozen=True)
class Facts:
    """Work and traffic of one repetition, over all threads or the whole GPU."""

    family: Family
    work_flop: int
    traffic_bytes: int
    traffic_counting: str
    source_hash: str


def facts_of(spec: TrialSpec, plan: Plan, samples: Samples, gpu: Gpu | None) -> Facts:
    """The facts of a trial that has run; on a GPU with the SMs that were on."""
    if gpu is not None:
        return _cuda_facts(spec, gpu)
    kernel = find_kernel(spec.kernel)
    case = replace(spec.case(len(plan.cpus)), vector_bytes=samples.vector_bytes)
    return Facts(
        family=kernel.family,
        work_flop=kernel.work_flop(case) * len(plan.cpus),
        traffic_bytes=kernel.traffic_bytes(case) * len(plan.cpus),
        traffic_counting=kernel.traffic_counting(case),
        source_hash=kernel.source_hash,
    )


def _cuda_facts(spec: TrialSpec, gpu: Gpu) -> Facts:
    from mansard.microbench.cuda.catalog import find_cuda_kernel
    from mansard.microbench.cuda.source import case_of, shape_of

    kernel = find_cuda_kernel(spec.kernel, spec.backend)
    case = case_of(spec)
    launch = kernel.launch(case, shape_of(gpu))
    return Facts(
        family=kernel.family,
        work_flop=kernel.work_flop(case, launch),
        traffic_bytes=kernel.traffic_bytes(case, launch),
        traffic_counting=kernel.counting,
        source_hash=kernel.source_hash,
    )
