"""ONNX's own shape inference, asked node by node where there is no rule of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mansard.estimator.element_types import BY_CODE
from mansard.estimator.shapes.registry import Spec
from mansard.estimator.tensors import Node, Tensor

if TYPE_CHECKING:
    import onnx


# onnx 1.23's inference of STFT ignores ``onesided``, so its answer is not asked for.
_MISTAKEN = frozenset({"STFT"})
_PLAIN = (int, float, str, tuple)  # attributes that are handed on as they are


def infer_outputs(node: Node) -> list[Spec] | str:
    """Types and shapes of the outputs, or the reason why they cannot be known."""
    from onnx import defs, helper, shape_inference

    try:
        schema = defs.get_schema(node.op_type, node.opset, node.domain)
    except (defs.SchemaError, TypeError):
        return f"{node.label}: the operator is not known"
    if node.op_type in _MISTAKEN:
        return f"{node.label}: there is no shape rule for this operator yet"
    if not all(isinstance(value, _PLAIN) for value in node.attributes.values()):
        return f"{node.label}: it holds graphs or tensors, which are not looked into yet"
    inputs = [tensor.name if tensor else "" for tensor in node.inputs]
    proto = helper.make_node(node.op_type, inputs, node.output_names, domain=node.domain)
    try:
        for name, value in node.attributes.items():
            proto.attribute.append(helper.make_attribute(name, value))
        found = shape_inference.infer_node_outputs(
            schema,
            proto,
            {tensor.name: _type(tensor) for tensor in node.present},
            {tensor.name: _value(tensor) for tensor in node.present if tensor.value is not None},
            opset_imports=[helper.make_opsetid(node.domain, node.opset)],
        )
    except _refusals() as error:
        raise node.error(f"does not fit its operator's definition ({error})") from error
    return _specs(node, [found.get(name) for name in node.output_names])


def _refusals() -> tuple[type[Exception], ...]:
    from onnx import checker, shape_inference

    own = (checker.ValidationError, shape_inference.InferenceError)
    return (*own, RuntimeError, TypeError, ValueError)


def _specs(node: Node, types: list[onnx.TypeProto | None]) -> list[Spec] | str:
    specs: list[Spec] = []
    for found in types:
        if found is None or not found.tensor_type.HasField("shape"):
            return f"{node.label}: the shape of its output cannot be known"
        dims = found.tensor_type.shape.dim
        dtype = BY_CODE.get(found.tensor_type.elem_type)
        if dtype is None or not all(item.HasField("dim_value") for item in dims):
            return f"{node.label}: the shape of its output depends on data"
        specs.append((dtype, tuple(int(item.dim_value) for item in dims)))
    return specs


def _type(tensor: Tensor) -> onnx.TypeProto:
    from onnx import helper

    return helper.make_tensor_type_proto(tensor.dtype.code, list(tensor.shape))


def _value(tensor: Tensor) -> onnx.TensorProto:
    from onnx import numpy_helper

    assert tensor.value is not None  # noqa: S101
    return numpy_helper.from_array(tensor.value, tensor.name)
