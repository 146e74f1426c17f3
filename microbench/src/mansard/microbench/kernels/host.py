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
    n_path_bytes: int  # what one load or store moves between core and L1 in one go

    @property
    def n_unrolled(self) -> int:
        """Vectors that a stream moves in one turn of its loop.

        Four keep more than one load a cycle in flight through an operation of two
        cycles; narrow ones need more, or the loop's own instructions begin to count.
        """
        return max(4, 128 // self.n_path_bytes)


# Register files: Intel SDM vol. 1 §15 (ZMM0-31), §14 (YMM0-15), Arm ARM B1.2 (V0-31).
AVX512 = VectorUnit(name="avx512", n_bytes=64, n_registers=32, n_path_bytes=64)
AVX512_HALVES = VectorUnit(name="avx512-256", n_bytes=64, n_registers=32, n_path_bytes=32)
AVX2 = VectorUnit(name="avx2", n_bytes=32, n_registers=16, n_path_bytes=32)
SSE = VectorUnit(name="sse", n_bytes=16, n_registers=16, n_path_bytes=16)
NEON = VectorUnit(name="neon", n_bytes=16, n_registers=32, n_path_bytes=16)

# Cores that move 512-bit registers in two halves of 256 bits (AMD, Software Optimization
# Guide for the Zen4 Microarchitecture, 57647, §2.12: two loads and one store of 256 bits).
_HALF_PATHS = frozenset({"znver4"})


def choose_unit(machine: str, cpu: str, features: dict[str, bool]) -> VectorUnit:
    """The widest unit LLVM may use for a CPU, by its machine, LLVM's name, and features."""
    if machine in {"x86_64", "AMD64"}:
        if features.get("avx512f"):
            return AVX512_HALVES if cpu in _HALF_PATHS else AVX512
        return AVX2 if features.get("avx2") and features.get("fma") else SSE
    # AArch64 always has 32 registers of 128 bits. SVE adds nothing on the cores of Jetson
    # boards: Cortex-A78AE has none, Neoverse-V3AE's is 128 bits wide.
    return NEON


@lru_cache(maxsize=1)
def host_unit() -> VectorUnit:
    """The vector unit of this machine."""
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    return choose_unit(platform.machine(), llvm.get_host_cpu_name(), features)
