"""Multiply-adds of matrix products, convolutions and recurrent layers from real shapes.

Each rule is one line of arithmetic on the elements of whole tensors, written without a
look at the estimator's formulas: the number of times each weight is used, or the number
of products in each output. Padding counts like data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from onnx import NodeProto, helper

from .profiling import Kernel

FLOP_PER_MAC = 2


def multiply_add_flop(node: NodeProto, kernel: Kernel) -> int | None:
    """2 FLOP for each multiply-add; None where no rule for the operator is written here."""
    of_domain = _OF_MICROSOFT if node.domain else _OF_ONNX
    rule = RULES.get(node.op_type) or of_domain.get(node.op_type)
    return None if rule is None else FLOP_PER_MAC * rule(node, kernel)


def _convolution(weights: int) -> Callable[[NodeProto, Kernel], int]:
    # Each output element is a sum over the weights of one output channel.
    def count(node: NodeProto, kernel: Kernel) -> int:  # noqa: ARG001
        weight = kernel.inputs[weights]
        return kernel.outputs[0].n_elements * math.prod(weight.shape[1:])

    return count


def _transposed(node: NodeProto, kernel: Kernel) -> int:  # noqa: ARG001
    # Each input element meets the weights of its channel once.
    return kernel.inputs[0].n_elements * math.prod(kernel.inputs[1].shape[1:])


def _product(node: NodeProto, kernel: Kernel) -> int:  # noqa: ARG001
    return kernel.outputs[0].n_elements * kernel.inputs[0].shape[-1]


def _gemm(node: NodeProto, kernel: Kernel) -> int:
    rows = 0 if attribute(node, "transA", 0) else 1
    return kernel.outputs[0].n_elements * kernel.inputs[0].shape[rows]


def _recurrent(node: NodeProto, kernel: Kernel) -> int:  # noqa: ARG001
    # Every step of every sequence multiplies all of W and all of R, in either layout.
    first, second, _ = kernel.inputs[0].shape
    return first * second * (kernel.inputs[1].n_elements + kernel.inputs[2].n_elements)


def _einsum(node: NodeProto, kernel: Kernel) -> int:
    equation = str(attribute(node, "equation", b""), "ascii").replace(" ", "")
    written, arrow, result = equation.partition("->")
    if "." in equation or not arrow:
        raise NotImplementedError(f"einsum {equation!r}")
    sizes: dict[str, int] = {}
    for labels, tensor in zip(written.split(","), kernel.inputs, strict=True):
        for letter, size in zip(labels, tensor.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 0))
    is_sum = set(sizes) - set(result)
    return math.prod(sizes.values()) if is_sum and len(kernel.inputs) > 1 else 0


def _fused_product(node: NodeProto, kernel: Kernel) -> int:
    factor = kernel.inputs[0].shape
    return kernel.outputs[0].n_elements * factor[-2 if attribute(node, "transA", 0) else -1]


def _packed_product(node: NodeProto, kernel: Kernel) -> int:
    return kernel.outputs[0].n_elements * int(attribute(node, "K", 0))


def _attention(node: NodeProto, kernel: Kernel) -> int:
    # Two products for each query: with all keys as wide as it, with all values as wide
    # as what comes out. Of a mask nothing is saved.
    query, key = kernel.inputs[:2]
    if len(query.shape) == 3:
        n_queries, n_keys = math.prod(query.shape[:2]), key.shape[1]
    else:
        n_queries, n_keys = math.prod(query.shape[:3]), key.shape[2]
    if len(list(filter(None, node.input))) > 4:
        raise NotImplementedError("attention over keys of an earlier step")
    return n_queries * n_keys * (query.shape[-1] + kernel.outputs[0].shape[-1])


def _grouped_attention(node: NodeProto, kernel: Kernel) -> int:  # noqa: ARG001
    # Each new token meets all keys and values that are kept after it; of the heads that
    # share keys each multiplies for itself.
    batch, n_new, width = kernel.outputs[0].shape
    return batch * n_new * kernel.outputs[1].shape[2] * 2 * width


def _linear_scores(node: NodeProto, kernel: Kernel) -> int:  # noqa: ARG001
    # One score for each class, from every feature; labels are the first output.
    return kernel.inputs[0].n_elements * kernel.outputs[-1].shape[-1]


def _projected_attention(node: NodeProto, kernel: Kernel) -> int:
    # The projections to queries, keys and values first; then every token sees every token.
    batch, sequence, _ = kernel.inputs[0].shape
    if len(list(filter(None, node.input))) > 4 or attribute(node, "qkv_hidden_sizes", None):
        raise NotImplementedError("attention over keys of an earlier step, or of other widths")
    width = kernel.outputs[0].shape[-1]
    return batch * sequence * (kernel.inputs[1].n_elements + 2 * sequence * width)


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute of ``node``, or ``default``."""
    found = (one for one in node.attribute if one.name == name)
    return next((helper.get_attribute_value(one) for one in found), default)


RULES: dict[str, Callable[[NodeProto, Kernel], int]] = {
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "DeformConv": _convolution(1),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed,
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearMatMul": _product,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "DynamicQuantizeLSTM": _recurrent,
    "MatMulIntegerToFloat": _product,
    "DynamicQuantizeMatMul": _product,
    "FusedConv": _convolution(1),
    "FusedGemm": _gemm,
    "QGemm": _gemm,
    "FusedMatMul": _fused_product,
    "LinearClassifier": _linear_scores,
    "LinearRegressor": _linear_scores,
    "MatMulNBits": _packed_product,
    "MultiHeadAttention": _attention,
    "GroupQueryAttention": _grouped_attention,
}
_OF_MICROSOFT = {"Attention": _projected_attention}
_OF_ONNX = {"Attention": _attention}
