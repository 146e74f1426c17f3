"""What matrices are filled with, in every precision that is multiplied.

Random values up to 1 in magnitude, int8 over its whole range: products of both signs, so
sums wander instead of growing, and none leaves its range. Or ½ everywhere (1 in int8).
"""

from __future__ import annotations

import numpy as np

from mansard.core.records import Operands
from mansard.microbench.cuda.kernel import Array
from mansard.microbench.cuda.rounding import bf16_bits, bf16_values, tf32_values

_SEED = 5
_CONSTANT = 0.5
_E4M3_ONE = 0b0_0111_000  # sign, 4 bits of exponent with bias 7, 3 bits of mantissa
_E4M3_HALF = 0b0_0110_000


def fill_operands(precision: str, operands: Operands, n_elements: int) -> Array:
    """So many elements; bf16 and fp8 as bit patterns."""
    if operands == "constant":
        return _fill_constant(precision, n_elements)
    random = np.random.default_rng(_SEED)
    if precision == "int8":
        return random.integers(-128, 128, n_elements, dtype=np.int8)
    if precision == "fp8":  # every pattern up to ±1: all mantissas, small values as often
        magnitudes = random.integers(0, _E4M3_ONE + 1, n_elements, dtype=np.uint8)
        return np.asarray(magnitudes | random.integers(0, 2, n_elements, dtype=np.uint8) << 7)
    return _encode(precision, random.uniform(-1.0, 1.0, n_elements))


def _fill_constant(precision: str, n_elements: int) -> Array:
    if precision == "int8":
        return np.ones(n_elements, dtype=np.int8)
    if precision == "fp8":
        return np.full(n_elements, _E4M3_HALF, dtype=np.uint8)
    return _encode(precision, np.full(n_elements, _CONSTANT))


def _encode(precision: str, values: Array) -> Array:
    if precision == "bf16":
        return bf16_bits(values)
    if precision == "tf32":
        return tf32_values(values.astype(np.float32))
    return values.astype({"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}[precision])


def operand_values(precision: str, elements: Array) -> Array:
    """What the elements stand for, as float64."""
    if precision == "bf16":
        return bf16_values(elements)
    if precision == "fp8":
        return _e4m3_values(elements)
    return elements.astype(np.float64)


def _e4m3_values(bits: Array) -> Array:
    """OCP 8-bit floating point, E4M3: exponent 0 is subnormal; NaN (all ones) is not used."""
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent = (bits >> 3 & 0xF).astype(np.int64)
    mantissa = (bits & 0x7).astype(np.float64)
    normal = (1.0 + mantissa / 8) * np.exp2(exponent - 7.0)
    subnormal = mantissa / 8 * 2.0**-6
    return np.asarray(sign * np.where(exponent == 0, subnormal, normal))
