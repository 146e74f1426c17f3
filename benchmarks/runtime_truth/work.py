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
    rule = RULES.get(node.op_type)
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
    written, _, result = equation.partition("->")
    if "." in equation or not result:
        raise NotImplementedError(f"einsum {equation!r}")
    sizes: dict[str, int] = {}
    for labels, tensor in zip(written.split(","), kernel.inputs, strict=True):
        for letter, size in zip(labels, tensor.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 0))
    is_sum = set(sizes) - set(result)
    return math.prod(sizes.values()) if is_sum and len(kernel.inputs) > 1 else 0


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """The value of an attribute of ``node``, or ``default``."""
    found = (one for one in node.attribute if one.name == name)
    return next((helper.get_attribute_value(one) for one in found), default)


RULES: dict[str, Callable[[NodeProto, Kernel], int]] = {
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
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
}
