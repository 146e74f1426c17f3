"""What chains and matrices hold in every precision: patterns of bits, and correct rounding.

Matrices hold random values up to 1 in magnitude, int8 over its whole range: products of both
signs, so sums wander instead of growing, and none leaves its range. Or ½ everywhere (1 in int8).
fp4, which has 15 values, holds all of them, up to 6.

Chains need z² + c correctly rounded, with nothing but NumPy. Sums are first rounded to odd in a
wider format (the last bit set where anything is lost), then to nearest: with two bits more than
the target that equals one rounding (Boldo and Melquiond, "Emulation of a FMA and correctly
rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008).
"""

from __future__ import annotations

import numpy as np

from mansard.core.records import Operands
from mansard.microbench.kernel import Array

_SEED = 5
_CONSTANT = 0.5
_E4M3_ONE = 0b0_0111_000  # sign, 4 bits of exponent with bias 7, 3 bits of mantissa
_E4M3_HALF = 0b0_0110_000
# E2M1: sign, 2 bits of exponent with bias 1, 1 bit of mantissa (OCP Microscaling Formats).
_E2M1_VALUES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_E2M1_HALF = 0b0_00_1


def fill_operands(precision: str, operands: Operands, n_elements: int) -> Array:
    """``n_elements`` of them; bf16, fp8 and fp4 as bit patterns, fp4 as twice as many in bytes."""
    if operands == "constant":
        return _fill_constant(precision, n_elements)
    random = np.random.default_rng(_SEED)
    if precision == "int8":
        return random.integers(-128, 128, n_elements, dtype=np.int8)
    if precision == "fp4":  # every pattern, two in a byte
        return random.integers(0, 256, n_elements, dtype=np.uint8)
    if precision == "fp8":  # every pattern up to ±1: all mantissas, small values as often
        magnitudes = random.integers(0, _E4M3_ONE + 1, n_elements, dtype=np.uint8)
        return np.asarray(magnitudes | random.integers(0, 2, n_elements, dtype=np.uint8) << 7)
    return _encode(precision, random.uniform(-1.0, 1.0, n_elements))


def _fill_constant(precision: str, n_elements: int) -> Array:
    if precision == "int8":
        return np.ones(n_elements, dtype=np.int8)
    if precision == "fp8":
        return np.full(n_elements, _E4M3_HALF, dtype=np.uint8)
    if precision == "fp4":
        return np.full(n_elements, _E2M1_HALF << 4 | _E2M1_HALF, dtype=np.uint8)
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
    if precision == "fp4":
        return _e2m1_values(elements)
    return elements.astype(np.float64)


def operand_products(precision: str, elements: Array, n_rows: int, n_columns: int, k: int) -> Array:
    """A·B of one pair of matrices after the other, (n_pairs, ``n_rows``, ``n_columns``) in float64.

    Of each pair the elements hold A, ``n_rows`` × ``k`` by rows, then B, ``k`` × ``n_columns`` by
    columns.
    """
    pairs = operand_values(precision, elements).reshape(-1, n_rows + n_columns, k)
    products: Array = pairs[:, :n_rows] @ pairs[:, n_rows:].transpose(0, 2, 1)
    return products


def _e4m3_values(bits: Array) -> Array:
    """OCP 8-bit floating point, E4M3: exponent 0 is subnormal; NaN (all ones) is not used."""
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent = (bits >> 3 & 0xF).astype(np.int64)
    mantissa = (bits & 0x7).astype(np.float64)
    normal = (1.0 + mantissa / 8) * np.exp2(exponent - 7.0)
    subnormal = mantissa / 8 * 2.0**-6
    return np.asarray(sign * np.where(exponent == 0, subnormal, normal))


def _e2m1_values(pairs: Array) -> Array:
    """Of each byte the lower four bits first, as cuBLASLt and PTX pack them."""
    bits = np.stack([pairs & 0xF, pairs >> 4], axis=-1).reshape(*pairs.shape[:-1], -1)
    return np.asarray(np.where(bits & 0x8, -1.0, 1.0) * _E2M1_VALUES[bits & 0x7])


_SPLITTER = 2.0**27 + 1  # Dekker's: halves of 26 bits, whose products are exact
_BF16_LOST_BITS = 52 - 7  # significands of float64 and of bfloat16
_TF32_LOST_BITS = 23 - 10  # significands of float32 and of TF32


def square_add_fp64(z: Array, c: float) -> Array:
    """z² + c in float64, rounded once."""
    high, low = _exact_square(z)
    upper, lower = _two_sum(np.full_like(z, c), low)
    top, rest = _two_sum(high, upper)
    return np.asarray(top + _add_to_odd(lower, rest))


def square_add_fp32(z: Array, c: float) -> Array:
    """z² + c in float32, rounded once. Squares of 24 bits are exact in float64."""
    wide = z.astype(np.float64)
    return _add_to_odd(wide * wide, np.full_like(wide, c)).astype(np.float32)


def square_add_fp16(z: Array, c: float) -> Array:
    """z² + c in float16, rounded once."""
    wide = z.astype(np.float64)
    return _add_to_odd(wide * wide, np.full_like(wide, c)).astype(np.float16)


def square_add_bf16(bits: Array, c: float) -> Array:
    """z² + c in bfloat16, given and returned as 16-bit patterns, rounded once."""
    wide = bf16_values(bits)
    return bf16_bits(_add_to_odd(wide * wide, np.full_like(wide, c)))


def bf16_bits(values: Array) -> Array:
    """float64 values rounded to the nearest bfloat16, ties to even, as 16-bit patterns.

    For values within float32's normal range.
    """
    rounded: Array = _round_bits(values.view(np.uint64), _BF16_LOST_BITS).view(np.float64)
    patterns: Array = (rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return patterns


def bf16_values(bits: Array) -> Array:
    """What 16-bit patterns of bfloat16 stand for, as float64."""
    wide: Array = bits.astype(np.uint32) << 16
    values: Array = wide.view(np.float32).astype(np.float64)
    return values


def tf32_values(values: Array) -> Array:
    """float32 values rounded to the nearest TF32, ties to even, kept as float32."""
    return _round_bits(values.view(np.uint32), _TF32_LOST_BITS).view(np.float32)


def _round_bits(bits: Array, n_lost: int) -> Array:
    """Patterns rounded to nearest even, their last ``n_lost`` bits zero."""
    one = bits.dtype.type(1)
    lost = bits.dtype.type(n_lost)
    half_less_one = (one << (lost - one)) - one
    last_kept = (bits >> lost) & one
    return np.asarray(((bits + half_less_one + last_kept) >> lost) << lost)


def _exact_square(z: Array) -> tuple[Array, Array]:
    """z² as an unevaluated sum of two floats (Dekker 1971)."""
    scaled = _SPLITTER * z
    high = scaled - (scaled - z)
    low = z - high
    product = z * z
    return product, ((high * high - product) + 2 * high * low) + low * low


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, and what its rounding lost (Knuth)."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _add_to_odd(a: Array, b: Array) -> Array:
    """a + b rounded to odd: of two neighbours of an inexact sum, the one that ends in 1."""
    total, lost = _two_sum(a, b)
    bits = total.view(np.int64)
    is_even = (bits & 1) == 0
    # The magnitude is a sign-less integer: up where what was lost points away from zero.
    away = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where((lost != 0) & is_even, bits + away, bits)
    return np.asarray(odd.view(np.float64))
