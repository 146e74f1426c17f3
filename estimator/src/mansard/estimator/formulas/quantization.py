"""Quantisation. https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html and kin"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("QuantizeLinear", not_weights=(1, 2))
def quantize(node: Node) -> Cost:
    """To integers: divide, round, add the zero point where one is given, clamp twice.

    To floats of 8 bits or less: divide and clamp twice; storing them rounds.
    """
    each = 3 if node.output.dtype.is_float else 4 + node.has(2)
    return Cost(simple=each * node.output.n_elements)


@register("DequantizeLinear", not_weights=(1, 2))
def dequantize(node: Node) -> Cost:
    """Subtract the zero point where one is given, multiply."""
    return Cost(simple=(1 + node.has(2)) * node.output.n_elements)


@register("DynamicQuantizeLinear")
def dynamic_quantize(node: Node) -> Cost:
    """Minimum and maximum of all elements and 0, then as QuantizeLinear.

    Once for the tensor: the scale (difference, quotient) and the zero point (quotient,
    difference, clamp twice, round).
    """
    return Cost(simple=7 * node.output.n_elements + 7)
