"""The trials of a GPU plan, and the working sets that they visit: some for every memory level.

The trials are chains, streams, tensor cores, latency, a stalled kernel, and launches of an empty
one. The levels' windows are core/caches.py's, which the analysis goes by too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mansard.core.caches import (
    UPPER_MARGIN,
    LevelWindow,
    dram_low_bytes,
    gpu_level_windows,
    latency_windows,
    scope_of,
)
from mansard.core.hardware import sm_flop_per_cycle
from mansard.core.records import Gpu, MemoryKind, Operands, Scope
from mansard.microbench.cuda.kernels.gemm import matrix_bytes
from mansard.microbench.kernel import (
    FMA_PER_ELEMENT,
    Case,
    Kernel,
    TrialSpec,
    cuda_kernels,
    gpu_case,
    shape_of,
)

BRIEF_CHAINS = (1, 16, 256)  # bound by memory, near the ridge, bound by compute
PEAK_CHAIN = 256
_MEMORY_CHAINS = 64  # the longest chain over main memory: beyond it nothing waits for memory
# The widest sweep of every profile; 0: one working set a level.
_POINTS_PER_OCTAVE = {"brief": 0, "quick": 1, "full": 4}
_LATENCY_POINTS = {"brief": 0, "quick": 1, "full": 2}
_NEEDS = {"numba-cuda": "numba-cuda", "cublas": "cublas"}  # backend -> what must be installed

_KIB, _MIB = 1 << 10, 1 << 20
# Of the L2: half of it, or of its partition, is the middle of what runs from it; 16 times it leaves
# a margin of two to where main memory begins, and a sweep lasts long against what its ends cost.
_DRAM_SETS = 16
_DRAM_LEAST_BYTES = 64 * _MIB
_UNKNOWN_L2_BYTES = 64 * _MIB  # more than any card has but the largest
_MEMORY_SHARE = 0.25  # share of the card's memory for all arrays of a trial
# What one round of an SM's threads sweeps (shaping.py): scope gpu 1024, 512 or 256 threads with
# four vectors of 16 bytes in each, scope sm 512. Sets are whole rounds, as large ones as fit.
_ROUNDS = {"gpu": (64 * _KIB, 32 * _KIB, 16 * _KIB), "sm": (32 * _KIB,)}
# One thread steps through lines of 128 bytes; some ten thousand take no room on any host.
_LATENCY_LEAST_BYTES = 16 * _KIB
_LATENCY_DRAM_SETS = 9  # of L2: just beyond where main memory begins, for the host makes the order
_LINE_BYTES = 128
# A product lasts about so long at its limit: long against a launch, short enough for many
# samples; the sides are whole tiles of any of cuBLAS's kernels.
_GEMM_S = 0.003
_GEMM_STEP, _GEMM_MOST = 256, 8192
_GUESSED_HZ = 1e9


@dataclass(frozen=True)
class Sized:
    """A working set and the scope that sweeps it."""

    scope: Scope
    n_bytes: int


def chain_set(gpu: Gpu) -> Sized:
    """The working set of chains of FMA: one round of every thread, which fits into L2."""
    wanted = _ROUNDS["gpu"][0] * gpu.n_sms
    if gpu.l2_bytes is not None:
        wanted = min(wanted, int(UPPER_MARGIN * gpu.l2_bytes))
    return Sized("gpu", _whole(wanted, "gpu", gpu.n_sms))


def level_sets(gpu: Gpu) -> tuple[Sized, ...]:
    """One for every cache level that is known and that whole rounds fit into."""
    sets = []
    for window in gpu_level_windows(gpu, gpu.n_sms):
        scope = scope_of(window.level)
        working_set = Sized(scope, _whole(_inside(window), scope, gpu.n_sms))
        if window.low_bytes < working_set.n_bytes <= window.high_bytes:
            sets.append(working_set)
    return tuple(sets)


def memory_set(gpu: Gpu) -> Sized | None:
    """A working set of main memory; None where the memory is too small for one."""
    l2_bytes = gpu.l2_bytes or _UNKNOWN_L2_BYTES
    size = max(_DRAM_SETS * l2_bytes, _DRAM_LEAST_BYTES)
    if gpu.memory_bytes is not None:
        size = min(size, int(gpu.memory_bytes * _MEMORY_SHARE))
    working_set = Sized("gpu", _whole(size, "gpu", gpu.n_sms))
    return working_set if working_set.n_bytes > dram_low_bytes(l2_bytes) else None


def stream_sets(gpu: Gpu, points_per_octave: int) -> tuple[Sized, ...]:
    """Working sets of the streams: the levels' own, and with points between, a sweep.

    With 0 points an octave there is one for each level.
    """
    sets = list(level_sets(gpu))
    largest = memory_set(gpu)
    if largest is not None:
        sets.append(largest)
    for window in gpu_level_windows(gpu, gpu.n_sms):
        scope = scope_of(window.level)
        end = window.high_bytes
        if window.level > 1 and largest is not None:
            end = largest.n_bytes * 0.75  # the largest is there already
        for size in _ladder(_ROUNDS[scope][-1] * gpu.n_sms, end, points_per_octave):
            sets.append(Sized(scope, _whole(size, scope, gpu.n_sms)))
    return _in_order(sets)


def latency_sets(gpu: Gpu, points_per_octave: int) -> tuple[Sized, ...]:
    """Working sets of one thread: L1 of its SM, L2, main memory, and with points between.

    Of an L2 of two partitions one set that a partition holds, and one that only both hold.
    """
    sets = [
        Sized(scope_of(window.level), _whole_lines(_inside(window)))
        for window in latency_windows(gpu)
        if window.low_bytes < window.high_bytes
    ]
    beyond = _LATENCY_DRAM_SETS * (gpu.l2_bytes or _UNKNOWN_L2_BYTES)
    if gpu.memory_bytes is None or beyond <= gpu.memory_bytes * _MEMORY_SHARE:
        sets.append(Sized("gpu", _whole_lines(beyond)))
    for size in _ladder(_LATENCY_LEAST_BYTES, beyond * 0.75, points_per_octave):
        sets.append(Sized("gpu", _whole_lines(size)))
    return _in_order(sets)


def gemm_set(gpu: Gpu, precision: str, flop_per_cycle: int | None) -> Sized | None:
    """Three square matrices whose product lasts about 3 ms; None: too large for memory.

    Where the limit is not known, that of an SM of 64 multiply-adds a cycle stands in.
    """
    rate = gpu.n_sms * (flop_per_cycle or 128) * (gpu.gpu_hz or _GUESSED_HZ)
    side = (rate * _GEMM_S / 2) ** (1 / 3)  # 2·n³ FLOP
    n = int(min(max(side // _GEMM_STEP, 1) * _GEMM_STEP, _GEMM_MOST))
    n_bytes = sum(matrix_bytes(precision, n))
    if gpu.memory_bytes is not None and n_bytes > gpu.memory_bytes * _MEMORY_SHARE:
        return None
    return Sized("gpu", n_bytes)


def _inside(window: LevelWindow) -> float:
    """Half of what the level holds; the geometric middle where that lies below its window."""
    half = window.high_bytes / UPPER_MARGIN / 2
    return half if half > window.low_bytes else (window.low_bytes * window.high_bytes) ** 0.5


def _ladder(first: float, end: float, points_per_octave: int) -> list[float]:
    """Sizes by equal ratios; none with 0 points an octave."""
    sizes = []
    size = float(first)
    while points_per_octave and size <= end:
        sizes.append(size)
        size *= 2 ** (1 / points_per_octave)
    return sizes


def _in_order(sets: list[Sized]) -> tuple[Sized, ...]:
    return tuple(
        sorted(set(sets), key=lambda working_set: (working_set.scope != "sm", working_set.n_bytes))
    )


def _whole(size: float, scope: Scope, n_sms: int) -> int:
    """Rounded down to whole rounds, of as many threads as there are bytes for; at least one."""
    units = [n_bytes * n_sms for n_bytes in _ROUNDS[scope]]
    unit = next((unit for unit in units if unit <= size), units[-1])
    return max(1, int(size // unit)) * unit


def _whole_lines(size: float) -> int:
    return int(size // _LINE_BYTES) * _LINE_BYTES


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
        return (
            _spec(kernel, gpu, "fp32", working_set) for working_set in latency_sets(gpu, points)
        )
    if kernel.family == "tensor":
        return _tensor(kernel, gpu)
    return iter([_spec(kernel, gpu, "fp32", Sized("gpu", 0))])


def _chains(kernel: Kernel, gpu: Gpu, profile: str) -> Iterator[TrialSpec]:
    """ERT's grid in L2 for every precision, and in fp32 over main memory up to the ridge."""
    small, large = chain_set(gpu), memory_set(gpu)
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
    for working_set in stream_sets(gpu, _POINTS_PER_OCTAVE[profile]):
        if working_set.scope in kernel.level_scopes:
            yield _spec(kernel, gpu, "fp32", working_set)
    large = memory_set(gpu)
    if large is None:
        return
    yield _spec(kernel, gpu, "fp32", large, operands="constant")
    if gpu.is_integrated:
        yield _spec(kernel, gpu, "fp32", large, memory="zero-copy")


