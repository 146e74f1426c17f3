"""What ONNX Runtime's own operators are put together from.

Facts: the operators' schemas in onnxruntime 1.31
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md), and what
its kernels and its shape inference answer, to which the tests compare every rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.costs import GELU, SIGMOID, SILU
from mansard.estimator.operators.elementwise import PER_ELEMENT
from mansard.estimator.operators.registry import (
    REGISTRY,
    CostFunction,
    Operator,
    Specs,
    operator,
    shape_of,
)
from mansard.estimator.tensors import Node, Shape, Tensor

MICROSOFT = "com.microsoft"
NHWC = "com.ms.internal.nhwc"
NCHWC = "com.microsoft.nchwc"
# The two decorators of the registry, for the operators of one package.
microsoft = partial(operator, domain=MICROSOFT)
microsoft_shape = partial(shape_of, domain=MICROSOFT)

_OPSET = 21  # of ONNX's own operators that these are extensions of

ROTATE = Cost(simple=3)  # two multiplications and an addition
# Extremes of all elements, then as QUANTIZE; DynamicQuantizeLinear of ONNX, element by element.
QUANTIZE_DYNAMICALLY = Cost(simple=7)

_ACTIVATIONS = {
    **dict.fromkeys(("", "NONE", "none", "identity"), NOTHING),
    **dict.fromkeys(("Gelu", "GELU", "gelu"), GELU),
    **dict.fromkeys(("Silu", "silu", "Swish", "swish"), SILU),
    **dict.fromkeys(("RELU", "relu"), Cost(simple=1)),
    "Clip": Cost(simple=2),
    "QuickGelu": Cost(simple=5, functions=1),
    "Softmax": Cost(simple=4, functions=1),
    "sigmoid": SIGMOID,
}


def activation_cost(node: Node, default: str = "") -> Cost:
    """One evaluation of the function that attribute ``activation`` names."""
    return named_activation(node, node.text("activation", default))


def named_activation(node: Node, name: str) -> Cost:
    """One evaluation of an activation by its name; raises ModelError for an unknown one."""
    if name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    if name not in PER_ELEMENT:
        raise node.error(f"the work of activation {name!r} is unknown")
    simple, functions = PER_ELEMENT[name]
    return Cost(simple=simple, functions=functions)


def as_standard(node: Node, op_type: str, *inputs: Tensor | None) -> Node:
    """The node as ONNX's own ``op_type``, with ``inputs`` in place of its own where given."""
    return msgspec.structs.replace(
        node, op_type=op_type, domain="", opset=_OPSET, inputs=inputs or node.inputs
    )


def standard_operator(node: Node, op_type: str) -> Operator:
    """ONNX's own operator of this name; raises ModelError where there is none."""
    found = REGISTRY.find("", op_type)
    if found is None:
        raise node.error(f"ONNX has no operator {op_type}")
    return found


def standard_specs(node: Node) -> Specs:
    """What the shape rule of ONNX's own operator of this name says."""
    rule = standard_operator(node, node.op_type).shape
    specs = "there is no shape rule for this operator" if rule is None else rule(node)
    if isinstance(specs, str):
        raise node.error(specs)
    return specs


def standard_cost(node: Node, op_type: str, *inputs: Tensor | None) -> Cost:
    """What ONNX's own ``op_type`` costs on these inputs, or on the node's own."""
    return standard_operator(node, op_type).cost(as_standard(node, op_type, *inputs))


def cost_of(op_type: str, text: str = "") -> CostFunction:
    """The cost of ONNX's own ``op_type``; ``text`` is for the table."""

    def cost(node: Node) -> Cost:
        return standard_cost(node, op_type)

    cost.__doc__ = text or f"As ONNX's {op_type}."
    return cost


def channels_first(tensor: Tensor) -> Tensor:
    """[batch, spatial…, channels] seen as [batch, channels, spatial…]."""
    shape = tensor.shape
    return msgspec.structs.replace(tensor, shape=(*shape[:1], *shape[-1:], *shape[1:-1]))


def channels_last(shape: Sequence[int | None]) -> tuple[int | None, ...]:
    """The shape of [batch, channels, spatial…] with the channels behind."""
    return (*shape[:1], *shape[2:], *shape[1:2])


def required(node: Node, name: str) -> int:
    """An integer attribute that must be there, of at least 1."""
    value = node.integer(name, 0)
    if value < 1:
        raise node.error(f"attribute {name!r} is missing, or {value}")
    return value


def split_heads(node: Node, width: int, heads: int) -> int:
    """Width of one of ``heads`` heads."""
    if width % heads:
        raise node.error(f"a width of {width} does not divide into {heads} heads")
    return width // heads


def check_shape(node: Node, position: int, expected: Shape) -> None:
    """Raise ModelError where an input that is given is of another shape."""
    tensor = node.optional(position)
    if tensor is not None and tensor.shape != expected:
        raise node.error(f"{tensor.name!r} is {list(tensor.shape)}, not {list(expected)}")
