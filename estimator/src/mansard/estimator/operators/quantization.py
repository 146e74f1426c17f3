"""Quantisation. https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and kin"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import BY_CODE, FLOAT32, UINT8, ElementType
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import check_types, element_type
from mansard.estimator.tensors import Node


def _quantize_shape(node: Node) -> Specs:
    _check_scale(node)
    dtype = node.input(2).dtype if node.has(2) else _output_type(node, UINT8)
    return [(dtype, node.input(0).shape)]


@operator("QuantizeLinear", shape=_quantize_shape, not_weights=(1, 2))
def quantize(node: Node) -> Cost:
    """To integers: divide, round, add the zero point where one is given, clamp twice.

    To floats of 8 bits or less: divide and clamp twice; storing them rounds.
    """
    each = 3 if node.output.dtype.is_float else 4 + node.has(2)
    return Cost(simple=each * node.output.n_elements)


def _dequantize_shape(node: Node) -> Specs:
    _check_scale(node)
    if node.has(2):
        check_types(node, node.input(0), (node.input(2),))
    scale = node.input(1).dtype if node.opset >= 19 else FLOAT32
    return [(_output_type(node, scale), node.input(0).shape)]


@operator("DequantizeLinear", shape=_dequantize_shape, not_weights=(1, 2))
def dequantize(node: Node) -> Cost:
    """Subtract the zero point where one is given, multiply."""
    return Cost(simple=(1 + node.has(2)) * node.output.n_elements)


def _output_type(node: Node, default: ElementType) -> ElementType:
    code = node.integer("output_dtype", 0)
    return default if not code else BY_CODE.get(code) or element_type(node, "output_dtype")


def _check_scale(node: Node) -> None:
    """One scale, one for each index of an axis, or one for each block along it."""
    data, scale = node.input(0), node.input(1)
    zero, is_single = node.optional(2), scale.n_elements == 1 and scale.rank < 2
    if zero is not None and zero.shape != scale.shape and not (is_single and zero.n_elements == 1):
        raise node.error(f"scale {list(scale.shape)} and zero point {list(zero.shape)} differ")
    if is_single:
        return
    axis = node.integer("axis", 1)
    axis = data.axis(axis) if data.rank > 1 else 0
    block = node.integer("block_size", 0)
    if not block:
        if scale.shape != data.shape[axis : axis + 1]:
            raise node.error(
                f"scale {list(scale.shape)} does not fit axis {axis} of {list(data.shape)}"
            )
        return
    blocks = -(-data.shape[axis] // block) if block > 0 else 0
    if scale.shape != (*data.shape[:axis], blocks, *data.shape[axis + 1 :]):
        raise node.error(
            f"scale {list(scale.shape)} does not fit blocks of {block} along axis {axis} of "
            f"{list(data.shape)}"
        )


def _dynamic_quantize_shape(node: Node) -> Specs:
    node.input(0)
    return [(UINT8, node.input(0).shape), (FLOAT32, ()), (UINT8, ())]


@operator("DynamicQuantizeLinear", shape=_dynamic_quantize_shape)
def dynamic_quantize(node: Node) -> Cost:
    """Minimum, maximum, 7 operations for scale and zero point, then as QuantizeLinear."""
    return Cost(simple=7 * node.output.n_elements + 7)