def _has_streams(kernel: Kernel, profile: str) -> bool:
    return profile != "brief" or kernel.is_brief


def _tensor(kernel: Kernel, gpu: Gpu) -> Iterator[TrialSpec]:
    for precision in _precisions(kernel, gpu):
        working_set: Sized | None = chain_set(gpu)
        if kernel.backend == "cublas":
            limit = sm_flop_per_cycle(gpu.sm, precision, "tensor")
            limit = limit or sm_flop_per_cycle(gpu.sm, precision, "fma")
            working_set = gemm_set(gpu, precision, limit)
        if working_set is not None:
            yield _spec(kernel, gpu, precision, working_set)
            yield _spec(kernel, gpu, precision, working_set, operands="constant")


def _twins(kernel: Kernel, gpu: Gpu, profile: str) -> Iterator[TrialSpec]:
    """The trials of a kernel's Numba version, at the size of its CUDA C++ trial."""
    large = memory_set(gpu)
    if kernel.family == "fma" and "fp32" in kernel.precisions:
        yield _spec(kernel, gpu, "fp32", chain_set(gpu), chain=PEAK_CHAIN)
    elif kernel.family == "stream" and large is not None and _has_streams(kernel, profile):
        yield _spec(kernel, gpu, "fp32", large)


def _precisions(kernel: Kernel, gpu: Gpu) -> list[str]:
    return [name for name in kernel.precisions if kernel.runs_in(name, gpu.sm)]


def _spec(
    kernel: Kernel,
    gpu: Gpu,
    precision: str,
    working_set: Sized,
    *,
    chain: int | None = None,
    operands: Operands = "chaotic",
    memory: MemoryKind = "device",
) -> TrialSpec:
    case = gpu_case(
        kernel.name, precision, working_set.n_bytes, chain, operands, working_set.scope, memory
    )
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
        scope=working_set.scope,
        memory=memory,
        unknown=unknown,
    )


def _swept_bytes(kernel: Kernel, case: Case, gpu: Gpu) -> int:
    """The working set as the launch rounds it; of a kernel that chooses its own, all arrays."""
    arrays = kernel.launch(case, shape_of(gpu)).array_bytes
    return sum(arrays[: kernel.n_arrays]) if kernel.n_arrays else sum(arrays)


def _left_out(gpu: Gpu, versions: Mapping[str, str] | None) -> tuple[str, ...]:
    """What this GPU or this installation lacks, in words."""
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
    if memory_set(gpu) is None:
        lines.append("main memory: it is too small for a working set well beyond L2")
    return tuple(lines)
