"""Norms, softmax and attention, as operators of their own and spelled out."""

from __future__ import annotations

import pytest

from mansard.estimator.model import Given
from mansard.estimator.scoring import load
from mansard.estimator.traffic import cached_traffic
from tests.estimator.fusing import fuse_loaded, fuse_text
from tests.estimator.models import model

ROWS = "float[4,16] x"  # 64 elements: 256 bytes
VECTORS = "float[16] g, float[16] h"  # 64 bytes each
AXIS = "a = Constant<value_ints = [-1]>()"


def test_a_layer_norm_spelled_out_is_one_kernel() -> None:
    fused = fuse_text(
        "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Pow(d, k) v = ReduceMean<axes = [-1]>(p) "
        "e = Add(v, k) r = Sqrt(e) q = Div(d, r) n = Mul(q, g) y = Add(n, h)",
        ROWS,
        f"{VECTORS}, float k",
    )
    assert fused.kernels() == [
        "ReduceMean+Sub+Pow+ReduceMean+Add+Sqrt+Div+Mul+Add",
    ]
    assert fused.moved() == [(256 + 64 + 64, 256)]


def test_an_rms_norm_spelled_out_is_one_kernel() -> None:
    fused = fuse_text(
        "p = Pow(x, k) v = ReduceMean<axes = [-1]>(p) e = Add(v, k) r = Sqrt(e) "
        "i = Reciprocal(r) n = Mul(x, i) y = Mul(n, g)",
        ROWS,
        f"{VECTORS}, float k",
    )
    assert len(fused.kernels()) == 1
    assert fused.moved() == [(256 + 64, 256)]


def test_a_softmax_spelled_out_is_one_kernel() -> None:
    fused = fuse_text(
        f"{AXIS} m = ReduceMax<axes = [-1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) "
        "y = Div(e, s)",
        ROWS,
    )
    assert fused.kernels() == ["ReduceMax+Sub+Exp+ReduceSum+Div"]
    assert fused.moved() == [(256, 256)]


def test_a_norm_does_not_join_the_product_that_makes_its_rows() -> None:
    # A tile of the product does not hold a whole row.
    fused = fuse_text(
        "z = MatMul(x, w) y = LayerNormalization(z, g, h)", ROWS, f"{VECTORS}, float[16,16] w"
    )
    assert fused.kernels() == ["MatMul", "LayerNormalization"]
    assert fused.moved() == [(256 + 1024, 256), (256 + 128, 256)]


def test_a_norm_takes_the_sum_before_it_along() -> None:
    fused = fuse_text(
        "s = Add(x, z) y = LayerNormalization(s, g, h)", f"{ROWS}, float[4,16] z", VECTORS
    )
    assert fused.kernels() == ["Add+LayerNormalization"]
    assert fused.moved() == [(256 + 256 + 128, 256)]


def test_a_reduction_over_everything_is_read_twice() -> None:
    # 262,144 elements are more than a kernel keeps: the maximum first, then the quotient.
    fused = fuse_text(
        "m = ReduceMax<keepdims = 0>(x) y = Div(x, m)",
        "float[512,512] x",
    )
    assert fused.kernels() == ["ReduceMax", "Div"]
    assert fused.moved() == [(1_048_576, 4), (1_048_576 + 4, 1_048_576)]


ATTENTION = (
    "s = MatMul(q, t) c = Div(s, k) u = Add(c, mask) p = Softmax(u) z = MatMul(p, v) "
    "y = Transpose<perm = [0, 2, 1, 3]>(z)"
)


def test_attention_moves_queries_keys_values_and_the_result() -> None:
    fused = fuse_text(
        f"t = Transpose<perm = [0, 1, 3, 2]>(j) {ATTENTION}",
        "float[1,2,8,4] q, float[1,2,8,4] j, float[1,2,8,4] v, float[1,1,8,8] mask",
        "float k",
    )
    assert fused.kernels() == ["Transpose+MatMul+Div+Add+Softmax+MatMul+Transpose"]
    # 64 elements each: 3 · 256, and the mask's 256; no score touches memory
    assert fused.moved() == [(4 * 256, 256)]


