"""The class of an operator."""

from __future__ import annotations

import pytest

from mansard.analytics.predict.op_classes import CLASS_OF, OP_CLASSES, layer_class, op_class
from mansard.estimator.operators import REGISTRY


def test_every_operator_with_a_formula_has_a_class() -> None:
    names = {op_type for _, op_type in REGISTRY.operators()}
    assert names - CLASS_OF.keys() == set()


def test_every_class_has_an_operator() -> None:
    assert set(CLASS_OF.values()) == set(OP_CLASSES)


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("Conv", "conv"),
        ("Gemm", "matmul"),
        ("LSTM", "recurrent"),
        ("Attention", "attention"),
        ("Softmax", "normalization"),
        ("ReduceMean", "reduction"),
        ("Relu", "elementwise"),
        ("MaxPool", "pooling"),
        ("Transpose", "movement"),
        ("QuantizeLinear", "quantization"),
        ("Loop", "control"),
        ("DFT", "other"),
        ("NobodyKnowsThis", "other"),
    ],
)
def test_classes(op_type: str, expected: str) -> None:
    assert op_class(op_type) == expected


def test_a_convolution_on_cuda_cores_is_depthwise_where_tensor_cores_could_multiply() -> None:
    assert layer_class("Conv", "fp16", "CUDA core") == "depthwise"
    assert layer_class("Conv", "fp16", "tensor core") == "conv"
    # In fp32 every convolution is on CUDA cores: nothing tells them apart.
    assert layer_class("Conv", "fp32", "CUDA core") == "conv"
    assert layer_class("Relu", "fp16", "CUDA core") == "elementwise"
