"""The class of an operator."""

from __future__ import annotations

from typing import get_args

import pytest

from mansard.analytics.models.predict.groups import CLASS_OF, OpClass, layer_class, op_class
from mansard.estimator.operators import REGISTRY


def test_every_operator_with_a_formula_has_a_class() -> None:
    names = {op_type for _, op_type in REGISTRY.operators()}
    assert names - CLASS_OF.keys() == set()


def test_every_class_has_an_operator() -> None:
    assert set(CLASS_OF.values()) == set(get_args(OpClass))


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
    assert layer_class("Conv", "fp16", "CUDA core", 9, 1) == "depthwise"
    assert layer_class("Conv", "fp16", "tensor core", 9, 1) == "conv"
    assert layer_class("Relu", "fp16", "CUDA core", None, None) == "elementwise"


@pytest.mark.parametrize(
    ("sum_length", "input_share", "expected"),
    [
        (9, 1.0, "depthwise"),  # 3 × 3
        (25, 4.0, "depthwise"),  # 5 × 5 with a stride of 2
        (16, 1.0, "conv"),  # 1 × 1 of 16 channels
        (144, 1.0, "conv"),  # 3 × 3 of 16 channels
        (9, 0.0625, "conv"),  # 3 × 3 of one channel, which makes 16
        (None, None, "conv"),  # what it makes is not known
    ],
)
def test_in_fp32_a_depthwise_convolution_is_told_by_its_sums(
    sum_length: float | None, input_share: float | None, expected: str
) -> None:
    assert layer_class("Conv", "fp32", "CUDA core", sum_length, input_share) == expected
