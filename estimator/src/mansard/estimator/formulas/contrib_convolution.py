"""ONNX Runtime's convolutions and pools: fused, channels last, in blocks of channels.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import activation_cost, standard_cost
from mansard.estimator.formulas.registry import FORMULAS, register
from mansard.estimator.shapes.contrib_convolution import LAST, seen_first
from mansard.estimator.shapes.contrib_parts import MICROSOFT, NCHWC, NHWC
from mansard.estimator.tensors import Node


@register("FusedConv", "NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
@register("Conv", domain=NCHWC)
def fused_conv(node: Node) -> Cost:
    """As Conv; then the sum with a tensor where one is given, and the activation."""
    n = node.output.n_elements
    macs = n * math.prod(node.input(1).shape[1:])
    return Cost(macs=macs, simple=(node.has(2) + node.has(3)) * n) + activation_cost(node) * n


@register("QLinearConv", domain=MICROSOFT, not_weights=(1, 2, 4, 5, 6, 7), operands=(0, 3))
def quantized_conv(node: Node) -> Cost:
    """As ONNX's QLinearConv, whichever way the channels stand."""
    return standard_cost(node, "QLinearConv")


@register("NhwcMaxPool", domain=MICROSOFT)
@register("MaxpoolWithMask", domain=MICROSOFT)
@register("MaxPool", domain=NCHWC)
def max_pool(node: Node) -> Cost:
    """As MaxPool; a mask takes a comparison more for each element of a window."""
    return standard_cost(node, "MaxPool") + Cost(
        simple=node.output.n_elements * math.prod(node.integers("kernel_shape") or ())
        if node.op_type == "MaxpoolWithMask"
        else 0
    )


@register("AveragePool", domain=NCHWC)
def average_pool(node: Node) -> Cost:
    """As AveragePool."""
    return standard_cost(node, "AveragePool")


@register("GlobalAveragePool", "GlobalMaxPool", domain=NCHWC)
def global_pool(node: Node) -> Cost:
    """As the operator of ONNX of this name."""
    return standard_cost(node, node.op_type)


@register("Upsample", domain=NCHWC)
def upsample(node: Node) -> Cost:
    """Nearest: none. Linear: 4 neighbours in the plane, 7 operations for each output."""
    if node.text("mode", "nearest") == "nearest":
        return NOTHING
    return Cost(simple=7 * node.output.n_elements)


@register("ReorderInput", "ReorderOutput", domain=NCHWC)
def reorder(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads and writes each element."""
    return NOTHING


@register("ConvTransposeWithDynamicPads", domain=MICROSOFT, not_weights=(2,))
def transposed_conv(node: Node) -> Cost:
    """As ConvTranspose."""
    return standard_cost(node, "ConvTranspose", node.input(0), node.input(1), node.optional(3))


def _channels_last(node: Node) -> Cost:
    """As the operator of ONNX of this name, channels last."""
    if node.op_type == "Resize":
        return standard_cost(node, "Resize")
    seen = seen_first(node)
    work = FORMULAS.find("", seen.op_type)
    if work is None:
        raise node.error(f"there is no formula for {seen.op_type}")
    behind = activation_cost(node) * node.output.n_elements
    if node.op_type.startswith("QLinear") and node.op_type != "QLinearConv":
        behind += Cost(simple=5 * node.output.n_elements)
    return work.function(seen) + behind


for _op_type in LAST:
    _standard = FORMULAS.find("", _op_type)
    _scales = (1, 2, 4, 5, 6, 7) if _op_type.startswith("QLinear") else ()
    register(
        _op_type,
        domain=NHWC,
        not_weights=_scales or tuple(_standard.not_weights if _standard else ()),
        statistics=tuple(_standard.statistics if _standard else ()),
        operands=(0, 3) if _op_type.startswith("QLinear") else (0, 1),
    )(_channels_last)
