"""One rounding a step in every precision, and values that never settle."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mansard.microbench.cuda.kernels import fma
from mansard.microbench.cuda.values import (
    bf16_bits,
    bf16_values,
    fill_operands,
    operand_values,
    square_add_bf16,
    square_add_fp16,
    square_add_fp32,
    square_add_fp64,
    tf32_values,
)
from mansard.microbench.kernel import Launch, gpu_case

NO_LAUNCH = Launch(grid=0, block=0, n_elements=0)
moderate = st.floats(min_value=-2.0, max_value=2.0, allow_subnormal=False)


def exact(z: float, c: float) -> Fraction:
    return Fraction(z) ** 2 + Fraction(c)


def expect_nearest(found: float, z: float, c: float, neighbours: tuple[float, float]) -> None:
    """No neighbour of what was found is nearer to the exact z² + c."""
    error = abs(Fraction(found) - exact(z, c))
    for other in neighbours:
        if np.isfinite(other):
            assert error <= abs(Fraction(other) - exact(z, c))


@given(z=moderate, c=moderate)
@example(z=1.0 + 2.0**-52, c=-1.0)
@example(z=2.0**-40, c=1.0)
def test_fp64_is_the_nearest_of_the_exact_sum(z: float, c: float) -> None:
    found = square_add_fp64(np.array([z]), c)
    if abs(z) > 1e-140:  # its square has an error term that float64 still holds
        assert found[0] == float(exact(z, c))


@given(z=st.floats(-2, 2, width=32), c=st.floats(-2, 2, width=32))
@example(z=1.0000001192092896, c=-1.0)
# 1 + 2^-24 is a tie of float32; 2^-80 beyond it decides, and float64 alone would lose it.
@example(z=2.0**-40, c=1.0 + 2.0**-23)
@example(z=2.0**-12, c=1.0)
def test_fp32_is_the_nearest_of_the_exact_sum(z: float, c: float) -> None:
    found = square_add_fp32(np.array([z], dtype=np.float32), c)
    assert found.dtype == np.float32
    near = np.nextafter(found, np.array([-np.inf, np.inf], np.float32))
    expect_nearest(float(found[0]), z, c, (float(near[0]), float(near[1])))


@given(z=st.floats(-2, 2, width=16), c=st.floats(-2, 2, width=16))
def test_fp16_is_the_nearest_of_the_exact_sum(z: float, c: float) -> None:
    found = square_add_fp16(np.array([z], dtype=np.float16), c)
    assert found.dtype == np.float16
    near = np.nextafter(found, np.array([-np.inf, np.inf], np.float16))
    expect_nearest(float(found[0]), z, c, (float(near[0]), float(near[1])))


@given(bits=st.integers(0x3000, 0x4000), c_bits=st.integers(0xBE00, 0xC000))
def test_bf16_is_the_nearest_of_the_exact_sum(bits: int, c_bits: int) -> None:
    z, c = bf16_values(np.array([bits, c_bits], dtype=np.uint16))
    (found,) = square_add_bf16(np.array([bits], dtype=np.uint16), float(c))
    around = np.array([int(found) - 1, int(found) + 1]).astype(np.uint16)
    below, above = bf16_values(around)
    value = float(bf16_values(np.array([found]))[0])
    expect_nearest(value, float(z), float(c), (float(below), float(above)))


def test_bf16_and_tf32_round_ties_to_even() -> None:
    # bfloat16 has 8 bits of significand: around 1 its step is 2^-7, halves of it are ties.
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-30, -1 - 2.0**-8])
    assert bf16_values(bf16_bits(values)).tolist() == [1.0, 1 + 2.0**-6, 1 + 2.0**-7, -1.0]
    # TF32 has 11: a step of 2^-10.
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-23], dtype=np.float32)
    assert tf32_values(ties).tolist() == [1.0, 1 + 2.0**-9, 1 + 2.0**-10]


def test_e4m3_patterns_stand_for_their_values() -> None:
    # OCP OFP8, E4M3: 2^(e-7)·(1 + m/8); 0x01 is the least subnormal 2^-9, 0x08 the least
    # normal 2^-6, 0x7E the greatest 448.
    bits = np.array([0x00, 0x01, 0x08, 0x30, 0x38, 0xB9, 0x7E], dtype=np.uint8)
    assert operand_values("fp8", bits).tolist() == [
        *(0.0, 2.0**-9, 2.0**-6, 0.5, 1.0, -1.125, 448.0),
    ]


@pytest.mark.parametrize(("precision", "n_values"), [("fp16", 91), ("bf16", 34)])
def test_half_precision_goes_round_one_long_cycle(precision: str, n_values: int) -> None:
    step = {"fp16": square_add_fp16, "bf16": square_add_bf16}[precision]
    c = fma.CHAOS_C[precision]
    (starts,) = fma.fill_pattern(gpu_case("fma", precision, 0, 1), NO_LAUNCH)
    reached = np.unique(starts)
    for _ in range(10_000):  # all that can still be met after so many steps
        reached = np.unique(step(reached, c))
    assert len(reached) == n_values
    z, seen = reached[:1], []
    for _ in range(n_values):
        z = step(z, c)
        seen.append(z[0])
    assert z[0] == reached[0]
    assert len(set(seen)) == n_values  # one cycle, not several


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_wide_precisions_neither_freeze_nor_leave(precision: str) -> None:
    case = gpu_case("fma", precision, 0, 1500)
    (starts,) = fma.fill_pattern(case, NO_LAUNCH)
    (z,) = fma.run_reference(case, NO_LAUNCH, (starts[::32],), 1)
    c = fma.CHAOS_C[precision]
    assert z.min() >= c
    assert z.max() <= c * c + c
    # The invariant density of the map near c = -2 has the standard deviation √2.
    assert z.std() == pytest.approx(np.sqrt(2), rel=0.05)
    assert len(np.unique(z)) > 0.9 * len(z)  # 2048 chains, of which hardly two have met


@pytest.mark.parametrize("precision", ["fp64", "fp32", "fp16", "bf16"])
def test_constant_operands_stay_as_they_are(precision: str) -> None:
    case = gpu_case("fma", precision, 0, 100, operands="constant")
    start = fma.fill_pattern(case, NO_LAUNCH)
    (end,) = fma.run_reference(case, NO_LAUNCH, start, 3)
    assert end.tobytes() == start[0].tobytes()
    assert end.any()


@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"])
def test_matrices_hold_moderate_values_of_both_signs(precision: str) -> None:
    chaotic = operand_values(precision, fill_operands(precision, "chaotic", 10_000))
    bound = 128 if precision == "int8" else 1
    assert np.abs(chaotic).max() <= bound
    assert np.abs(chaotic.mean()) < 0.05 * bound
    assert (chaotic < 0).mean() == pytest.approx(0.5, abs=0.03)
    constant = operand_values(precision, fill_operands(precision, "constant", 100))
    assert set(constant) == {1.0 if precision == "int8" else 0.5}
