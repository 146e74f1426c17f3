"""ONNX Runtime's operators that work element by element.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import BOOL, ELEMENT_TYPES, INT32
from mansard.estimator.operators.contrib.parts import microsoft, microsoft_shape
from mansard.estimator.operators.costs import (
    DEQUANTIZE,
    FAST_GELU,
    GELU,
    QUANTIZE,
    SIGMOID,
    copy,
    no_work,
    per_element,
    rows,
)
from mansard.estimator.operators.normalization import softmax_cost
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import (
    broadcast,
    check_length,
    check_types,
    same,
    same_as_first,
)
from mansard.estimator.tensors import Node

_UINT32 = ELEMENT_TYPES["uint32"]

microsoft("SampleOp", shape=same_as_first)(copy)
microsoft("Gelu", shape=same_as_first)(per_element(4, 1))
microsoft("QuickGelu", "ScaledSiLU", shape=same_as_first, not_weights=(1,))(per_element(5, 1))
microsoft("QOrderedGelu", shape=same_as_first, not_weights=(1, 2))(per_element(10, 1))


@microsoft("QLinearLeakyRelu", "QLinearSigmoid", shape=same_as_first, not_weights=(1, 2, 3, 4))
def quantized_activation(node: Node) -> Cost:
    """Dequantise 2, the activation, quantise 5."""
    each = SIGMOID if node.op_type == "QLinearSigmoid" else Cost(simple=2)
    return (DEQUANTIZE + each + QUANTIZE) * node.output.n_elements


@microsoft("Inverse", shape=same_as_first)
def inverse(node: Node) -> Cost:
    """2·n³ operations for n x n (G. Golub, C. Van Loan, Matrix Computations, 3.2)."""
    data = node.input(0)
    return Cost(simple=2 * data.n_elements * data.shape[-1])


def _with_bias_shape(node: Node) -> Specs:
    check_length(node, 1, node.input(0).shape[-1], "columns")
    return same_as_first(node)


@microsoft("BiasGelu", "FastGelu", shape=_with_bias_shape)
def gelu_with_bias(node: Node) -> Cost:
    """1 for a bias, then Gelu: 4 (8 with tanh) and a function."""
    each = FAST_GELU if node.op_type == "FastGelu" else GELU
    return (each + Cost(simple=int(node.has(1)))) * node.output.n_elements


@microsoft_shape("BiasAdd", cost=per_element(2))
def _bias_add_shape(node: Node) -> Specs:
    """[batch, pixels, channels]: a bias for each channel, and a residual of the same shape."""
    data, skip = node.input(0), node.input(2)
    check_length(node, 1, data.shape[-1], "channels")
    if skip.shape != data.shape:
        raise node.error(f"residual {list(skip.shape)} is not of shape {list(data.shape)}")
    return [same(data)]


def _bias_split_gelu_shape(node: Node) -> Specs:
    data = node.input(0)
    check_length(node, 1, data.shape[-1], "columns")
    if data.shape[-1] % 2:
        raise node.error(f"{data.shape[-1]} columns do not split into halves")
    return [(data.dtype, (*data.shape[:-1], data.shape[-1] // 2))]


@microsoft("BiasSplitGelu", shape=_bias_split_gelu_shape)
def bias_split_gelu(node: Node) -> Cost:
    """1 for a bias; one half times Gelu of the other: 5 and a function."""
    n = node.output.n_elements
    return Cost(simple=node.input(0).n_elements) + (GELU + Cost(simple=1)) * n


def _bias_softmax_shape(node: Node) -> Specs:
    data, _ = node.input(0), node.input(1)
    data.axis(node.integer("axis", 1))
    return [same(data)]


@microsoft("BiasSoftmax", shape=_bias_softmax_shape, not_weights=(1,))
def bias_softmax(node: Node) -> Cost:
    """1 addition for each element, then Softmax; a row is all axes from ``axis`` on."""
    data = node.input(0)
    width = math.prod(data.shape[data.axis(node.integer("axis", 1)) :])
    n = data.n_elements
    return Cost(simple=n) + softmax_cost(rows(n, width), width)


def bias_dropout(node: Node) -> Cost:
    """1 for a bias, 1 for a residual; nothing is dropped."""
    return Cost(simple=(1 + node.has(2)) * node.output.n_elements)


@microsoft_shape("BiasDropout", cost=bias_dropout, not_weights=(2, 3, 4))
def _bias_dropout_shape(node: Node) -> Specs:
    data, _ = node.input(0), node.input(1)
    return [same(data), (BOOL, data.shape)]


def _bitmask_dropout_shape(node: Node) -> Specs:
    """The mask holds 32 elements in each of its own."""
    data = node.input(0)
    return [same(data), (_UINT32, ((data.n_elements + 31) // 32,))]


microsoft("BitmaskDropout", shape=_bitmask_dropout_shape, is_view=True, not_weights=(1, 2))(
    no_work("In inference no work and no traffic.")
)
microsoft("BitmaskBiasDropout", not_weights=(2, 3, 4), shape=_bitmask_dropout_shape)(bias_dropout)


@microsoft_shape("GatedAdd", cost=per_element(2))
def _gated_add_shape(node: Node) -> Specs:
    data, added, gate = node.input(0), node.input(1), node.input(2)
    if added.shape != data.shape or gate.shape != (*data.shape[:-1], 1):
        raise node.error(
            f"{list(data.shape)}, {list(added.shape)} and gate {list(gate.shape)} do not fit"
        )
    return [same(data)]


@microsoft_shape(
    "ComplexMul",
    "ComplexMulConj",
    cost=per_element(
        3,
        text="3 operations for each element.",
    ),
)
def _complex_product_shape(node: Node) -> Specs:
    first, second = node.input(0), node.input(1)
    check_types(node, first, (second,))
    if first.shape[-1] != 2 or second.shape[-1] != 2:
        raise node.error("the last dimension must hold a real and an imaginary part")
    return [(first.dtype, broadcast(node, first.shape, second.shape))]


def _multiply_integers_shape(node: Node) -> Specs:
    """(A - zero point) * (B - zero point); B stands behind A's zero point."""
    return [(INT32, broadcast(node, node.input(0).shape, node.input(2).shape))]


