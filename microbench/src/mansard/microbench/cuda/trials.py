"""The trials of a GPU plan: chains, streams, tensor cores, latency, and a stalled kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mansard.core.hardware import sm_flop_per_cycle
from mansard.core.records import Gpu, MemoryKind, Operands
from mansard.microbench.catalog import cuda_kernels
from mansard.microbench.cuda import sizes
from mansard.microbench.kernel import FMA_PER_ELEMENT, Case, Kernel, gpu_case, shape_of
from mansard.microbench.plan import TrialSpec

BRIEF_CHAINS = (1, 16, 256)  # bound by memory, near the ridge, bound by compute
PEAK_CHAIN = 256
_MEMORY_CHAINS = 64  # the longest chain over main memory: beyond it nothing waits for memory
# The widest sweep of every profile; 0: one working set a level.
_POINTS_PER_OCTAVE = {"brief": 0, "quick": 1, "full": 4}
_LATENCY_POINTS = {"brief": 0, "quick": 1, "full": 2}
_NEEDS = {"numba-cuda": "numba-cuda", "cublas": "cublas"}  # backend -> what must be installed


@dataclass(frozen=True)
class GpuTrials:
    """The trials of a GPU, and what was left out of them, each with its reason."""

    trials: tuple[TrialSpec, ...]
    left_out: tuple[str, ...]


def gpu_trials(
    gpu: Gpu, profile: str, versions: Mapping[str, str] | None = None
) -> list[TrialSpec]:
    """The trials of a GPU; ``versions`` are those of its probe, by which backends are there."""
    return list(choose_trials(gpu, profile, versions).trials)


def choose_trials(gpu: Gpu, profile: str, versions: Mapping[str, str] | None = None) -> GpuTrials:
    """The trials of a profile, in the order of their families, and what is left out."""
    left_out = _left_out(gpu, versions)
    trials: list[TrialSpec] = []
    for kernel in cuda_kernels():
        needed = _NEEDS.get(kernel.backend)
        if versions is not None and needed is not None and needed not in versions:
            continue
        trials += _trials_of(kernel, gpu, profile)
    unique = {spec.trial_id: spec for spec in trials}
    return GpuTrials(tuple(unique.values()), left_out)


def _trials_of(kernel: Kernel, gpu: Gpu, profile: str) -> Iterator[TrialSpec]:
    if kernel.backend == "numba-cuda":
        return _twins(kernel, gpu, profile)
    if kernel.family == "fma":
        return _chains(kernel, gpu, profile)
    if kernel.family == "stream":
        return _streams(kernel, gpu, profile)
    if kernel.family == "latency":
        points = _LATENCY_POINTS[profile]
        return (_spec(kernel, gpu, "fp32", one) for one in sizes.latency_sets(gpu, points))
    if kernel.family == "tensor":
        return _tensor(kernel, gpu)
    return iter([_spec(kernel, gpu, "fp32", sizes.Sized("gpu", 0))])


def _chains(kernel: Kernel, gpu: Gpu, profile: str) -> Iterator[TrialSpec]:
    """ERT's grid in L2 for every precision, and in fp32 over main memory up to the ridge."""
    small, large = sizes.chain_set(gpu), sizes.memory_set(gpu)
    for precision in _precisions(kernel, gpu):
        whole_grid = profile == "full" or (profile == "quick" and precision == "fp32")
        lengths = FMA_PER_ELEMENT if whole_grid else BRIEF_CHAINS
        for length in lengths:
            yield _spec(kernel, gpu, precision, small, chain=length)
        yield _spec(kernel, gpu, precision, small, chain=PEAK_CHAIN, operands="constant")
        if precision == "fp32" and large is not None:
            for length in lengths:
                if length <= _MEMORY_CHAINS:
                    yield _spec(kernel, gpu, precision, large, chain=length)


