"""Values and work of the onnx package's node tests.

Values: with all inputs stored, results that are small enough to be kept are computed,
and must be the real ones. Work: where ONNX defines an operator by a function of others,
the package tests that function too, and its work is a second opinion on the formula.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from mansard.estimator.operators.table import onnx_operators
from tests.estimator.node_cases import NodeCase, infer_case, is_plain, node_cases, rows_of, say


def all_stored(case: NodeCase) -> NodeCase | None:
    """The case with all its inputs stored; None where one is no plain array."""
    model = onnx.ModelProto.FromString(case.model)
    for value in model.graph.input:
        held = case.inputs[value.name]
        if not isinstance(held, (np.ndarray, np.generic)):
            return None
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(held), value.name))
    del model.graph.input[:]
    return msgspec.structs.replace(case, model=model.SerializeToString())


def test_small_values_are_the_real_ones(capsys: pytest.CaptureFixture[str]) -> None:
    operators: Counter[str] = Counter()
    for case in node_cases():
        stored = all_stored(case) if is_plain(case) else None
        if stored is None:
            continue
        _, network = infer_case(stored)
        for name, held in case.outputs.items():
            known = network.tensors[name].value if name else None
            if known is None or not isinstance(held, (np.ndarray, np.generic)):
                continue
            value = known.array
            operators[case.op_types[0]] += 1
            really = np.asarray(held)
            assert (value.dtype, value.shape) == (really.dtype, really.shape), case.name
            np.testing.assert_allclose(
                value.astype(float), really.astype(float), 1e-5, 1e-6, err_msg=case.name
            )
    say(capsys, f"values of node tests: {operators.total()}, of {len(operators)} operators")
    assert operators.total() >= 400
    assert len(operators) >= 70


# Operators that ONNX defines by a function of others, whose work is that of the function.
SPELLED_OUT = (
    *("CausalConvWithState", "DynamicQuantizeLinear", "GroupNormalization", "HardSigmoid"),
    *("HardSwish", "LayerNormalization", "LogSoftmax", "MeanVarianceNormalization", "Mish"),
    *("RMSNormalization", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare", "Relu"),
    *("RotaryEmbedding", "Softmax", "SoftmaxCrossEntropyLoss", "Softplus", "Softsign", "SwiGLU"),
)
# Their functions do more around the same multiply-adds: masks of zeros, repeated heads.
SAME_PRODUCTS = ("Attention", "FlexAttention", "LinearAttention")


def work_of(case: NodeCase) -> tuple[int, int, int]:
    rows = rows_of(case)
    macs = sum(row.macs or 0 for row in rows)
    return (
        macs,
        sum(row.simple_flop or 0 for row in rows),
        sum(row.function_flop or 0 for row in rows),
    )


def test_work_is_that_of_the_functions_which_define_operators(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_name = {case.name: case for case in node_cases()}
    compared: Counter[str] = Counter()
    for case in by_name.values():
        base = by_name.get(case.name.split("_expanded")[0])
        if base is None or base is case or not base.is_single:
            continue
        op_type = base.op_types[0]
        if op_type in SPELLED_OUT:
            assert work_of(base) == work_of(case), case.name
        elif op_type in SAME_PRODUCTS:
            assert work_of(base)[0] == work_of(case)[0] > 0, case.name
        else:
            continue
        compared[op_type] += 1
    say(capsys, f"work equal to functions': {compared.total()}, of {len(compared)} operators")
    listed = {name for _, name in onnx_operators()}
    assert compared.keys() == listed.intersection((*SPELLED_OUT, *SAME_PRODUCTS))
