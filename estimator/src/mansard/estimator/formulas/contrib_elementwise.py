"""ONNX Runtime's operators that work element by element.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import (
    DEQUANTIZE,
    FAST_GELU,
    GELU,
    QUANTIZE,
    SIGMOID,
    rows,
    standard_cost,
)
from mansard.estimator.formulas.normalization import softmax_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node


@register("Gelu", domain=MICROSOFT)
def gelu(node: Node) -> Cost:
    """0.5·x·(1 + erf(x/√2)): 4 operations and a function for each element."""
    return GELU * node.output.n_elements


@register("QuickGelu", "ScaledSiLU", domain=MICROSOFT, not_weights=(1,))
def scaled_silu(node: Node) -> Cost:
    """a·x, its sigmoid, and their product: 5 operations and a function for each element."""
    return (SIGMOID + Cost(simple=2)) * node.output.n_elements


@register("BiasGelu", "FastGelu", domain=MICROSOFT)
def gelu_with_bias(node: Node) -> Cost:
    """A bias, then Gelu: exactly (4) or with tanh (8 operations), and a function."""
    each = FAST_GELU if node.op_type == "FastGelu" else GELU
    return (each + Cost(simple=int(node.has(1)))) * node.output.n_elements


@register("BiasAdd", domain=MICROSOFT)
def bias_add(node: Node) -> Cost:
    """A bias and a residual: 2 operations for each element."""
    return Cost(simple=2 * node.output.n_elements)


@register("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: Node) -> Cost:
    """A bias for each element; then one half times the Gelu of the other: 5 and a function."""
    n = node.output.n_elements
    return Cost(simple=node.input(0).n_elements) + (GELU + Cost(simple=1)) * n


@register("BiasSoftmax", domain=MICROSOFT, not_weights=(1,))
def bias_softmax(node: Node) -> Cost:
    """An addition for each element, then Softmax; all axes from ``axis`` on are one row."""
    data = node.input(0)
    width = math.prod(data.shape[data.axis(node.integer("axis", 1)) :])
    n = data.n_elements
    return Cost(simple=n) + softmax_cost(rows(n, width), width)


@register("BiasDropout", "BitmaskBiasDropout", domain=MICROSOFT, not_weights=(2, 3, 4))
def bias_dropout(node: Node) -> Cost:
    """In inference a bias, and a residual where one is given; nothing is dropped."""
    return Cost(simple=(1 + node.has(2)) * node.output.n_elements)


@register("BitmaskDropout", domain=MICROSOFT, is_view=True, not_weights=(1, 2))
def bitmask_dropout(node: Node) -> Cost:  # noqa: ARG001
    """In inference no work and no traffic."""
    return NOTHING


@register("GatedAdd", domain=MICROSOFT)
def gated_add(node: Node) -> Cost:
    """x + y · gate: 2 operations for each element."""
    return Cost(simple=2 * node.output.n_elements)


@register("ComplexMul", "ComplexMulConj", domain=MICROSOFT)
def complex_product(node: Node) -> Cost:
    """4 products and 2 sums for each pair of real and imaginary part: 3 for each element."""
    return Cost(simple=3 * node.output.n_elements)


@register("MulInteger", domain=MICROSOFT, not_weights=(1, 3))
def multiply_integers(node: Node) -> Cost:
    """The zero points that are given are subtracted from each element, then the product."""
    shifted = sum(node.input(i).n_elements for i in (0, 2) if node.has(i + 1))
    return Cost(simple=shifted + node.output.n_elements)


_PAIR = (1, 2, 4, 5, 6, 7)  # scales and zero points


@register("QLinearAdd", "QLinearMul", domain=MICROSOFT, not_weights=_PAIR)
def quantized_pair(node: Node) -> Cost:
    """Dequantise both operands (2 each), add or multiply, quantise the result (5)."""
    operands = node.input(0).n_elements + node.input(3).n_elements
    return DEQUANTIZE * operands + (QUANTIZE + Cost(simple=1)) * node.output.n_elements


@register("QLinearWhere", domain=MICROSOFT, not_weights=(2, 3, 5, 6, 7, 8))
def quantized_where(node: Node) -> Cost:
    """Choose, dequantise and quantise what was chosen: 8 operations for each element."""
    return (DEQUANTIZE + QUANTIZE + Cost(simple=1)) * node.output.n_elements


@register("QLinearLeakyRelu", "QLinearSigmoid", domain=MICROSOFT, not_weights=(1, 2, 3, 4))
def quantized_activation(node: Node) -> Cost:
    """Dequantise (2), the activation, quantise (5).

    A runtime looks the 256 results up in a table instead: 1 operation for each element.
    """
    each = SIGMOID if node.op_type == "QLinearSigmoid" else Cost(simple=2)
    return (DEQUANTIZE + each + QUANTIZE) * node.output.n_elements


@register("QOrderedGelu", domain=MICROSOFT, not_weights=(1, 2))
def ordered_gelu(node: Node) -> Cost:
    """A factor, Gelu, quantise (5): 10 operations and a function for each element."""
    return (Cost(simple=1) + GELU + QUANTIZE) * node.output.n_elements


@register("QLinearSoftmax", domain=MICROSOFT, not_weights=(1, 2, 3, 4))
def quantized_softmax(node: Node) -> Cost:
    """Dequantise (2), Softmax, quantise (5); before version 13 axes from ``axis`` on are a row."""
    data = node.input(0)
    axis = data.axis(node.integer("axis", -1))
    is_old = node.integer("opset", 13) < 13
    width = math.prod(data.shape[axis:]) if is_old else data.shape[axis]
    n = data.n_elements
    return (DEQUANTIZE + QUANTIZE) * n + softmax_cost(rows(n, width), width)


# MurmurHash3_x86_32, https://github.com/aappleby/smhasher: a word of 4 bytes takes 2
# products, a rotation of 3, an xor, another rotation of 3, a product and a sum; the end
# an xor with the length, 3 shifts, 3 xors and 2 products.
_HASH_WORD, _HASH_END = 11, 9


@register("MurmurHash3", domain=MICROSOFT)
def murmur_hash(node: Node) -> Cost:
    """11 operations for each 4 bytes of an element and 9 at its end; a string counts as 4."""
    data = node.input(0)
    words = max(-(-data.dtype.n_bits // 32), 1)
    return Cost(simple=(words * _HASH_WORD + _HASH_END) * data.n_elements)


@register("IsAllFinite", domain=MICROSOFT)
def is_all_finite(node: Node) -> Cost:
    """A test of each element of each input, joined by one operation less than that."""
    n = sum(tensor.n_elements for tensor in node.present)
    return Cost(simple=max(2 * n - 1, 0))


@register("Inverse", domain=MICROSOFT)
def inverse(node: Node) -> Cost:
    """2·n³ operations for a matrix of n x n: elimination and substitution.

    G. Golub, C. Van Loan, Matrix Computations, 3.2: 2/3·n³ for the factors, 4/3·n³ for n
    right-hand sides.
    """
    data = node.input(0)
    return Cost(simple=2 * data.n_elements * data.shape[-1])


@register("SampleOp", domain=MICROSOFT)
def copy(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its input and writes its output."""
    return NOTHING


@register("GridSample", domain=MICROSOFT, not_weights=(1,))
def grid_sample(node: Node) -> Cost:
    """As ONNX's GridSample."""
    return standard_cost(node, "GridSample")
