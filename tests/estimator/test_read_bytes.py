"""What operators read that do not touch all of their tensors, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mansard.estimator.operators.registry import REGISTRY
from mansard.estimator.operators.table import onnx_operators
from tests.estimator.models import Input, single

X = "float[2,3,4]"
# Operator, inputs, settings, bytes: floats have 4 bytes, int64 has 8.
CASES: list[tuple[str, tuple[Input, ...], dict[str, object], int]] = [
    # 4·3 queries, 5·3 keys, 5·2 values
    ("Attention", ("float[1,1,4,3]", "float[1,1,5,3]", "float[1,1,5,2]"), {"opset": 23}, 4 * 37),
    ("CastLike", (X, "int32[2,3,4]"), {}, 4 * 24),  # of the second its type alone
    ("CenterCropPad", (X, np.array([2, 2, 2])), {}, 4 * 8 + 8 * 3),
    ("Compress", ("float[24]", "bool[24]"), {"dims": {"y[0]": 7}}, 4 * 7 + 24),
    ("EyeLike", ("float[3,3]",), {}, 0),
    ("Gather", (X, "int64[2]"), {}, 4 * 2 * 12 + 8 * 2),
    ("Gather", (X, "int64[5]"), {"axis": 2}, 4 * 24 + 8 * 5),  # none twice
    ("GatherElements", (X, "int64[1,3,4]"), {}, 4 * 12 + 8 * 12),
    ("GatherND", (X, "int64[2,1]"), {}, 4 * 2 * 12 + 8 * 2),
    # one score and one weight for each label
    ("NegativeLogLikelihoodLoss", ("float[3,5]", "int64[3]"), {}, 4 * 3 + 8 * 3),
    ("NegativeLogLikelihoodLoss", ("float[3,5]", "int64[3]", "float[5]"), {}, 8 * 3 + 8 * 3),
    # no more weights than there are
    ("NegativeLogLikelihoodLoss", ("float[9,2]", "int64[9]", "float[2]"), {}, 4 * 11 + 8 * 9),
    ("RandomNormalLike", (X,), {}, 0),
    ("RandomUniformLike", (X,), {}, 0),
    ("Slice", (X, np.array([0]), np.array([1])), {}, 4 * 12 + 2 * 8),
    ("TensorScatter", ("float[1,1,8,4]", "float[1,1,2,4]"), {"opset": 24}, 4 * 8),
]


@pytest.mark.parametrize(("op_type", "inputs", "settings", "read_bytes"), CASES)
def test_bytes_that_are_read_are_the_literal(
    op_type: str, inputs: tuple[Input, ...], settings: dict[str, object], read_bytes: int
) -> None:
    assert single(op_type, inputs, **settings).read_bytes == read_bytes  # type: ignore[arg-type]


def test_no_rule_of_bytes_is_without_a_literal() -> None:
    """Operators of other packages have theirs beside what they belong to."""
    listed = onnx_operators()
    with_rule = {
        op_type
        for (domain, op_type), operator in REGISTRY.operators().items()
        if operator.reads is not None and domain == "" and ("", op_type) in listed
    }
    assert with_rule == {op_type for op_type, *_ in CASES}
