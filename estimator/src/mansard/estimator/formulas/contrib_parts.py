"""What the formulas of ONNX Runtime's own operators are put together from.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Mapping

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.elementwise import PER_ELEMENT
from mansard.estimator.formulas.registry import FORMULAS
from mansard.estimator.shapes.contrib_parts import as_standard
from mansard.estimator.tensors import Node, Tensor

SIGMOID = Cost(simple=3, functions=1)  # 1 / (1 + exp(-x))
SILU = Cost(simple=4, functions=1)  # x · sigmoid(x)
GELU = Cost(simple=4, functions=1)  # 0.5·x·(1 + erf(x/√2))
FAST_GELU = Cost(simple=8, functions=1)  # the same with tanh of a polynomial
QUANTIZE = Cost(simple=5)  # divide, round, add the zero point, clamp twice
DEQUANTIZE = Cost(simple=2)  # subtract the zero point, multiply
ROTATE = Cost(simple=3)  # two multiplications and an addition
# Extremes of all elements, then as above; DynamicQuantizeLinear of ONNX, element by element.
QUANTIZE_DYNAMICALLY = Cost(simple=7)

_ACTIVATIONS = {
    "": NOTHING,
    "NONE": NOTHING,
    "Clip": Cost(simple=2),
    "Gelu": GELU,
    "GELU": GELU,
    "QuickGelu": Cost(simple=5, functions=1),
    "RELU": Cost(simple=1),
    "Silu": SILU,
    "Swish": SILU,
    "identity": NOTHING,
    "gelu": GELU,
    "none": NOTHING,
    "relu": Cost(simple=1),
    "sigmoid": SIGMOID,
    "silu": SILU,
    "swish": SILU,
}


def activation_cost(node: Node, default: str = "") -> Cost:
    """One evaluation of the function that attribute ``activation`` names."""
    return named_activation(node, node.text("activation", default))


def named_activation(node: Node, name: str) -> Cost:
    """One evaluation of an activation by its name; raises ModelError for none that is known."""
    if name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    if name == "Softmax":
        return Cost(simple=4, functions=1)
    if name not in PER_ELEMENT:
        raise node.error(f"the work of activation {name!r} is not known")
    simple, functions = PER_ELEMENT[name]
    return Cost(simple=simple, functions=functions)


def standard_cost(node: Node, op_type: str, *inputs: Tensor | None) -> Cost:
    """What ONNX's own ``op_type`` costs on these inputs, or on the node's own."""
    formula = FORMULAS.find("", op_type)
    if formula is None:
        raise node.error(f"there is no formula for {op_type}")
    return formula.function(as_standard(node, op_type, *inputs))


def reads_only(node: Node, precision: Precision | None, elements: Mapping[int, int]) -> int:
    """Bytes of the distinct inputs; of those at the positions given only so many elements."""
    partial: dict[str, int] = {}
    for position, n in elements.items():
        tensor = node.optional(position)
        if tensor is not None:
            partial[tensor.name] = max(n, partial.get(tensor.name, 0))
    return _partly(node.distinct, precision, partial)


def writes_only(node: Node, precision: Precision | None, elements: Mapping[int, int]) -> int:
    """Bytes of the outputs that have a name; of some only so many elements."""
    named = tuple(output for output in node.outputs if output.name)
    partial = {node.outputs[i].name: n for i, n in elements.items() if i < len(node.outputs)}
    return _partly(named, precision, partial)


def _partly(
    tensors: tuple[Tensor, ...], precision: Precision | None, partial: Mapping[str, int]
) -> int:
    return sum(
        tensor.dtype.size_bytes(
            min(tensor.n_elements, partial.get(tensor.name, tensor.n_elements)), precision
        )
        for tensor in tensors
    )


def rows(n_elements: int, width: int) -> int:
    """How many rows of ``width`` there are; none where a row is empty."""
    return n_elements // width if width else 0
