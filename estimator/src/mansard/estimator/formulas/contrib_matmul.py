"""ONNX Runtime's matrix products with what is fused into them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import (
    FAST_GELU,
    QUANTIZE,
    QUANTIZE_DYNAMICALLY,
    activation_cost,
    standard_cost,
)
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contraction import gemm_sizes
from mansard.estimator.shapes.contrib_matmul import fused_operands, quantized_gemm_sizes
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node


@register("FusedMatMul", "SparseToDenseMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node: Node) -> Cost:
    """As MatMul on transposed operands; a factor other than 1 multiplies each output.

    A sparse operand counts as a dense one: how many elements it has depends on data.
    """
    left, _ = fused_operands(node)
    n = node.output.n_elements
    scaled = n if node.number("alpha", 1.0) != 1.0 else 0
    return Cost(macs=n * left[-1], simple=scaled)


@register("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(node: Node) -> Cost:
    """As FusedMatMul, then the activation of each output."""
    return fused_matmul(node) + activation_cost(node) * node.output.n_elements


@register("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node) -> Cost:
    """As Gemm, then the activation of each output."""
    return standard_cost(node, "Gemm") + activation_cost(node) * node.output.n_elements


@register("GemmFloat8", domain=MICROSOFT, not_weights=(3, 4, 5))
def gemm_float8(node: Node) -> Cost:
    """M·N·K multiply-adds; for each output a factor for the scales, ``alpha``, ``beta``·C.

    Then the activation.
    """
    m, n, k = gemm_sizes(node)
    simple = int(any(node.has(i) for i in (3, 4, 5))) + (node.number("alpha", 1.0) != 1.0)
    beta = node.number("beta", 0.0)
    if node.has(2) and beta != 0.0:
        simple += 1 + (beta != 1.0)
    return Cost(macs=m * n * k, simple=simple * m * n) + activation_cost(node) * (m * n)


@register("GemmFastGelu", domain=MICROSOFT)
def gemm_gelu(node: Node) -> Cost:
    """As MatMul, a bias where one is given, then Gelu with tanh (8 and a function)."""
    n = node.output.n_elements
    product = standard_cost(node, "MatMul", node.input(0), node.input(1))
    return product + (FAST_GELU + Cost(simple=int(node.has(2)))) * n


@register("MatMulInteger16", domain=MICROSOFT)
def matmul_16(node: Node) -> Cost:
    """As MatMul."""
    return standard_cost(node, "MatMul")


@register("MatMulIntegerToFloat", domain=MICROSOFT, not_weights=(2, 3, 4, 5))
def matmul_to_float(node: Node) -> Cost:
    """As MatMul on integers, a factor for each output, a bias where one is given."""
    return standard_cost(node, "MatMul") + Cost(simple=(1 + node.has(6)) * node.output.n_elements)


@register("DynamicQuantizeMatMul", domain=MICROSOFT, not_weights=(2, 3), operands=(1,))
def dynamic_matmul(node: Node) -> Cost:
    """As DynamicQuantizeLinear of A and MatMulIntegerToFloat; the product is of integers."""
    quantized = QUANTIZE_DYNAMICALLY * node.input(0).n_elements + QUANTIZE_DYNAMICALLY
    scaled = Cost(simple=(1 + node.has(4)) * node.output.n_elements)
    return quantized + standard_cost(node, "MatMul") + scaled


@register("QGemm", domain=MICROSOFT, not_weights=(1, 2, 4, 5, 7, 8), operands=(0, 3))
def quantized_gemm(node: Node) -> Cost:
    """M·N·K multiply-adds, the bias, then quantise (5), or one factor for a float output."""
    m, n, k = quantized_gemm_sizes(node)
    each = QUANTIZE if node.has(7) or node.has(8) else Cost(simple=1)
    return Cost(macs=m * n * k) + (each + Cost(simple=int(node.has(6)))) * (m * n)


@register("QOrderedMatMul", domain=MICROSOFT, not_weights=(1, 3, 4, 6, 7), operands=(0, 2))
def ordered_matmul(node: Node) -> Cost:
    """As MatMul on integers; a bias, a scaled summand (2), then quantise (5)."""
    each = QUANTIZE + Cost(simple=node.has(5) + 2 * node.has(6))
    product = standard_cost(node, "MatMul", node.input(0), node.input(2))
    return product + each * node.output.n_elements
