"""Matrix products and determinants.

https://onnx.ai/onnx/operators/onnx__MatMul.html, …__Gemm, …__Einsum, …__Det
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contraction import einsum_sizes, gemm_sizes
from mansard.estimator.tensors import Node


@register("MatMul")
def matmul(node: Node) -> Cost:
    """Each output element sums over the common dimension."""
    return Cost(macs=node.output.n_elements * node.input(0).shape[-1])


@register("MatMulInteger", not_weights=(2, 3))
def matmul_integer(node: Node) -> Cost:
    """As MatMul; zero points are folded into the weights' sums."""
    return matmul(node)


@register("QLinearMatMul", not_weights=(1, 2, 4, 5, 6, 7), operands=(0, 3))
def qlinear_matmul(node: Node) -> Cost:
    """As MatMul; then scale, round, add the zero point and clamp twice for each output."""
    return matmul(node) + Cost(simple=5 * node.output.n_elements)


@register("Gemm")
def gemm(node: Node) -> Cost:
    """M·N·K multiply-adds; the bias adds M·N, factors other than 1 multiply once an element."""
    m, n, k = gemm_sizes(node)
    simple = 0
    if node.number("alpha", 1.0) != 1.0:
        simple += m * n
    bias = node.optional(2)
    if bias is not None and node.number("beta", 1.0) != 0.0:
        simple += m * n
        if node.number("beta", 1.0) != 1.0:
            simple += bias.n_elements
    return Cost(macs=m * n * k, simple=simple)


@register("Einsum")
def einsum(node: Node) -> Cost:
    """One multiply-add for each combination of labels and each operand after the first.

    Without a summed label the products are plain multiplications; with one operand
    there is nothing to multiply, and sums are additions.
    """
    sizes, terms, output = einsum_sizes(node)
    points = math.prod(sizes.values())
    is_summed = len(output) < len(sizes)
    if len(terms) == 1:
        return Cost(simple=points - node.output.n_elements if is_summed else 0)
    if not is_summed:
        return Cost(simple=points * (len(terms) - 1))
    return Cost(macs=points * (len(terms) - 1))


@register("Det")
def det(node: Node) -> Cost:
    """Elimination of an n x n matrix, then the product of its diagonal, n - 1 operations.

    Column by column n(n - 1)/2 quotients and (n - 1)·n·(2·n - 1)/6 products and
    differences each (G. Golub, C. Van Loan, Matrix Computations, section 3.2). They are
    no multiply-adds here: they do not make a matrix product.
    """
    n, n_matrices = node.input(0).shape[-1], node.output.n_elements
    quotients, updates = n * (n - 1) // 2, (n - 1) * n * (2 * n - 1) // 6
    return Cost(simple=n_matrices * max(quotients + 2 * updates + n - 1, 0))
