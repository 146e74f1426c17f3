"""Kinds of kernels and their bytes, from counts of layers."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.models.predict.groups import group_frame, terms
from mansard.core.records import LayerScore
from mansard.estimator import zoo
from mansard.estimator.scoring import score as score_model
from tests.analytics.score_factory import layer, score


def product(op_type: str, m: int, n: int, k: int, inputs: int, *, bias: bool = False) -> LayerScore:
    """An M x K and a K x N matrix in fp32, with ``inputs`` elements that are read."""
    bare = layer(0, 2 * m * n * k, 4 * (inputs + m * n + n * k), op_type=op_type)
    return msgspec.structs.replace(
        bare,
        macs=m * n * k,
        multiply_add_flop=2 * m * n * k,
        parameters=n * k + (n if bias else 0),
        input_bytes=4 * inputs,
        output_bytes=4 * m * n,
    )


@pytest.mark.parametrize(
    ("row", "kernel"),
    [
        # 28 x 28 positions, 64 channels in and out: a window reads each input 9 times.
        (product("Conv", 784, 64, 576, 784 * 64), "conv"),
        (product("Conv", 784, 64, 64, 784 * 64), "conv pointwise"),
        (product("Conv", 784, 64, 64, 784 * 64, bias=True), "conv pointwise"),
        (product("Conv", 784, 64, 64, 4 * 784 * 64), "conv pointwise"),  # a stride of 2
        (product("Conv", 1, 64, 64, 64), "conv of a vector"),
        # 48 channels in groups of 8, and 96 in groups of 16: sums of 72 and 144.
        (product("Conv", 784, 48, 72, 784 * 48), "conv grouped unaligned"),
        (product("Conv", 784, 96, 144, 784 * 96), "conv grouped"),
        (product("Conv", 784, 64, 9, 784 * 64), "depthwise"),
        (product("Conv", 784, 58, 9, 784 * 58), "depthwise unaligned"),
        (product("MatMul", 128, 768, 768, 128 * 768), "matmul"),
        (product("Gemm", 1, 1000, 512, 512, bias=True), "matmul of a vector"),
    ],
)
def test_kernels_are_told_apart_by_counts(row: LayerScore, kernel: str) -> None:
    (kind,) = group_frame(layer_frame([score("net", [row])]), with_kernels=True)["kernel"]
    assert kind == kernel


def test_a_product_without_weights_has_its_traffic_as_a_whole() -> None:
    bare = msgspec.structs.replace(product("MatMul", 8, 8, 8, 128), parameters=0)
    groups = group_frame(layer_frame([score("net", [bare])]), with_kernels=True)
    assert groups["kernel"].to_list() == ["matmul of two inputs"]
    assert terms(groups)["op_class"].to_list() == [
        "matmul of two inputs work",
        "matmul of two inputs traffic",
    ]


def test_the_traffic_of_a_product_is_three_rows() -> None:
    # A window of 3 x 3 reads 784 x 576 operands, 9 times its inputs, in 4 bytes each.
    groups = group_frame(
        layer_frame([score("net", [product("Conv", 784, 64, 576, 50176)])]), with_kernels=True
    )
    shown = terms(groups).select("op_class", "cuda_flop", "traffic_bytes", "n_launches").rows()
    assert shown == [
        ("conv work", 57_802_752.0, 0.0, 1),  # 2 x 784 x 64 x 576
        ("conv operands", 0.0, 1_806_336.0, 0),
        ("conv results", 0.0, 200_704.0, 0),  # 4 x 784 x 64
        ("conv weights", 0.0, 147_456.0, 0),  # 4 x 64 x 576
    ]


def test_the_kernels_of_a_real_network() -> None:
    """ResNet-18: one product, a shortcut of 1 x 1 in three stages of four, windows elsewhere."""
    network = score_model(zoo.read("resnet18"), batch=1)
    kernels = (
        group_frame(layer_frame([network]), with_kernels=True)["kernel"].drop_nulls().value_counts()
    )
    assert dict(kernels.rows()) == {"conv": 17, "conv pointwise": 3, "matmul of a vector": 1}


def test_layers_without_products_have_no_kernel() -> None:
    bare = msgspec.structs.replace(layer(0, 10, 80, op_type="Relu"), macs=0)
    groups = group_frame(layer_frame([score("net", [bare])]), with_kernels=True)
    assert groups.select(pl.col("kernel", "operand_bytes")).row(0) == (None, None)