@microsoft("MulInteger", shape=_multiply_integers_shape, not_weights=(1, 3))
def multiply_integers(node: Node) -> Cost:
    """1 for each zero point that is given, 1 for the product."""
    shifted = sum(node.input(i).n_elements for i in (0, 2) if node.has(i + 1))
    return Cost(simple=shifted + node.output.n_elements)


def _quantized_pair_shape(node: Node) -> Specs:
    """Each operand is followed by its scale and zero point."""
    first, second = node.input(0), node.input(3)
    check_types(node, first, (second,))
    return [(first.dtype, broadcast(node, first.shape, second.shape))]


_PAIR = (1, 2, 4, 5, 6, 7)  # scales and zero points


@microsoft("QLinearAdd", "QLinearMul", shape=_quantized_pair_shape, not_weights=_PAIR)
def quantized_pair(node: Node) -> Cost:
    """Dequantise 2 for each operand element, 1 and quantise 5 for each output element."""
    operands = node.input(0).n_elements + node.input(3).n_elements
    return DEQUANTIZE * operands + (QUANTIZE + Cost(simple=1)) * node.output.n_elements


@microsoft_shape(
    "QLinearWhere",
    cost=per_element(8),
    not_weights=(2, 3, 5, 6, 7, 8),
)
def _quantized_where_shape(node: Node) -> Specs:
    condition, yes, no = node.input(0), node.input(1), node.input(4)
    check_types(node, yes, (no,))
    return [(yes.dtype, broadcast(node, condition.shape, yes.shape, no.shape))]


def _quantized_softmax_shape(node: Node) -> Specs:
    node.input(0).axis(node.integer("axis", -1))
    return same_as_first(node)


@microsoft("QLinearSoftmax", shape=_quantized_softmax_shape, not_weights=(1, 2, 3, 4))
def quantized_softmax(node: Node) -> Cost:
    """As Softmax; dequantise 2, quantise 5."""
    data = node.input(0)
    axis = data.axis(node.integer("axis", -1))
    is_old = node.integer("opset", 13) < 13
    width = math.prod(data.shape[axis:]) if is_old else data.shape[axis]
    n = data.n_elements
    return (DEQUANTIZE + QUANTIZE) * n + softmax_cost(rows(n, width), width)


def _hash_shape(node: Node) -> Specs:
    return [(_UINT32 if node.integer("positive", 1) else INT32, node.input(0).shape)]


# MurmurHash3_x86_32, https://github.com/aappleby/smhasher: a word of 4 bytes takes 2
# products, a rotation of 3, an xor, another rotation of 3, a product and a sum; the end
# an xor with the length, 3 shifts, 3 xors and 2 products.
_HASH_WORD, _HASH_END = 11, 9


@microsoft("MurmurHash3", shape=_hash_shape)
def murmur_hash(node: Node) -> Cost:
    """11 operations for each 4 bytes of an element, 9 at its end; a string counts as 4."""
    data = node.input(0)
    words = max(-(-data.dtype.n_bits // 32), 1)
    return Cost(simple=(words * _HASH_WORD + _HASH_END) * data.n_elements)


def _is_all_finite_shape(node: Node) -> Specs:
    node.input(0)
    return [(BOOL, ())]


@microsoft("IsAllFinite", shape=_is_all_finite_shape)
def is_all_finite(node: Node) -> Cost:
    """2·n - 1 operations for n elements of all inputs."""
    n = sum(tensor.n_elements for tensor in node.present)
    return Cost(simple=max(2 * n - 1, 0))
