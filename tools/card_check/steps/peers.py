"""PyTorch on the same card, in turns with Mansard's kernels of the same size, on random data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import isqrt
from statistics import median
from typing import Any

from mansard.core.errors import MansardError, UsageError
from mansard.core.hardware import sm_flop_per_cycle
from mansard.measuring.sampling import calibrate, median_interval
from mansard.microbench.cuda import trial_specs as trials
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.kernel import Backend, Case, find_kernel, gpu_case
from tools.card_check.opening import Card
from tools.card_check.words import words_of

N_ROUNDS, N_SAMPLES = 9, 5
SAMPLE_S = 0.005
_PRODUCTS = ("fp16", "bf16", "tf32", "fp32", "fp64", "int8", "fp8")
_STREAMS = ("copy", "read")
Call = Callable[[], object]


@dataclass(frozen=True)
class Duel:
    """One kernel of Mansard's, and what PyTorch does of the same size."""

    kernel: str
    backend: Backend
    case: Case

    @property
    def name(self) -> str:
        """As the table calls the kernel."""
        return f"{self.kernel} {self.case.precision if self.kernel == 'gemm' else 'DRAM'}"


def compare_with_torch(card: Card) -> dict[str, Any]:
    """By kernel the ratio of rates, ours over PyTorch's, with its interval; or why none."""
    try:
        import torch
    except ImportError:
        return {"why": "PyTorch is not installed"}
    if not torch.cuda.is_available():
        return {"why": "this PyTorch does not see the card"}
    found: dict[str, Any] = {"version": str(torch.__version__), "duels": {}}
    for duel in duels(card):
        try:
            found["duels"][duel.name] = _fight(torch, duel, card)
        except (MansardError, RuntimeError, TypeError, AttributeError) as error:
            found["duels"][duel.name] = {"why": words_of(error)}
    return found


def duels(card: Card) -> Iterator[Duel]:
    """Products in every precision that cuBLAS has here, and streams over main memory."""
    gpu, product = card.gpu, find_kernel("gemm", "cublas")
    for precision in _PRODUCTS if "cublas" in card.versions else ():
        with suppress(UsageError):
            rate = sm_flop_per_cycle(gpu.sm, precision, "tensor")
            if precision in product.precisions and product.runs_in(precision, gpu.sm):
                rate = rate or sm_flop_per_cycle(gpu.sm, precision, "fma")
                sized = trials.gemm_set(gpu, precision, rate)
                if sized is not None:
                    yield Duel("gemm", "cublas", gpu_case("gemm", precision, sized.n_bytes))
    memory = trials.memory_set(gpu)
    if memory is not None:
        for kernel in _STREAMS:
            yield Duel(kernel, "cupy", gpu_case(kernel, "fp32", memory.n_bytes))


def _fight(torch: Any, duel: Duel, card: Card) -> dict[str, float]:
    """Rounds of both in turns, so that clocks and warmth are the same."""
    kernel, opened = find_kernel(duel.kernel, duel.backend), card.opened
    with CudaSource(kernel, duel.case, card.gpu, opened.runtime, opened.clock) as source:
        peer = _peer(torch, duel, source)
        repetitions = calibrate(source, SAMPLE_S, lambda: False)
        _time_peer(torch, peer, repetitions)
        ours_s, theirs_s = [], []
        for _ in range(N_ROUNDS):
            raw = source.take(N_SAMPLES + 1, repetitions)[1:]  # the first sample is dropped
            ours_s.append(median(one.duration_s for one in raw) / repetitions)
            theirs_s.append(_time_peer(torch, peer, repetitions))
        work = kernel.work_flop(duel.case, source.launch)
        amount = work or kernel.traffic_bytes(duel.case, source.launch)
    ratios = [theirs / ours for theirs, ours in zip(theirs_s, ours_s, strict=True)]
    interval = median_interval(ratios) or (min(ratios), max(ratios))
    return {
        "ratio": median(ratios),
        "low": interval[0],
        "high": interval[1],
        "peer_per_s": amount / median(theirs_s),
    }


def _peer(torch: Any, duel: Duel, source: CudaSource) -> Call:
    if duel.kernel != "gemm":
        a = torch.rand(source.launch.n_elements, device="cuda")
        if duel.kernel == "read":
            total: Call = a.sum
            return total
        b = torch.empty_like(a)
        return lambda: b.copy_(a)
    return _product(torch, duel.case.precision, isqrt(source.launch.n_elements))


def _product(torch: Any, precision: str, side: int) -> Call:
    """Rows of one matrix with rows of the other, as in ours."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"

    def random(kind: Any) -> Any:
        return (torch.rand(side, side, device="cuda") * 2 - 1).to(kind)

    if precision == "int8":
        a, b = (
            torch.randint(-128, 128, (side, side), device="cuda", dtype=torch.int8)
            for _ in range(2)
        )
        return lambda: torch._int_mm(a, b.T)
    if precision == "fp8":
        a, b = random(torch.float8_e4m3fn), random(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        options = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
        return lambda: torch._scaled_mm(a, b.T, **options)
    kinds = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
    a, b = (random(kinds.get(precision, torch.float32)) for _ in range(2))
    c = torch.empty_like(a)
    return lambda: torch.matmul(a, b.T, out=c)


def _time_peer(torch: Any, peer: Call, repetitions: int) -> float:
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
