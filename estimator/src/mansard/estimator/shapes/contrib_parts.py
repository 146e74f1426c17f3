"""What the shape rules of ONNX Runtime's own operators have in common.

Facts: the operators' schemas in onnxruntime 1.31
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md), and what
its kernels and its shape inference answer, to which the tests compare every rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.shapes.registry import Spec, find_rule
from mansard.estimator.tensors import Node, Shape, Tensor

MICROSOFT = "com.microsoft"
NHWC = "com.ms.internal.nhwc"
NCHWC = "com.microsoft.nchwc"
_OPSET = 21  # of ONNX's own operators that these are extensions of


def as_standard(node: Node, op_type: str, *inputs: Tensor | None) -> Node:
    """The node as ONNX's own ``op_type``, with ``inputs`` in place of its own where given."""
    return msgspec.structs.replace(
        node, op_type=op_type, domain="", opset=_OPSET, inputs=inputs or node.inputs
    )


def standard_specs(node: Node) -> Sequence[Spec]:
    """What the rule of ONNX's own operator of this name says."""
    rule = find_rule("", node.op_type)
    specs = "there is no shape rule for this operator" if rule is None else rule(node)
    if isinstance(specs, str):
        raise node.error(specs)
    return specs


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


def same_as_first(node: Node) -> Sequence[Spec]:
    """One output of the first input's type and shape."""
    data = node.input(0)
    return [(data.dtype, data.shape)]