QKV = "float[1,2,8,4] q, float[1,2,8,4] k, float[1,2,8,4] v"


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v)",
        "y = Attention(q, k, v)",
    ],
)
def test_keys_and_values_are_read_again_for_each_block_of_queries(body: str) -> None:
    loaded = load(model(body, QKV, opset=23), "attention")
    # a row of a head is 4 · 4 = 16 bytes: 32 bytes hold 2 of the 8 rows, so that keys and
    # values, 256 bytes each, are read 4 times
    fused = fuse_loaded(loaded, Given(), attention_buffer_bytes=32)
    assert fused.moved() == [(256 + 4 * 512, 256)]
    # no more rows than a head is wide are taken at once: 4 of 8
    fused = fuse_loaded(loaded, Given(), attention_buffer_bytes=1 << 20)
    assert fused.moved() == [(256 + 2 * 512, 256)]
    assert fuse_loaded(loaded, Given()).moved() == [(256 + 512, 256)]
    # they come from the cache again if they fit there
    fits, spills = (
        sum(cached_traffic(fused.fusion, cache_bytes).values()) for cache_bytes in (1024, 500)
    )
    assert (fits, spills) == (768, 768 + 512)


def test_the_softmax_of_an_attention_may_be_spelled_out() -> None:
    fused = fuse_text(
        f"{AXIS} s = MatMul(q, t) m = ReduceMax<axes = [-1]>(s) d = Sub(s, m) e = Exp(d) "
        "o = ReduceSum(e, a) p = Div(e, o) y = MatMul(p, v)",
        "float[2,8,4] q, float[2,4,8] t, float[2,8,4] v",
    )
    assert fused.kernels() == ["MatMul+ReduceMax+Sub+Exp+ReduceSum+Div+MatMul"]
    assert fused.moved() == [(3 * 256, 256)]


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        # the probabilities are returned
        (
            "s = MatMul(q, t) y = Softmax(s) z = MatMul(y, v) r = Neg(z)",
            ["MatMul", "Softmax", "MatMul+Neg"],
        ),
        # the scores are read elsewhere
        (
            "s = MatMul(q, t) p = Softmax(s) z = MatMul(p, v) n = Neg(s) y = Add(z, n)",
            ["MatMul", "Softmax", "MatMul+Neg+Add"],
        ),
    ],
)
def test_scores_that_are_needed_elsewhere_are_written(body: str, kernels: list[str]) -> None:
    fused = fuse_text(body, "float[2,8,8] q, float[2,8,8] t, float[2,8,8] v")
    assert fused.kernels() == kernels


def test_a_softmax_before_a_product_with_weights_is_no_attention() -> None:
    fused = fuse_text("p = Softmax(x) y = MatMul(p, w)", ROWS, "float[16,16] w")
    assert fused.kernels() == ["Softmax", "MatMul"]


def test_queries_keys_and_values_may_be_parts_of_one_projection() -> None:
    fused = fuse_text(
        "z = MatMul(x, w) n = Constant<value_ints = [8, 3, 2, 8]>() r = Reshape(z, n) "
        "u = Transpose<perm = [1, 2, 0, 3]>(r) q, j, v = Split<axis = 0, num_outputs = 3>(u) "
        "t = Transpose<perm = [0, 1, 3, 2]>(j) s = MatMul(q, t) p = Softmax(s) o = MatMul(p, v) "
        "y = Neg(o)",
        "float[8,16] x",
        "float[16,48] w",
        opset=18,
    )
    assert fused.kernels() == ["MatMul", "Transpose+Transpose+MatMul+Softmax+MatMul+Neg"]
    # the projection: 8 · 16 · 4 + 16 · 48 · 4 read, 8 · 48 · 4 = 1536 written and read again
    assert fused.moved() == [(512 + 3072, 1536), (1536, 512)]
