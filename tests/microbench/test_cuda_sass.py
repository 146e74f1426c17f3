"""What NVIDIA's compilers make of the CUDA C++ sources, read from their machine code.

NVRTC and nvdisasm come with wheels and need no GPU. Shares are of the instructions of the
hottest innermost loop; ``python -m pytest -s`` prints them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from mansard.core.errors import UsageError
from mansard.microbench.cuda.building import OPTIONS
from mansard.microbench.kernel import cuda_kernels, find_kernel, gpu_case
from tests.microbench.cuda_compilers import (
    Compiler,
    disassemble,
    find_compilers,
    find_disassembler,
    read_functions,
)
from tests.microbench.cuda_sass import Instruction, hottest_loop, innermost_loops, parse_sass, share

# Xavier, Orin, H100 and H200, B200, Thor (101 in CUDA 12.9, 110 from 13.0).
ARCHITECTURES = (72, 87, 90, 100, 101, 110)
# Nano, TX2, Turing: nothing reads their loops here, but their compilers take the sources.
COMPILED_ONLY = (53, 62, 75)

Code = tuple[Instruction, ...]


def pairs(architectures: tuple[int, ...]) -> list[Any]:
    """A case for each compiler and architecture that it has."""
    found: list[Any] = [
        pytest.param(compiler, sm, id=f"nvrtc{'.'.join(map(str, compiler.version))}-sm_{sm}")
        for compiler in find_compilers()
        for sm in architectures
        if sm in compiler.architectures()
    ]
    missing = pytest.mark.skip(reason="the wheels nvidia-cuda-nvrtc and -nvrtc-cu12 are missing")
    return found or [pytest.param(None, 0, marks=missing, id="no-nvrtc")]


every_pair = pytest.mark.parametrize(("compiler", "sm"), pairs(ARCHITECTURES))
needs_nvdisasm = pytest.mark.skipif(
    find_disassembler() is None, reason="the wheel nvidia-cuda-nvdisasm is missing"
)


SOURCES = tuple(kernel for kernel in cuda_kernels() if kernel.backend == "cupy")


@cache
def machine_code(compiler: Compiler, sm: int) -> dict[str, bytes]:
    """All functions of all sources."""
    code: dict[str, bytes] = {}
    for source in dict.fromkeys(kernel.source for kernel in SOURCES):
        code |= read_functions(compiler.cubin(source, sm, OPTIONS))
    return code


@cache
def read_sass(compiler: Compiler, sm: int) -> dict[str, str]:
    return disassemble(machine_code(compiler, sm), sm)


@cache
def read_kernel(compiler: Compiler, sm: int, entry: str) -> Code:
    return parse_sass(read_sass(compiler, sm)[entry])


def spills(code: Code) -> int:
    return sum(i.is_a("LDL") or i.is_a("STL") for i in code)


def wide(name: str) -> Callable[[Instruction], bool]:
    return lambda i: i.is_a(name) and ".128" in i.opcode


def print_share(sm: int, compiler: Compiler, entry: str, name: str, value: float) -> None:
    version = ".".join(map(str, compiler.version))
    sys.stdout.write(f"sm_{sm} NVRTC {version} {entry}: {name} {value:.4f} of the inner loop\n")


@needs_nvdisasm
@every_pair
@pytest.mark.parametrize("scope", ["gpu", "sm"])
@pytest.mark.parametrize(
    ("precision", "name"),
    [("fp32", "FFMA"), ("fp64", "DFMA"), ("fp16", "HFMA2"), ("bf16", "HFMA2")],
)
def test_chains_are_nearly_all_fma(
    compiler: Compiler, sm: int, precision: str, name: str, scope: str
) -> None:
    if sm < find_kernel("fma", "cupy").precisions[precision]:
        pytest.skip(f"sm_{sm} has no FMA in {precision}")
    entry = f"fma_{precision}_{scope}_chaotic"
    code = read_kernel(compiler, sm, entry)
    loop = hottest_loop(code, lambda i: i.is_a(name))
    if precision == "fp64":  # NVRTC 12.9 paces sm_101's few fp64 units with NOPs
        loop = tuple(i for i in loop if not i.is_a("NOP"))
    found = share(loop, name)
    print_share(sm, compiler, entry, name, found)
    assert sum(i.is_a(name) for i in loop) == 512
    assert found >= 0.98
    # Four vectors in each thread, in and out, none narrower; no register in local memory.
    assert sum(map(wide("LDG"), code)) == sum(map(wide("STG"), code)) == 4
    assert spills(code) == 0


@needs_nvdisasm
@every_pair
def test_constant_operands_run_the_same_instructions(compiler: Compiler, sm: int) -> None:
    loops = [
        hottest_loop(
            read_kernel(compiler, sm, f"fma_fp32_gpu_{operands}"),
            lambda i: i.is_a("FFMA"),
        )
        for operands in ("chaotic", "constant")
    ]
    chaotic, constant = ([i.opcode for i in loop] for loop in loops)
    assert chaotic == constant


@needs_nvdisasm
@every_pair
@pytest.mark.parametrize("scope", ["gpu", "sm"])
@pytest.mark.parametrize(
    ("name", "n_loads", "n_stores"), [("read", 4, 0), ("copy", 2, 2), ("triad", 4, 2)]
)
def test_streams_access_128_bits_in_their_inner_loop(
    compiler: Compiler, sm: int, name: str, n_loads: int, n_stores: int, scope: str
) -> None:
    code = read_kernel(compiler, sm, f"{name}_fp32_{scope}")
    loop = hottest_loop(code, wide("LDG"))
    assert sum(map(wide("LDG"), loop)) == sum(i.is_a("LDG") for i in loop) == n_loads
    assert sum(map(wide("STG"), loop)) == sum(i.is_a("STG") for i in loop) == n_stores
    # Past L1 the load is that of the whole GPU, through L1 that of one SM (CTA on Volta).
    marks = {"gpu": ("STRONG.GPU",), "sm": ("STRONG.SM", "STRONG.CTA")}[scope]
    assert all(i.opcode.endswith(marks) for i in loop if i.is_a("LDG"))
    if name == "triad":
        assert sum(i.is_a("FFMA") for i in loop) == 8
    # All issue slots of a loop over 16 bytes a lane: L1 takes 4 cycles for each access of a
    # warp, in which the SM can issue 16 instructions.
    assert len(loop) <= 16 * (n_loads + n_stores)
    assert spills(code) == 0


@needs_nvdisasm
@every_pair
@pytest.mark.parametrize(
    ("precision", "name", "n_each"),
    [
        # Machine instructions for the 128 of 16 x 8 results that a loop holds. Volta: 16 x 16
        # results 4 at a time, each 16 HMMA.884 or 4 IMMA.8816 a K of 16; 4 rounds of them.
        ("fp16", "HMMA", {72: 256}),
        ("int8", "IMMA", {72: 128}),
        ("bf16", "HMMA", {}),
        ("tf32", "HMMA", {}),
    ],
)
def test_products_are_nearly_all_tensor_instructions(
    compiler: Compiler, sm: int, precision: str, name: str, n_each: dict[int, int]
) -> None:
    if sm < find_kernel("mma", "cupy").precisions[precision]:
        pytest.skip(f"tensor cores of sm_{sm} have no {precision}")
    entry = f"tensor_{precision}"
    code = read_kernel(compiler, sm, entry)
    loop = hottest_loop(code, lambda i: i.is_a(name))
    found = share(loop, name)
    print_share(sm, compiler, entry, name, found)
    assert sum(i.is_a(name) for i in loop) == n_each.get(sm, 128)
    assert found >= 0.94
    assert spills(code) == 0


@needs_nvdisasm
@pytest.mark.parametrize(("compiler", "sm"), pairs((90,)))
@pytest.mark.parametrize(
    ("precision", "opcode"),
    [
        ("fp16", "HGMMA.64x256x16.F32"),
        ("bf16", "HGMMA.64x256x16.F32.BF16"),
        ("tf32", "HGMMA.64x256x8.F32.TF32"),
        ("fp8", "QGMMA.64x256x32.F32.E4M3.E4M3"),
        ("int8", "IGMMA.64x256x32.S8.S8"),
    ],
)
def test_products_of_a_warpgroup_are_its_own_instructions(
    compiler: Compiler, sm: int, precision: str, opcode: str
) -> None:
    kernel = find_kernel("wgmma", "cupy")
    functions = read_functions(compiler.cubin(kernel.source, f"{sm}a", OPTIONS))
    entry = kernel.entry(gpu_case("wgmma", precision, 0))
    code = parse_sass(disassemble({entry: functions[entry]}, sm)[entry])
    loop = hottest_loop(code, lambda i: i.is_a(opcode.split(".", maxsplit=1)[0]))
    # 16 products to the loop, and no other of the function's: each takes the tensor cores of an SM
    # for 128 cycles (64·256·16·2 FLOP of 4096 a cycle), the other instructions one or two.
    assert [i.opcode for i in loop if "GMMA" in i.opcode] == [opcode] * 16
    assert sum("GMMA" in i.opcode for i in code) == 16
    # Waited for once: where the compiler does not understand the registers, it waits for each.
    assert sum(i.is_a("WARPGROUP") for i in loop) <= 2
    assert len(loop) <= 16 + 15 + 12  # NVRTC 12.9 puts a NOP between any two
    # B goes to shared memory, and to no address of global memory: only sums and clocks do.
    assert any(i.is_a("STS") for i in code)
    assert not any(i.is_a("STG") and "128" in i.opcode for i in code)
    assert spills(code) == 0


@every_pair
def test_code_of_an_architecture_is_in_no_other(compiler: Compiler, sm: int) -> None:
    kernel = find_kernel("wgmma", "cupy")
    assert not any(name.startswith("wgmma") for name in machine_code(compiler, sm))
    case = gpu_case("wgmma", "fp16", 0)
    if sm == 90:
        kernel.check(case, sm)
    else:
        with pytest.raises(UsageError, match="capability"):
            kernel.check(case, sm)


@every_pair
def test_fp8_is_measured_only_where_it_is_not_emulated(compiler: Compiler, sm: int) -> None:
    kernel = find_kernel("mma", "cupy")
    assert "tensor_fp8" not in machine_code(compiler, sm)
    with pytest.raises(UsageError, match="capability"):
        kernel.check(gpu_case("mma", "fp8", 0), sm)


@needs_nvdisasm
@pytest.mark.parametrize(("compiler", "sm"), pairs((89, 120)))
def test_fp8_is_a_tensor_instruction_where_it_is_measured(compiler: Compiler, sm: int) -> None:
    kernel = find_kernel("mma", "cupy")
    kernel.check(gpu_case("mma", "fp8", 0), sm)
    functions = read_functions(compiler.cubin(kernel.source, sm, OPTIONS))
    (text,) = disassemble({"fp8": functions["tensor_fp8"]}, sm).values()
    loop = hottest_loop(parse_sass(text), lambda i: i.is_a("QMMA"))
    assert sum(i.is_a("QMMA") for i in loop) == 128
    assert not any(i.is_a(name) for i in loop for name in ("F2FP", "FADD", "HMMA"))


@needs_nvdisasm
@every_pair
@pytest.mark.parametrize("scope", ["gpu", "sm"])
def test_a_chase_waits_for_every_load(compiler: Compiler, sm: int, scope: str) -> None:
    code = read_kernel(compiler, sm, f"latency_{scope}")
    loop = hottest_loop(code, lambda i: i.is_a("LDG"))
    assert sum(i.is_a("LDG") for i in loop) == 32
    assert not any(".128" in i.opcode or ".64" in i.opcode for i in loop if i.is_a("LDG"))
    # Two additions make the next address; what else there is keeps count of the hops.
    assert len(loop) <= 32 * 3 + 6


@needs_nvdisasm
@every_pair
def test_a_stalled_gpu_sleeps(compiler: Compiler, sm: int) -> None:
    code = read_kernel(compiler, sm, "stalled")
    (loop,) = innermost_loops(code)
    assert sum(i.is_a("NANOSLEEP") for i in loop) == 1


@needs_nvdisasm
@every_pair
def test_an_empty_kernel_ends_at_once(compiler: Compiler, sm: int) -> None:
    code = read_kernel(compiler, sm, "launch")
    assert any(one.is_a("EXIT") for one in code)
    assert innermost_loops(code) == []
    touched = ("LDG", "STG", "LDL", "STL", "LDS", "STS", "ATOM", "RED")
    assert not any(one.opcode.startswith(touched) for one in code)


@needs_nvdisasm
@every_pair
def test_every_kernel_reads_both_clocks_twice(compiler: Compiler, sm: int) -> None:
    for entry, text in read_sass(compiler, sm).items():
        if entry == "launch":  # it does nothing at all
            assert "SR_CLOCKLO" not in text
            continue
        assert text.count("SR_CLOCKLO") == 2, entry
        if entry != "stalled":  # it waits by that clock
            assert text.count("SR_GLOBALTIMERLO") == 2, entry


@pytest.mark.parametrize(("compiler", "sm"), pairs(COMPILED_ONLY))
def test_older_architectures_compile_every_source(compiler: Compiler, sm: int) -> None:
    entries = set(machine_code(compiler, sm))
    for kernel in SOURCES:
        for precision, lowest in kernel.precisions.items():
            if lowest <= sm:
                assert kernel.entry(gpu_case(kernel.name, precision, 0)) in entries
