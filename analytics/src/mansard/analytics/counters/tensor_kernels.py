"""What the name of a kernel says of its matrix instructions: their shape and their precision.

cuBLAS writes the shape into a name as ``s16816gemm``, CUTLASS's wmma kernels as ``s161616``, cuDNN
and TensorRT as ``tensor16x8x16``: M × N × K of one instruction, so 2·M·N·K FLOP of a warp.
"""

from __future__ import annotations

import re
from types import MappingProxyType

# An ``s161616`` of wmma is two instructions of 16 × 8 × 16 on all chips since Ampere.
_FLOP = MappingProxyType(
    {
        "884": 2 * 8 * 8 * 4,
        "8816": 2 * 8 * 8 * 16,
        "1684": 2 * 16 * 8 * 4,
        "1688": 2 * 16 * 8 * 8,
        "16816": 2 * 16 * 8 * 16,
        "161616": 2 * 16 * 8 * 16,
        "16832": 2 * 16 * 8 * 32,
        "16864": 2 * 16 * 8 * 64,
    }
)
_JOINED = re.compile(r"(?<![0-9A-Za-z])[a-z](16816|161616|16832|16864|1688|1684|8816|884)(?![0-9])")
_SPELLED = re.compile(r"tensor(\d{1,3})x(\d{1,3})x(\d{1,3})")
_PRECISIONS = (
    (re.compile(r"bf16|bfloat", re.I), "bf16"),
    (re.compile(r"tf32", re.I), "tf32"),
    (re.compile(r"e4m3|e5m2|fp8", re.I), "fp8"),
    (re.compile(r"int8|imma|(?<![a-z0-9])[is]8(?![0-9])|(?<![a-z])i8i8", re.I), "int8"),
    (re.compile(r"f16|fp16|half|h16|h884|h1688", re.I), "fp16"),
)


def instruction_flop(kernel: str) -> int | None:
    """FLOP of one matrix instruction of a warp; None where the name does not say its shape."""
    if found := _JOINED.search(kernel):
        return _FLOP[found[1]]
    if found := _SPELLED.search(kernel):
        m, n, k = map(int, found.groups())
        return 2 * m * n * k
    return None


def usual_instruction_flop(sm: int, precision: str) -> int | None:
    """The same of the largest instruction of a chip, which libraries use; None: not known.

    PTX ISA, ``mma.sync``: m16n8k16 of fp16 and bf16, k8 of tf32 and k32 of int8 since Ampere (80);
    m16n8k8 of Turing (75), m8n8k4 of Volta (70, 72; a step of it is one instruction).
    """
    if 80 <= sm < 90:
        return {"fp16": 4096, "bf16": 4096, "tf32": 2048, "int8": 8192}.get(precision)
    if sm == 75:
        return {"fp16": 2048, "int8": 2048}.get(precision)
    return 512 if sm in (70, 72) and precision == "fp16" else None


def kernel_precision(kernel: str) -> str | None:
    """The precision that a name says; None where it says none."""
    return next((name for pattern, name in _PRECISIONS if pattern.search(kernel)), None)


def operand_precision(kernel: str, network: str | None) -> str | None:
    """The precision of matrix operands: what the name says, else that of the network."""
    said = kernel_precision(kernel)
    return said or ("tf32" if network == "fp32" else network)
