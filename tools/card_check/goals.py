"""What is asked for, as data: shares that a correct kernel reaches, by compute capability.

A share is of FLOP a cycle and SM × SMs × the clock that was measured, so that a card at its power
limit is not blamed for its clock. A kernel without a goal is shown and not judged: no card of that
kind is known well enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mansard.microbench.cuda.sampling import EXCESS

__all__ = ["EXCESS", "Goal", "goal_of"]


@dataclass(frozen=True)
class Goal:
    """The least share of the limit, and of cuBLAS's rate for the same precision in the same run."""

    of_limit: float | None = None
    of_cublas: float | None = None


_Goals = Mapping[tuple[str, str], Goal]  # kernel and precision

_CORES: _Goals = {
    ("fma", "fp32"): Goal(0.97),
    ("fma", "fp64"): Goal(0.95),
    ("fma", "fp16"): Goal(0.93),
    ("fma", "bf16"): Goal(0.93),
    ("gemm", "fp16"): Goal(0.75),
    ("gemm", "bf16"): Goal(0.75),
    ("gemm", "tf32"): Goal(0.70),
    ("gemm", "fp32"): Goal(0.70),
    ("gemm", "fp64"): Goal(0.80),
}
_TENSOR = ("fp16", "bf16", "tf32", "int8", "fp8")
# 8.x: mma.sync is the instruction of the peak.
_AMPERE: _Goals = {**_CORES, **{("mma", precision): Goal(0.90) for precision in _TENSOR}}
# 9.0: published microbenchmarks of mma.sync reach 0.58 to 0.75 of the peak, and cuBLAS, by wgmma,
# 0.8 to 0.95. So its goal is a share of what cuBLAS reached on this card.
_HOPPER: _Goals = {
    **_CORES,
    ("gemm", "fp8"): Goal(0.65),
    **{("mma", precision): Goal(of_cublas=0.55) for precision in _TENSOR},
    **{("wgmma", precision): Goal(of_cublas=0.90) for precision in _TENSOR},
}
_BY_SM: Mapping[int, _Goals] = {80: _AMPERE, 86: _AMPERE, 87: _AMPERE, 89: _AMPERE, 90: _HOPPER}


def goal_of(kernel: str, precision: str, sm: int) -> Goal:
    """The goal of a compute kernel; its shares are None if no goal is known for the card."""
    return _BY_SM.get(sm, {}).get((kernel, precision), Goal())


# Streams over main memory, of clock × 2 × bus / 8.
MEMORY: Mapping[str, float] = {"read": 0.90, "triad": 0.86, "copy": 0.86}
# HBM3e of an H200 keeps less of its peak: published reads reach 0.79 to 0.87 of it.
H200_MEMORY: Mapping[str, float] = {"read": 0.84, "triad": 0.80, "copy": 0.80}


def memory_goal(kernel: str, name: str) -> float | None:
    """The least share of the memory's limit for a stream on the card of that name."""
    return (H200_MEMORY if "H200" in name else MEMORY).get(kernel)


L1_SHARE, L1_BYTES_PER_CYCLE, L1_SINCE = 0.85, 128, 70  # of an SM, loads of 128 bits
L2_BYTES_PER_S: Mapping[int, float] = {90: 4.0e12}  # published: 5.5 to 13.5 TB/s by size
# Cycles of a dependent load with the two integer instructions of its address, by level. Published
# without these: L1 32 to 34, near 265 to 280, far 475 to 522, main memory 650 to 690.
LATENCY_CYCLES: Mapping[int, Mapping[str, tuple[float, float]]] = {
    90: {
        "L1": (28, 60),
        "L2": (180, 360),
        "L2 near": (180, 360),
        "L2 far": (330, 650),
        "DRAM": (450, 1600),
    }
}
LAUNCH_US: Mapping[str, tuple[float, float]] = {"launch": (0.8, 8.0), "graph": (0.4, 4.0)}
# Numba's rate beside that of CUDA C++, whose loads are four times as wide: 0.954 on an H100.
TWIN = (0.93, 1.04)
PEER = 0.95  # our rate over PyTorch's, at the same size, in turns
POWER_SHARE = (0.5, 1.05)  # of the power limit, by the kernel that draws most
ENERGY_CV = 0.03  # of repeated windows
COSTS_RATIO = (0.5, 2.0)  # of the fitted costs over the published ones, on the same card
COUNTED: Mapping[str, tuple[float | None, float]] = {  # counted over Mansard's, by what is counted
    "FLOP": (0.99, 1.01),
    "operations": (0.99, 1.03),
    "DRAM bytes": (0.93, 1.10),
    "L2 bytes": (0.97, 1.05),  # the fabric between the halves of L2 may count bytes twice
    "L1 bytes": (0.97, 1.05),
    "bytes beyond": (None, 0.10),  # of the next level, of a set that the one before holds
}
