"""A program to be metered: one of Mansard's kernels for some seconds, and the work that it did."""

from __future__ import annotations

from mansard.measuring.sampling import calibrate
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.trial_specs import PEAK_CHAIN, chain_set
from mansard.microbench.kernel import find_kernel, gpu_case
from tools.card_check.opening import Card

METRIC = r"([0-9.]+) TFLOP"
_SAMPLE_S, _N_SAMPLES = 0.01, 20


def run_load(card: Card, seconds: float) -> float:
    """Run chains of FMA in fp32 for so long by the card's clock; returns their FLOP."""
    kernel, opened = find_kernel("fma", "cupy"), card.opened
    case = gpu_case("fma", "fp32", chain_set(card.gpu).n_bytes, PEAK_CHAIN)
    with CudaSource(kernel, case, card.gpu, opened.runtime, opened.clock) as source:
        repetitions = calibrate(source, _SAMPLE_S, lambda: False)
        end_s, n_done = opened.clock.now_s() + seconds, 0
        while opened.clock.now_s() < end_s:
            n_done += repetitions * len(source.take(_N_SAMPLES, repetitions))
        return float(n_done * kernel.work_flop(case, source.launch))
