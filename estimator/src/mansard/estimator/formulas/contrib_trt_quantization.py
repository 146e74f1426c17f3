"""The quantisation that NVIDIA's ModelOpt and Transformer Engine write, domain "trt".

https://github.com/NVIDIA/Model-Optimizer, modelopt/torch/quantization/export_onnx.py
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import standard_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_trt_quantization import DOMAIN
from mansard.estimator.tensors import Node


@register("TRT_FP8QuantizeLinear", domain=DOMAIN, not_weights=(1,))
def quantize(node: Node) -> Cost:
    """Divide, round, clamp twice: 4 operations for each element."""
    return Cost(simple=4 * node.output.n_elements)


@register("QuantizeLinear", domain=DOMAIN, not_weights=(1, 2))
def quantize_linear(node: Node) -> Cost:
    """As ONNX's QuantizeLinear."""
    return standard_cost(node, "QuantizeLinear")


@register(
    *("DequantizeLinear", "TRT_FP8DequantizeLinear", "TRT_MXFP8DequantizeLinear"),
    domain=DOMAIN,
    not_weights=(1, 2),
)
def dequantize(node: Node) -> Cost:
    """Subtract the zero point where one is given, multiply."""
    return Cost(simple=(1 + node.has(2)) * node.output.n_elements)


@register("TRT_FP4DynamicQuantize", "TRT_MXFP8DynamicQuantize", domain=DOMAIN, not_weights=(1,))
def quantize_blocks(node: Node) -> Cost:
    """The largest magnitude of each block (2 an element), its scale (2), then 4 an element."""
    return Cost(simple=6 * node.output.n_elements + 2 * node.outputs[1].n_elements)
