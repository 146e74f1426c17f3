"""What others published for Hopper cards, each figure with its source.

Shown beside what was measured, never judged: cards, clocks, sizes and libraries differ. Sources:
stas00/ml-engineering, compute/accelerator; ai-dynamo/aiconfigurator, measured products of its
systems h100_sxm and h200_sxm; te42kyfo/gpu-benches and RRZE-HPC/gpu-benches, their results of
H200 and GH200; sitar-lab/NeuSight, measured products of PyTorch 2.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One published figure: of which kernel, on which card, by whom."""

    kernel: str  # as the table's lines are called
    card: str  # H100 is the SXM module
    text: str  # with its unit
    source: str


_AICONFIGURATOR, _MAMF = "aiconfigurator", "ml-engineering"
_TE42KYFO, _RRZE = "te42kyfo/gpu-benches", "RRZE/gpu-benches"

FIGURES = (
    Figure("gemm bf16", "H100", "794.5 TFLOP/s, best 854 to 956", f"{_MAMF}; {_AICONFIGURATOR}"),
    Figure("gemm bf16", "H200", "best 861 to 940 TFLOP/s", _AICONFIGURATOR),
    Figure("gemm fp8", "H100", "1402.6 TFLOP/s, best 1507 to 1601", f"{_MAMF}; {_AICONFIGURATOR}"),
    Figure("gemm fp8", "H200", "1453.4 TFLOP/s, best 1534 to 1678", f"{_MAMF}; {_AICONFIGURATOR}"),
    Figure("gemm fp32", "H100", "55.2 TFLOP/s", "NeuSight"),
    Figure("fma fp32", "H200", "42.6 TFLOP/s of two chains, not the peak", _TE42KYFO),
    Figure("read DRAM", "H100", "2838 to 2981 GB/s by GEMV", _AICONFIGURATOR),
    Figure("read DRAM", "H200", "3888 GB/s", _TE42KYFO),
    Figure("read DRAM", "H200", "4073 to 4103 GB/s by GEMV", _AICONFIGURATOR),
    Figure("triad DRAM", "H200", "3534 GB/s", _TE42KYFO),
    Figure("triad DRAM", "GH200", "3783 GB/s", _RRZE),
    Figure("read L2", "H200", "13.5 TB/s of 1.5 MB, 9.9 of 15, 9.1 of 44", _TE42KYFO),
    Figure("latency L1", "GH200", "32 cycles", _RRZE),
    # By the plateaus of its curve: sets of 0.3 to 25 MiB, of 37 to 54, and above 150.
    Figure("latency L2 near", "GH200", "280 cycles", _RRZE),
    Figure("latency L2 far", "GH200", "481 to 522 cycles", _RRZE),
    Figure("latency DRAM", "GH200", "680 to 689 cycles", _RRZE),
    Figure("highest power", "H200", "509 to 701 W by bf16 products", _AICONFIGURATOR),
    Figure("power DRAM", "H200", "572 to 597 W", _TE42KYFO),
    Figure("power fp32", "H200", "396 W at 42.4 TFLOP/s", _TE42KYFO),
)
# The names by which CUDA calls the cards.
_CARDS = {
    "H100": re.compile(r"\bH100\b.*\b(HBM3|SXM)"),
    "H200": re.compile(r"\bH200\b"),
    "GH200": re.compile(r"\bGH200\b"),
}
_SM = 90  # compute capability of all of them


def card_of(name: str) -> str | None:
    """The card that CUDA calls ``name``, as the figures call it; None: none of theirs."""
    return next((card for card, pattern in _CARDS.items() if pattern.search(name)), None)


def published_for(kernel: str, name: str, sm: int) -> str:
    """The figures of a kernel for a card; of its relatives, named, where it has none itself."""
    if sm != _SM:
        return ""
    of_kernel = [one for one in FIGURES if one.kernel == kernel]
    same = [one for one in of_kernel if one.card == card_of(name)]
    if same:
        return "; ".join(f"{one.text} ({one.source})" for one in same)
    return "; ".join(f"{one.card}: {one.text} ({one.source})" for one in of_kernel)


@dataclass(frozen=True)
class EnergyCosts:
    """What a FLOP, a byte and a second cost."""

    flop_j: float
    byte_j: float
    constant_w: float


# Of the 55 sizes of te42kyfo's gpu-roofline on an H200 (power beside rate): Mansard's energy model
# fitted to them. FLOP are fp32 multiply-adds on CUDA cores, bytes those of main memory.
H200_COSTS = EnergyCosts(flop_j=5.94e-12, byte_j=124e-12, constant_w=98.0)
