"""Shapes of operators outside ONNX's own domain against ONNX Runtime.

Where its CPU has a kernel it runs; otherwise its strict shape inference has to agree
with our shapes and to refuse others. What it knows nothing of is written down by hand.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as binding

from mansard.estimator.numbers import BY_CODE, ElementType
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.registry import Spec
from tests.estimator.contrib_cases import OPERATORS, name_of
from tests.estimator.contrib_models import Operator, build, declared, real_outputs, session, specs

TESTED = (1, 31)  # the newest version of ONNX Runtime that these cases were written for
VERSION = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
_UNKNOWN = (
    *("is not a registered function/op", "No Op registered"),
    "not yet supported on this hardware platform",
)

# On ExpandDims 1.23 takes the process with it.
pytestmark = pytest.mark.skipif(
    VERSION < TESTED, reason="an older ONNX Runtime has other kernels, and crashes on some nodes"
)


def _cases(check: str) -> list[Any]:
    return [pytest.param(case, id=name_of(case)) for case in OPERATORS if case.check == check]


@pytest.mark.parametrize("case", _cases("run"))
def test_shapes_are_those_of_the_kernel(case: Operator) -> None:
    try:
        real = real_outputs(case)
    except (binding.Fail, binding.InvalidGraph) as error:
        _skip_where_unknown(error)
        raise
    ours = specs(case)
    assert len(ours) == len(real)
    for (dtype, shape), array in zip(ours, real, strict=True):
        assert dtype.name == _type_name(array)
        assert len(shape) == array.ndim
        # None is a dimension that depends on data.
        assert all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))


def _type_name(array: np.ndarray[Any, Any]) -> str:
    return "string" if array.dtype == object else array.dtype.name


@pytest.mark.parametrize("case", _cases("infer"))
def test_shapes_are_those_of_the_inference(case: Operator) -> None:
    ours = specs(case)
    names = [f"y{i}" for i in range(case.outputs) if i not in case.left_out]
    try:
        _declare(case, names, ours)
    except (binding.Fail, binding.InvalidGraph) as error:
        _skip_where_unknown(error)
        raise
    if case.shapes:
        assert ours == _literal(case)
        return
    for i, (dtype, shape) in enumerate(ours):
        wrong = (*shape[:-1], (shape[-1] or 0) + 1) if shape else (1,)
        with pytest.raises(binding.Fail, match="ShapeInferenceError"):
            _declare(case, names, [*ours[:i], (dtype, wrong), *ours[i + 1 :]])


def _declare(case: Operator, names: list[str], specs: list[Spec]) -> None:
    """Make ONNX Runtime check that the outputs are these; most kernels are not there."""
    pairs = zip(names, specs, strict=True)
    outputs = tuple(_value(name, dtype, shape) for name, (dtype, shape) in pairs)
    with suppress(binding.NotImplemented):
        session(build(case, outputs))


def _value(name: str, dtype: ElementType, shape: tuple[int | None, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype.code, list(shape))


def _skip_where_unknown(error: Exception) -> None:
    if any(text in str(error) for text in _UNKNOWN):
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__} does not have the operator")


@pytest.mark.parametrize("case", _cases("hand"))
def test_shapes_are_those_written_down(case: Operator) -> None:
    assert case.shapes
    assert specs(case) == _literal(case)


def _literal(case: Operator) -> list[Spec]:
    found: list[Spec] = []
    for text in case.shapes:
        kind = declared("y", text.replace("?", "0")).type.tensor_type
        open_axes = [size == "?" for size in text.partition("[")[2].rstrip("]").split(",")]
        sizes = [dim.dim_value for dim in kind.shape.dim]
        shape = tuple(
            None if is_open else size for size, is_open in zip(sizes, open_axes, strict=False)
        )
        found.append((BY_CODE[kind.elem_type], shape))
    return found


# Operators of the CPU that no case runs, and why.
NOT_RUN = {
    "SparseAttention": "its caches have to be bound to the same memory",
    "SparseToDenseMatMul": "its input is a sparse tensor",
}


def test_every_kernel_of_the_processor_is_run() -> None:
    if VERSION > TESTED:
        pytest.skip("a newer ONNX Runtime may have kernels that are unknown here")
    domains = ("ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc")
    kernels = {
        (kernel.domain, kernel.op_name)
        for kernel in binding.get_all_opkernel_def()
        if kernel.domain in domains and kernel.provider == "CPUExecutionProvider"
    }
    assert kernels
    run = {case.key for case in OPERATORS if case.check == "run"}
    refused = {
        key
        for key, operator in REGISTRY.operators().items()
        if (operator.cost.__doc__ or "").startswith("Refused")
    }
    maps = {("ai.onnx.ml", name) for name in ("CastMap", "DictVectorizer", "ZipMap")}
    left_out = {("com.microsoft", name) for name in NOT_RUN}
    assert kernels - run - refused - maps == left_out & kernels


def test_every_operator_of_the_runtime_is_known() -> None:
    if VERSION > TESTED:
        pytest.skip("a newer ONNX Runtime may have operators that are unknown here")
    schemas = {(schema.domain, schema.name) for schema in binding.get_all_operator_schema()}
    assert {("com.microsoft", "Attention"), ("ai.onnx.ml", "ZipMap")} <= schemas
    assert {key for key in schemas if key[0]} - REGISTRY.operators().keys() == set()
