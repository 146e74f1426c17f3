"""Packed and quantised weights: how many they are, their bytes, the precision they work in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mansard.core.records import LayerScore
from tests.estimator.contrib_models import Operator, row
from tests.estimator.contrib_plain_cases import MS, S, Z
from tests.estimator.models import Input


def _zeros(shape: Sequence[int], dtype: str = "uint8") -> Input:
    return np.zeros(tuple(shape), dtype)


def _bits(bits: int, k: int, n: int, block: int, *extra: Input) -> LayerScore:
    blocks = -(-k // block)
    inputs = (
        f"float16[2,{k}]",
        _zeros((n, blocks, block * bits // 8)),
        _zeros((n, blocks), "float16"),
        *extra,
    )
    settings = {"K": k, "N": n, "block_size": block, "bits": bits}
    return row(Operator(MS + "MatMulNBits", inputs, 0, settings))


@pytest.mark.parametrize(("bits", "packed_bytes"), [(2, 32), (4, 64), (8, 128)])
def test_packed_weights_are_counted_unpacked(bits: int, packed_bytes: int) -> None:
    found = _bits(bits, 32, 4, 32)
    assert found.parameters == 32 * 4
    # and 4 scales of 2 bytes
    assert found.weight_bytes == packed_bytes + 4 * 2
    assert found.precision == "fp16"
    assert found.macs == 2 * 32 * 4


def test_what_fills_the_last_block_is_no_parameter() -> None:
    # 40 inputs fill 2 blocks of 32 only in part
    found = _bits(4, 40, 4, 32)
    assert found.parameters == 160
    assert found.weight_bytes == 4 * 64 // 2 + 8 * 2


@pytest.mark.parametrize("shape", [(4, 1), (4,)])
def test_zero_points_are_bytes_but_no_parameters(shape: tuple[int, ...]) -> None:
    found = _bits(4, 32, 4, 32, _zeros(shape))
    assert found.parameters == 128
    assert found.weight_bytes == 64 + 4 * 2 + 4


def test_packed_weights_in_a_vector_are_weights() -> None:
    inputs = ("float[2,32]", _zeros((64,)), _zeros((8,), "float32"))
    settings = {"K": 32, "N": 4, "block_size": 16, "quant_type": 1}
    found = row(Operator(MS + "MatMulBnb4", inputs, 0, settings))
    assert (found.parameters, found.weight_bytes) == (128, 64 + 8 * 4)
    assert found.input_bytes == 4 * 2 * 32


def test_experts_are_counted_all_and_read_as_far_as_they_can_be_chosen() -> None:
    # one token chooses 2 of 8 experts of 4 x 8 and 8 x 4
    experts = [_zeros((8, 8, 4), "float32"), _zeros((8, 4, 8), "float32")]
    inputs = ("float[1,4]", "float[1,8]", experts[0], "", experts[1])
    found = row(Operator(MS + "MoE", inputs, 0, {"k": 2}))
    assert found.parameters == 8 * 64
    assert found.macs == 2 * 64
    # the token, the router, two experts
    assert found.read_bytes == 4 * (4 + 8 + 2 * 64)


def test_quantised_experts_are_counted_unpacked() -> None:
    weights = [_zeros((8, 64, 16)), _zeros((8, 32, 32))]
    scales = [_zeros((8, 64), "float32"), _zeros((8, 32), "float32")]
    inputs = ("float[1,32]", "float[1,8]", weights[0], scales[0], "", weights[1], scales[1])
    found = row(Operator(MS + "QMoE", inputs, 0, {"k": 1, "expert_weight_bits": 4}))
    assert found.parameters == 8 * (64 * 32 + 32 * 64)
    assert found.weight_bytes == 8 * (64 * 16 + 32 * 32) + 4 * 8 * (64 + 32)
    # one expert: 2048 bytes and 96 scales
    assert found.read_bytes == 4 * (32 + 8) + 2048 + 4 * 96


def test_a_packed_table_is_counted_unpacked_and_read_by_the_row() -> None:
    inputs = (_zeros((100, 16)), "int64[2]", _zeros((100, 1), "float32"))
    found = row(Operator(MS + "GatherBlockQuantized", inputs, 0, {"block_size": 32}))
    assert found.parameters == 100 * 32
    assert found.weight_bytes == 1600 + 400
    # two rows of 16 bytes and a scale, two indices of 8 bytes
    assert found.read_bytes == 2 * (16 + 4) + 16


@pytest.mark.parametrize(
    ("op_type", "inputs", "precision"),
    [
        ("QGemm", ("uint8[2,3]", S, Z, _zeros((3, 5), "int8"), S, Z), "int8"),
        ("DynamicQuantizeMatMul", ("float[2,3]", _zeros((3, 5), "int8"), S), "int8"),
        ("MatMulIntegerToFloat", ("uint8[2,3]", _zeros((3, 5), "int8"), S, S), "int8"),
        ("FusedMatMul", ("float16[2,3]", _zeros((3, 5), "float16")), "fp16"),
        ("QAttention", ("uint8[1,3,4]", _zeros((4, 12), "int8"), "float[12]", S, S), "int8"),
    ],
)
def test_products_work_in_the_precision_of_their_factors(
    op_type: str, inputs: tuple[Input, ...], precision: str
) -> None:
    settings = {"num_heads": 2} if op_type == "QAttention" else {}
    found = row(Operator(MS + op_type, inputs, 0, settings))
    assert found.precision == precision
    held = inputs[1] if op_type != "QGemm" else inputs[3]
    assert not isinstance(held, str)
    assert found.parameters == held.size


def test_an_embedding_reads_the_rows_that_it_adds() -> None:
    tables = [_zeros((1000, 4), "float32"), _zeros((512, 4), "float32"), _zeros((2, 4), "float32")]
    scales = [_zeros((4,), "float32"), _zeros((4,), "float32")]
    inputs = ("int32[2,3]", "int32[2,3]", *tables, *scales)
    found = row(Operator(MS + "EmbedLayerNormalization", inputs, 0, outputs=2))
    assert found.parameters == 4 * 1514 + 8
    # 12 ids; 6 rows of two tables, the whole third one; scale and shift
    assert found.read_bytes == 4 * (12 + 2 * 24 + 8 + 8)


def test_a_fused_depthwise_convolution_is_no_work_for_a_tensor_core() -> None:
    weights = _zeros((8, 1, 3, 3), "float16")
    inputs = ("float16[1,8,9,9]", weights)
    depthwise = row(Operator(MS + "FusedConv", inputs, 0, {"group": 8, "activation": "Relu"}))
    assert depthwise.unit == "CUDA core"
    full = row(Operator(MS + "FusedConv", ("float16[1,8,9,9]", _zeros((8, 8, 3, 3), "float16")), 0))
    assert full.unit == "tensor core"


def test_eight_bit_floats_written_for_tensorrt_are_seen_behind_their_dequantisation() -> None:
    from onnx import TensorProto, helper, numpy_helper

    from mansard.estimator import score

    scale = numpy_helper.from_array(np.array(0.5, np.float32), "s")
    nodes = []
    for name in ("a", "b"):
        quantized = helper.make_node("TRT_FP8QuantizeLinear", [name, "s"], [f"{name}q"])
        restored = helper.make_node("TRT_FP8DequantizeLinear", [f"{name}q", "s"], [f"{name}d"])
        for node in (quantized, restored):
            node.domain = "trt"
        nodes += [quantized, restored]
    nodes.append(helper.make_node("MatMul", ["ad", "bd"], ["y"], "product"))
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [3, 5]),
        ],
        [helper.make_empty_tensor_value_info("y")],
        [scale],
    )
    imports = [helper.make_opsetid("", 19), helper.make_opsetid("trt", 1)]
    rows = score(helper.make_model(graph, opset_imports=imports).SerializeToString()).layers
    assert {layer.name: layer.precision for layer in rows}["product"] == "fp8"
