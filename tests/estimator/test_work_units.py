"""Work by the unit of a GPU: tensor cores do multiply-adds, CUDA cores the rest."""

from __future__ import annotations

from onnx import TensorProto, helper

from mansard.estimator import score, totals
from tests.estimator.models import text_model


def test_cuda_cores_unpack_int4_weights() -> None:
    # MatMulNBits: 16 rows of 64, 32 columns in blocks of 32
    given = helper.make_tensor_value_info("a", TensorProto.FLOAT16, [16, 64])
    stored = [
        helper.make_tensor("b", TensorProto.UINT8, [32, 2, 16], bytes(1024), raw=True),
        helper.make_tensor("s", TensorProto.FLOAT16, [64], bytes(128), raw=True),
    ]
    node = helper.make_node(
        *("MatMulNBits", ["a", "b", "s"], ["y"]),
        domain="com.microsoft",
        K=64,
        N=32,
        bits=4,
        block_size=32,
    )
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT16, [16, 32])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [given], [made], stored)
    found = totals(score(helper.make_model(graph, opset_imports=imports).SerializeToString()))
    # 16·64·32 multiply-adds; a difference and a product for each of 64·32 weights
    assert found.by_unit == {"tensor core": 2 * 16 * 64 * 32, "CUDA core": 2 * 64 * 32}


def test_cuda_cores_add_biases() -> None:
    data = text_model(
        "g (float16[1,4] x) => (float16[1,8] y) <float16[4,8] w, float16[8] b> "
        "{ y = Gemm(x, w, b) }"
    )
    assert totals(score(data)).by_unit == {"tensor core": 2 * 4 * 8, "CUDA core": 8}


def test_work_in_fp32_is_of_one_unit() -> None:
    data = text_model("g (float[1,4] x) => (float[1,8] y) <float[4,8] w> { y = MatMul(x, w) }")
    assert totals(score(data)).by_unit == {"CUDA core": 64}
