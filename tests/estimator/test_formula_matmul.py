"""Matrix products, Einsum and attention by hand."""

from __future__ import annotations

import pytest

from mansard.core.errors import ModelError
from tests.estimator.models import layer


@pytest.mark.parametrize(
    ("left", "right", "macs", "n_outputs"),
    [
        ("3,4", "4,5", 60, 15),
        ("2,7,3,4", "2,7,4,5", 14 * 60, 14 * 15),
        ("7,3,4", "4,5", 7 * 60, 7 * 15),
        ("1,3,4", "6,4,5", 6 * 60, 6 * 15),
        ("4", "4,5", 20, 5),
        ("3,4", "4", 12, 3),
        ("4", "4", 4, 1),
    ],
)
def test_matmul(left: str, right: str, macs: int, n_outputs: int) -> None:
    row = layer("y = MatMul(a, b)", f"float[{left}] a, float[{right}] b")
    assert row.macs == macs
    assert row.work_flop == 2 * macs
    assert row.output_bytes == 4 * n_outputs


def test_matmul_of_matrices_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match=r"cannot multiply \[3, 4\] by \[5, 6\]"):
        layer("y = MatMul(a, b)", "float[3,4] a, float[5,6] b")


def test_gemm() -> None:
    # M = 3, N = 5, K = 4; bias adds 15
    plain = layer("y = Gemm(a, b)", "float[3,4] a, float[4,5] b")
    assert (plain.macs, plain.work_flop) == (60, 120)
    both = layer("y = Gemm<transA=1, transB=1>(a, b, c)", "float[4,3] a, float[5,4] b, float[5] c")
    assert (both.macs, both.work_flop) == (60, 135)


def test_gemm_with_factors() -> None:
    # 120 + alpha on 15 results + bias 15 + beta on 5 elements of the bias
    row = layer("y = Gemm<alpha=0.5, beta=2.0>(a, b, c)", "float[3,4] a, float[4,5] b, float[5] c")
    assert row.work_flop == 155


@pytest.mark.parametrize(
    ("equation", "shapes", "macs", "simple"),
    [
        ("ij,jk->ik", ("3,4", "4,5"), 60, 0),
        ("bhqd,bhkd->bhqk", ("2,3,4,5", "2,3,6,5"), 2 * 3 * 4 * 6 * 5, 0),
        ("...ij,...jk->...ik", ("7,3,4", "7,4,5"), 7 * 60, 0),
        ("i,j->ij", ("3", "4"), 0, 12),
        ("ij->i", ("3,4",), 0, 9),
        ("ij->ji", ("3,4",), 0, 0),
    ],
)
def test_einsum(equation: str, shapes: tuple[str, ...], macs: int, simple: int) -> None:
    names = "abc"[: len(shapes)]
    signature = ", ".join(
        f"float[{shape}] {name}" for shape, name in zip(shapes, names, strict=True)
    )
    row = layer(f'y = Einsum<equation="{equation}">({", ".join(names)})', signature)
    assert (row.macs, row.work_flop) == (macs, 2 * macs + simple)


def test_attention_is_its_two_products_and_a_softmax() -> None:
    # batch 2, 4 heads, 6 queries, 10 keys of 8 and values of 16: 480 scores
    row = layer(
        "y = Attention(q, k, v)",
        "float[2,4,6,8] q, float[2,4,10,8] k, float[2,4,10,16] v",
        opset=23,
    )
    assert row.macs == 480 * (8 + 16)
    # a factor for each score; 48 rows of 10: 9 + 10 + 10 + 9 + 10
    assert row.work_flop == 2 * 480 * 24 + 480 + 48 * 48
    assert row.output_bytes == 4 * 2 * 4 * 6 * 16


def test_attention_with_flat_heads_and_a_mask() -> None:
    # 2 heads of 4, 3 queries, 5 keys: 30 scores, each 4 + 4 multiply-adds
    row = layer(
        "y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v, m)",
        "float[1,3,8] q, float[1,5,8] k, float[1,5,8] v, float[3,5] m",
        opset=23,
    )
    assert row.macs == 30 * 8
    # a factor and the mask for each score; 6 rows of 5: 4 + 5 + 5 + 4 + 5
    assert row.work_flop == 2 * 240 + 30 * 2 + 6 * 23


def test_integer_matmul() -> None:
    row = layer("y = MatMulInteger(a, b)", "uint8[3,4] a, int8[4,5] b")
    assert (row.macs, row.output_bytes) == (60, 4 * 15)


def test_types_that_contradict() -> None:
    with pytest.raises(ModelError, match="types contradict: float32 times float16"):
        layer("y = MatMul(a, b)", "float[3,4] a, float16[4,5] b")
