"""A simulated AGX Orin 64GB in its 30W mode, measured on its GPU: what ran, how fast.

8 SMs at 612 MHz, memory at 3199 MHz. Limits: fp32 8 × 256 × 612 MHz = 1.253376 TFLOP/s; fp16
on tensor cores 8 × 2048 × 612 MHz = 10.027008 TFLOP/s, int8 twice, tf32 half of it; DRAM the
lesser of 3199 MHz × 2 × 32 bytes = 204.736 GB/s and the port's 204.5 × 612 MHz = 125.154 GB/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mansard.core.records import Family, MemoryKind, Operands, Scope
from tests.analytics.factory import KIB, MIB

HZ = 612e6
N_SMS = 8
FP32 = 1.253376e12
TENSOR_FP16 = 10.027008e12
DRAM = 125.154e9
L1_RATE, L2_RATE = 8 * 128 * HZ, 8 * 64 * HZ  # 128 and 64 bytes a cycle and SM
# Cycles of one load from each level.
CYCLES = {"L1": 35, "L2": 210, "DRAM": 550}


@dataclass(frozen=True)
class Run:
    """One kernel on one working set: what a trial is made of."""

    kernel: str
    family: Family
    rate: float  # FLOP/s, byte/s or loads/s
    precision: str = "fp32"
    backend: str = "cupy"
    fma_per_element: int | None = None
    working_set_bytes: int = 512 * KIB  # 64 KiB for each of 8 SMs; L2 holds it
    scope: Scope = "gpu"
    memory: MemoryKind = "device"
    operands: Operands = "chaotic"


def chain_runs() -> list[Run]:
    """Chains in L2 of every precision, in DRAM of fp32; Numba's; and a constant twin."""
    lengths = (1, 4, 16, 64, 256, 1024)
    limits = {"fp32": 0.98 * FP32, "fp64": 0.98 * 8 * 4 * HZ, "fp16": 2.4e12}
    found = [
        Run("fma", "fma", min(peak, length / 4 * L2_RATE), name, "cupy", length)
        for name, peak in limits.items()
        for length in lengths
    ]
    found += [
        Run("fma", "fma", min(0.98 * FP32, n / 4 * DRAM), "fp32", "cupy", n, 64 * MIB)
        for n in lengths[:4]
    ]
    numba = Run("fma", "fma", 0.97 * FP32, "fp32", "numba-cuda", 256)
    twin = Run("fma", "fma", 0.98 * FP32, "fp32", "cupy", 256, operands="constant")
    return [*found, numba, twin]


def tensor_runs() -> list[Run]:
    shares = {"fp16": 1.0, "bf16": 1.0, "tf32": 0.5, "int8": 2.0}
    found = [
        Run("mma", "tensor", 0.95 * share * TENSOR_FP16, precision, working_set_bytes=768 * KIB)
        for precision, share in shares.items()
    ]
    size = 48 * MIB
    return [
        *found,
        Run("gemm", "tensor", 0.9 * TENSOR_FP16, "fp16", "cublas", working_set_bytes=size),
        Run("gemm", "tensor", 0.93 * FP32, "fp32", "cublas", working_set_bytes=size),
    ]


def stream_runs() -> list[Run]:
    """L1 in slices, then L2 and DRAM swept by all SMs; DRAM by Numba and in place as well."""
    sliced = [KIB * size for size in (256, 512, 1024)]  # L1 of 8 SMs: 1.5 MiB
    found = [Run("read", "stream", L1_RATE, working_set_bytes=s, scope="sm") for s in sliced]
    factors = {"read": 1.0, "copy": 0.95, "triad": 0.96}
    for size in (512 * KIB, MIB, 2 * MIB, 48 * MIB, 64 * MIB):
        peak = L2_RATE if size <= 3 * MIB else 0.97 * DRAM
        found += [
            Run(kernel, "stream", peak * factor, working_set_bytes=size)
            for kernel, factor in factors.items()
        ]
    large = 64 * MIB
    numba = Run("copy", "stream", 0.9 * DRAM, backend="numba-cuda", working_set_bytes=large)
    in_place = Run("read", "stream", 0.7 * DRAM, memory="zero-copy", working_set_bytes=large)
    twin = Run("read", "stream", 0.97 * DRAM, working_set_bytes=large, operands="constant")
    return [*found, numba, in_place, twin]


def latency_runs() -> list[Run]:
    sets: Sequence[tuple[str, int, Scope]] = (
        ("L1", 64 * KIB, "sm"),
        ("L1", 128 * KIB, "sm"),
        ("L2", MIB, "gpu"),
        ("L2", 2 * MIB, "gpu"),
        ("DRAM", 64 * MIB, "gpu"),
    )
    return [
        Run("latency", "latency", HZ / CYCLES[level], working_set_bytes=size, scope=scope)
        for level, size, scope in sets
    ]


STALL = Run("stalled", "stalled", 1e4, working_set_bytes=0)
# 4 µs one by one, 1.25 µs in a graph
LAUNCHES = [
    Run("graph", "launch", 800_000.0, working_set_bytes=0),
    Run("launch", "launch", 250_000.0, working_set_bytes=0),
]


def all_runs() -> list[Run]:
    return [*chain_runs(), *tensor_runs(), *stream_runs(), *latency_runs(), STALL, *LAUNCHES]