def _streams(kernel: Kernel, gpu: Gpu, profile: str) -> Iterator[TrialSpec]:
    if not _has_streams(kernel, profile):
        return
    for one in sizes.stream_sets(gpu, _POINTS_PER_OCTAVE[profile]):
        if one.scope in kernel.level_scopes:
            yield _spec(kernel, gpu, "fp32", one)
    large = sizes.memory_set(gpu)
    if large is None:
        return
    yield _spec(kernel, gpu, "fp32", large, operands="constant")
    if gpu.is_integrated:
        yield _spec(kernel, gpu, "fp32", large, memory="zero-copy")


def _has_streams(kernel: Kernel, profile: str) -> bool:
    return profile != "brief" or kernel.is_brief


def _tensor(kernel: Kernel, gpu: Gpu) -> Iterator[TrialSpec]:
    for precision in _precisions(kernel, gpu):
        one: sizes.Sized | None = sizes.chain_set(gpu)
        if kernel.backend == "cublas":
            limit = sm_flop_per_cycle(gpu.sm, precision, "tensor")
            limit = limit or sm_flop_per_cycle(gpu.sm, precision, "fma")
            one = sizes.gemm_set(gpu, precision, limit)
        if one is not None:
            yield _spec(kernel, gpu, precision, one)
            yield _spec(kernel, gpu, precision, one, operands="constant")


def _twins(kernel: Kernel, gpu: Gpu, profile: str) -> Iterator[TrialSpec]:
    """What Numba's compiler makes of a kernel, beside the trial of CUDA C++ at that size."""
    large = sizes.memory_set(gpu)
    if kernel.family == "fma" and "fp32" in kernel.precisions:
        yield _spec(kernel, gpu, "fp32", sizes.chain_set(gpu), chain=PEAK_CHAIN)
    elif kernel.family == "stream" and large is not None and _has_streams(kernel, profile):
        yield _spec(kernel, gpu, "fp32", large)


def _precisions(kernel: Kernel, gpu: Gpu) -> list[str]:
    return [name for name in kernel.precisions if kernel.runs_in(name, gpu.sm)]


def _spec(
    kernel: Kernel,
    gpu: Gpu,
    precision: str,
    one: sizes.Sized,
    *,
    chain: int | None = None,
    operands: Operands = "chaotic",
    memory: MemoryKind = "device",
) -> TrialSpec:
    case = gpu_case(kernel.name, precision, one.n_bytes, chain, operands, one.scope, memory)
    unknown = {"stores": "a GPU's kernels store in one way only"}
    if chain is None:
        unknown["fma_per_element"] = "no chain of FMA"
    return TrialSpec(
        kernel=kernel.name,
        backend=kernel.backend,
        precision=precision,
        working_set_bytes=_swept_bytes(kernel, case, gpu),
        fma_per_element=chain,
        stores=None,
        operands=operands,
        scope=one.scope,
        memory=memory,
        unknown=unknown,
    )


def _swept_bytes(kernel: Kernel, case: Case, gpu: Gpu) -> int:
    """The working set as the launch rounds it; of a kernel that chooses its own, all arrays."""
    arrays = kernel.launch(case, shape_of(gpu)).array_bytes
    return sum(arrays[: kernel.n_arrays]) if kernel.n_arrays else sum(arrays)


def _left_out(gpu: Gpu, versions: Mapping[str, str] | None) -> tuple[str, ...]:
    """What this GPU or this installation lacks, in words for a person."""
    lines = []
    for kernel in cuda_kernels():
        lacking = [name for name in kernel.precisions if not kernel.runs_in(name, gpu.sm)]
        if lacking:
            lines.append(
                f"{kernel.name} ({kernel.backend}) in {', '.join(lacking)}: "
                f"not with compute capability {gpu.sm / 10:.1f}"
            )
    for backend, needed in _NEEDS.items():
        if versions is not None and needed not in versions:
            lines.append(f"everything of {backend}: {needed} is not installed or does not load")
    if sizes.memory_set(gpu) is None:
        lines.append("main memory: it is too small for a working set well beyond L2")
    return tuple(lines)
