"""PyTorch on the same card, in turns with ours: a matrix product and a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isqrt
from statistics import median
from typing import Any

from gpu_card.figures import Figure, at_least

from mansard.core.hardware import sm_flop_per_cycle
from mansard.measuring.sampling import calibrate, median_interval
from mansard.microbench.catalog import find_kernel
from mansard.microbench.cuda import trials
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.kernel import Backend, Case, gpu_case

N_ROUNDS, N_SAMPLES = 15, 5
SAMPLE_S = 0.005
TARGET = 1.0


@dataclass(frozen=True)
class Duel:
    """One kernel of ours, and what PyTorch does of the same size."""

    name: str
    kernel: str
    backend: Backend
    case: Case
    make_peer: Callable[[Any, CudaSource], Callable[[], None]]


def torch_figures(opened: OpenGpu, versions: Mapping[str, str]) -> Iterator[Figure]:
    """Ratios of PyTorch's time over ours: above 1 ours is faster."""
    name = "PyTorch's time over ours"
    try:
        import torch
    except ImportError:
        yield at_least(name, None, TARGET, "PyTorch is not installed")
        return
    if not torch.cuda.is_available():
        yield at_least(name, None, TARGET, "this PyTorch does not see the card")
        return
    for duel in _duels(opened, versions):
        yield _fight(torch, duel, opened)


def _duels(opened: OpenGpu, versions: Mapping[str, str]) -> Iterator[Duel]:
    gpu = opened.gpu
    for precision in ("fp16", "fp32"):
        kernel = find_kernel("gemm", "cublas")
        if gpu.sm < kernel.precisions[precision] or "cublas" not in versions:
            continue
        unit = sm_flop_per_cycle(gpu.sm, precision, "tensor")
        found = trials.gemm_set(gpu, precision, unit or sm_flop_per_cycle(gpu.sm, precision, "fma"))
        if found is not None:
            case = gpu_case("gemm", precision, found.n_bytes)
            yield Duel(f"matmul {precision}", "gemm", "cublas", case, _matmul)
    found = trials.memory_set(gpu)
    if found is not None:
        yield Duel("copy", "copy", "cupy", gpu_case("copy", "fp32", found.n_bytes), _copy)


def _matmul(torch: Any, source: CudaSource) -> Callable[[], None]:
    side = isqrt(source.launch.n_elements)
    kind = torch.float16 if source.case.precision == "fp16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.rand(side, side, device="cuda", dtype=kind) * 2 - 1 for _ in range(2))
    c = torch.empty(side, side, device="cuda", dtype=kind)
    # The same layout: rows of one with rows of the other.
    return lambda: torch.matmul(a, b.T, out=c)


def _copy(torch: Any, source: CudaSource) -> Callable[[], None]:
    a = torch.rand(source.launch.n_elements, device="cuda")
    b = torch.empty_like(a)
    return lambda: b.copy_(a)


def _fight(torch: Any, duel: Duel, opened: OpenGpu) -> Figure:
    """Rounds of both in turns, so that clocks and warmth are the same; the median decides."""
    kernel = find_kernel(duel.kernel, duel.backend)
    with CudaSource(kernel, duel.case, opened.gpu, opened.runtime) as source:
        peer = duel.make_peer(torch, source)
        repetitions = calibrate(source, SAMPLE_S, lambda: False)
        _time_peer(torch, peer, repetitions)
        ratios = []
        for _ in range(N_ROUNDS):
            raw = source.take(N_SAMPLES + 1, repetitions)[1:]
            ours_s = median(one.duration_s for one in raw) / repetitions
            ratios.append(_time_peer(torch, peer, repetitions) / ours_s)
    interval = median_interval(ratios)
    low, high = interval if interval is not None else (min(ratios), max(ratios))
    note = f"95 %: {low:.3f} to {high:.3f}; it holds unless all of that is below"
    name = f"PyTorch's time over ours, {duel.name}"
    return Figure(name, median(ratios), f"≥ {TARGET:g}", high >= TARGET, note)


def _time_peer(torch: Any, peer: Callable[[], None], repetitions: int) -> float:
    """Seconds of one call, by events as ours are; the first sample of a round is dropped."""
    seconds = []
    for _ in range(N_SAMPLES + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repetitions):
            peer()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) * 1e-3 / repetitions)
    return float(median(seconds[1:]))
