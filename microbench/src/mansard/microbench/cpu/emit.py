"""Writing LLVM IR by hand: what the intrinsics of the kernels are put together from.

LLVM's own vectoriser neither keeps ten accumulators in flight nor emits
non-temporal stores, so kernels say exactly which vectors they load, hold and store.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from llvmlite import ir

from mansard.microbench.cpu.compiling import intrinsic, types

Builder = Any  # llvmlite ships no types
Value = Any

I64 = ir.IntType(64)
LINE_BYTES = 64
STRING_MOVE = 1  # as a width: single bytes as a program writes it, whole lines inside the core
N_LOOPS = 3  # of a sweep: blocks of vectors, single vectors, single elements
_SCALARS = {"fp32": ir.FloatType(), "fp64": ir.DoubleType()}
_OVERLOADS = {"fp32": "f32", "fp64": "f64"}


def element_bytes(precision: str) -> int:
    """Bytes of one element."""
    return {"fp32": 4, "fp64": 8}[precision]


def vector_type(precision: str, n_bytes: int) -> Any:
    """LLVM's type of ``n_bytes`` of numbers; of one number, the number itself."""
    return _lanes(_SCALARS[precision], n_bytes // element_bytes(precision))


def integer_vector(n_lane_bytes: int, n_bytes: int) -> Any:
    """LLVM's type of ``n_bytes`` of integers of a lane's width."""
    return _lanes(ir.IntType(8 * n_lane_bytes), n_bytes // n_lane_bytes)


def _lanes(scalar: Any, n_lanes: int) -> Any:
    return scalar if n_lanes == 1 else ir.VectorType(scalar, n_lanes)


def constant(element_type: Any, value: float) -> Value:
    """``value`` in every lane."""
    if isinstance(element_type, ir.VectorType):
        return ir.Constant(element_type, [value] * element_type.count)
    return ir.Constant(element_type, value)


def load(builder: Builder, element_type: Any, address: Value, n_bytes: int) -> Value:
    """Load from an address that is a multiple of ``n_bytes``."""
    pointer = builder.inttoptr(address, element_type.as_pointer())
    return builder.load(pointer, align=n_bytes)


def store(
    builder: Builder, value: Value, address: Value, n_bytes: int, *, nontemporal: bool = False
) -> None:
    """Store to an address that is a multiple of ``n_bytes``, past the caches if asked."""
    pointer = builder.inttoptr(address, value.type.as_pointer())
    instruction = builder.store(value, pointer, align=n_bytes)
    if nontemporal:
        one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        instruction.set_metadata("nontemporal", one)


def fused_multiply_add(builder: Builder, precision: str, x: Value, y: Value, z: Value) -> Value:
    """x·y + z with one rounding, in every lane."""
    lanes = f"v{x.type.count}" if isinstance(x.type, ir.VectorType) else ""
    name = f"llvm.fma.{lanes}{_OVERLOADS[precision]}"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(x.type, [x.type] * 3), name)
    return builder.call(function, [x, y, z])


def counted_loop(
    builder: Builder,
    count: Value,
    carried: Sequence[Value],
    body: Callable[[Value, Sequence[Value]], Sequence[Value]],
) -> list[Value]:
    """Run ``body(index, values)`` for index 0 … count-1; values stay in registers."""
    function = builder.function
    before = builder.block
    head = function.append_basic_block("loop")
    after = function.append_basic_block("after")
    builder.cbranch(builder.icmp_signed(">", count, I64(0)), head, after)

    builder.position_at_end(head)
    index = builder.phi(I64)
    phis = [builder.phi(value.type) for value in carried]
    results = list(body(index, phis))
    following = builder.add(index, I64(1))
    tail = builder.block  # the body may have opened blocks of its own
    builder.cbranch(builder.icmp_signed("<", following, count), head, after)

    index.add_incoming(I64(0), before)
    index.add_incoming(following, tail)
    for phi, first, result in zip(phis, carried, results, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(result, tail)

    builder.position_at_end(after)
    finals = []
    for first, result in zip(carried, results, strict=True):
        final = builder.phi(first.type)
        final.add_incoming(first, before)
        final.add_incoming(result, tail)
        finals.append(final)
    return finals


def memory_barrier(builder: Builder) -> None:
    """Tell the compiler that memory may have changed; costs no instruction.

    An empty assembly text is valid on every architecture. Without it LLVM may
    merge the repetitions of a sweep, for all but the last would be overwritten.
    """
    assembly = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", side_effect=True)
    builder.call(assembly, [])


def string_move(builder: Builder, source: Value, target: Value, n_bytes: Value) -> None:
    """x86's ``rep movsb``."""
    registers = ir.LiteralStructType([I64] * 3)
    assembly = ir.InlineAsm(
        ir.FunctionType(registers, [I64] * 3),
        "rep movsb",
        "={di},={si},={cx},0,1,2,~{memory},~{dirflag},~{fpsr},~{flags}",
        side_effect=True,
    )
    builder.call(assembly, [target, source, n_bytes])


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

    @property
    def copy_widths(self) -> tuple[int, ...]:
        """Those of a copy: on x86 the string move as well.

        It takes over a line that it will write whole without loading it first (Intel's
        optimization manual, "Enhanced REP MOVSB"): in L3 a fifth faster than loads and stores.
        """
        return self.stream_widths if self is NEON else (*self.stream_widths, STRING_MOVE)


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


@intrinsic
def barrier(_context: Any) -> Any:
    """Keep the compiler from merging repetitions; no instruction."""

    def generate(_target: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        memory_barrier(builder)
        return None

    return types.void(), generate


@intrinsic
def drain(_context: Any) -> Any:
    """Wait until non-temporal stores have left the core."""

    def generate(_target: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.fence("seq_cst")
        return None

    return types.void(), generate
