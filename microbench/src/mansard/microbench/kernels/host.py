"""The vector registers of the CPU we run on, as LLVM's host detection reports them."""

from __future__ import annotations

import platform
from functools import lru_cache

import msgspec

# Vectors that a chain of fused multiply-adds keeps in flight. One takes 4 to 5 cycles and a
# core starts up to two a cycle, so 10 hide the latency; with 16 registers, 12 leave room for
# the constant. 8, 12 and 16 reached the same rate on a Zen 4; 20 spilled and halved it.
N_ACCUMULATORS = 12


class VectorUnit(msgspec.Struct, frozen=True, kw_only=True):
    """Width and number of the architectural vector registers."""

    name: str
    n_bytes: int
    n_registers: int

    @property
    def stream_widths(self) -> tuple[int, ...]:
        """Widths of loads and stores worth trying, in bytes.

        Cores differ in how they move 512 bits: in one piece, or in two halves (Zen 4,
        for one), which then better are two instructions, unless another hardware thread
        competes for issue slots. Nothing but a race on the machine itself tells.
        """
        return (self.n_bytes, self.n_bytes // 2) if self.n_bytes == 64 else (self.n_bytes,)


def n_unrolled(width_bytes: int) -> int:
    """Vectors that a stream moves in one turn of its loop.

    Four keep more than one load a cycle in flight through an operation of two
    cycles; narrow ones need more, or the loop's own instructions begin to count.
    """
    return max(4, 128 // width_bytes)


# Register files: Intel SDM vol. 1 §15 (ZMM0-31), §14 (YMM0-15), Arm ARM B1.2 (V0-31).
AVX512 = VectorUnit(name="avx512", n_bytes=64, n_registers=32)
AVX2 = VectorUnit(name="avx2", n_bytes=32, n_registers=16)
SSE = VectorUnit(name="sse", n_bytes=16, n_registers=16)
NEON = VectorUnit(name="neon", n_bytes=16, n_registers=32)


def choose_unit(machine: str, features: dict[str, bool]) -> VectorUnit:
    """The widest unit LLVM may use for a CPU, by its architecture and features."""
    if machine in {"x86_64", "AMD64"}:
        if features.get("avx512f"):
            return AVX512
        return AVX2 if features.get("avx2") and features.get("fma") else SSE
    # AArch64 always has 32 registers of 128 bits. SVE adds nothing on the cores of Jetson
    # boards: Cortex-A78AE has none, Neoverse-V3AE's is 128 bits wide.
    return NEON


@lru_cache(maxsize=1)
def host_unit() -> VectorUnit:
    """The vector unit of this machine."""
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    return choose_unit(platform.machine(), features)
