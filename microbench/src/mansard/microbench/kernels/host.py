"""The vector registers of the CPU we run on, as LLVM's host detection reports them."""

from __future__ import annotations

import platform
from functools import lru_cache

import msgspec


class VectorUnit(msgspec.Struct, frozen=True, kw_only=True):
    """Width and number of the architectural vector registers."""

    name: str
    n_bytes: int
    n_registers: int

    @property
    def n_accumulators(self) -> int:
        """Vectors kept in flight by a kernel.

        A fused multiply-add takes 4 to 5 cycles and a core starts up to two a cycle,
        so at least 10 independent ones hide the latency; a constant and a spare
        register must remain, or the compiler spills to memory.
        """
        return 16 if self.n_registers >= 32 else 12


# Register files: Intel SDM vol. 1 §15 (ZMM0-31), §14 (YMM0-15), Arm ARM B1.2 (V0-31).
AVX512 = VectorUnit(name="avx512", n_bytes=64, n_registers=32)
AVX2 = VectorUnit(name="avx2", n_bytes=32, n_registers=16)
SSE = VectorUnit(name="sse", n_bytes=16, n_registers=16)
NEON = VectorUnit(name="neon", n_bytes=16, n_registers=32)


def choose_unit(machine: str, features: dict[str, bool]) -> VectorUnit:
    """The widest unit with fused multiply-add that LLVM may use for this CPU."""
    if machine in {"x86_64", "AMD64"}:
        if features.get("avx512f"):
            return AVX512
        return AVX2 if features.get("avx2") and features.get("fma") else SSE
    # AArch64 always has 32 registers of 128 bits; SVE code would use the same pipes
    # on the cores of Jetson boards (Cortex-A78AE has no SVE, Neoverse-V3AE has 128 bits).
    return NEON


@lru_cache(maxsize=1)
def host_unit() -> VectorUnit:
    """The vector unit of this machine."""
    import llvmlite.binding as llvm

    return choose_unit(platform.machine(), dict(llvm.get_host_cpu_features()))
