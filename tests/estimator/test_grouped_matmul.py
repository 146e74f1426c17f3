"""GroupedMatMul of ONNX 29: each token times the matrices that it chose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mansard.core.errors import ModelError
from mansard.estimator import score
from tests.estimator.models import Input, single

WEIGHTS = np.zeros((8, 64, 16), np.float32)
BIAS = np.zeros((8, 16), np.float32)


def test_each_choice_is_a_product() -> None:
    row = single("GroupedMatMul", ["float[3,64]", WEIGHTS, "int64[3,2]", BIAS], opset=29)
    # 3 tokens · 2 choices · 64 · 16; an addition each
    assert (row.macs, row.simple_flop) == (3 * 2 * 64 * 16, 3 * 2 * 16)
    assert row.parameters == 8 * 64 * 16 + 8 * 16
    assert row.output_bytes == 3 * 2 * 16 * 4
    # at most 6 of 8 matrices and biases are read
    assert row.read_bytes == 3 * 64 * 4 + 3 * 2 * 8 + 6 * (64 * 16 + 16) * 4


def test_many_tokens_read_every_matrix_once() -> None:
    row = single("GroupedMatMul", ["float[30,64]", WEIGHTS, "int64[30,2]"], opset=29)
    assert row.read_bytes == 30 * 64 * 4 + 30 * 2 * 8 + 8 * 64 * 16 * 4


@pytest.mark.parametrize(
    "inputs",
    [
        ["float[3,32]", WEIGHTS, "int64[3,2]"],
        ["float[3,64]", WEIGHTS, "int64[4,2]"],
        ["float[3,64]", WEIGHTS, "int64[3,2]", np.zeros((8, 17), np.float32)],
    ],
)
def test_shapes_that_contradict(inputs: list[Input]) -> None:
    with pytest.raises(ModelError, match="do not go together"):
        single("GroupedMatMul", inputs, opset=29)


@pytest.mark.shared_data
def test_the_case_of_opset_29(shared_data: Path) -> None:
    path = shared_data / "cases/estimator/grouped_matmul_opset29/grouped_matmul.onnx"
    (row,) = score(path, dims={"tokens": 4}).layers
    # 4 tokens · 2 choices · 64 · 128
    assert row.macs == 65_536
