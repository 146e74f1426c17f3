"""Operators that work element by element, with broadcasting.

Broadcasting: https://onnx.ai/onnx/repo-docs/Broadcasting.html ; before version 7 two
inputs had to be of one shape, or an attribute said how the second lies on the first
(https://onnx.ai/onnx/operators/onnx__Add.html, versions 1 and 6).
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import BOOL, BY_CODE, BY_PROTO_NAME, ElementType
from mansard.estimator.shapes.checks import BAKED_IN, check_length, check_types
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape, Tensor

# Outputs of the first input's type and shape, whatever that is.
SAME = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu"),
    *("Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("Identity", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round"),
    *("Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt"),
    *("Swish", "Tan", "Tanh", "ThresholdedRelu"),
)
PAIRS = ("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mod", "Mul", "Sub")
VARIADIC = ("Max", "Mean", "Min", "Sum")
ARITHMETIC = (*PAIRS, *VARIADIC, "PRelu")
COMPARISON = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
LOGIC = ("And", "Or", "Xor")


def same(tensor: Tensor) -> Spec:
    """Type and shape of ``tensor``."""
    return tensor.dtype, tensor.shape


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """The common shape by ONNX's (NumPy's) rule; raises ModelError where there is none."""
    rank = max(len(shape) for shape in shapes)
    result = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, start=rank - len(shape)):
            if result[position] == 1:
                result[position] = size
            elif size not in (1, result[position]):
                shown = ", ".join(str(list(shape)) for shape in shapes)
                raise node.error(f"shapes {shown} do not go together", BAKED_IN)
    return tuple(result)


@rule(*SAME)
def _same(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    return [(data.dtype, data.shape)]


def _pair_shape(node: Node) -> Shape:
    """The shape of a result of two inputs, by whichever rule the version has."""
    first, second = node.input(0), node.input(1)
    if first.shape == second.shape:
        return first.shape
    if node.opset >= 7:
        return broadcast(node, first.shape, second.shape)
    if not node.integer("broadcast", 0):
        raise node.error(
            f"shapes {list(first.shape)} and {list(second.shape)} differ, "
            f"but version {node.opset} broadcasts only where it is told to"
        )
    axis = node.integer("axis", first.rank - second.rank)
    start = axis + first.rank if axis < 0 else axis
    covered = first.shape[start : start + second.rank]
    fits = len(covered) == second.rank and all(
        size in (1, other) for size, other in zip(second.shape, covered, strict=True)
    )
    if start < 0 or not fits:
        raise node.error(f"{list(second.shape)} does not lie on {list(first.shape)} at axis {axis}")
    return first.shape


@rule(*PAIRS)
def _arithmetic(node: Node) -> Sequence[Spec]:
    first = node.input(0)
    check_types(node, first, (node.input(1),))
    return [(first.dtype, _pair_shape(node))]


@rule(*VARIADIC)
def _variadic(node: Node) -> Sequence[Spec]:
    first = node.input(0)
    check_types(node, first, node.present)
    shape = broadcast(node, *(tensor.shape for tensor in node.present))
    if node.opset < 8 and any(tensor.shape != shape for tensor in node.present):
        raise node.error(f"its inputs must be of one shape before version 8, not {list(shape)}")
    return [(first.dtype, shape)]


@rule("PRelu")
def _parametric_relu(node: Node) -> Sequence[Spec]:
    data, slope = node.input(0), node.input(1)
    check_types(node, data, (slope,))
    if node.opset < 7:
        if slope.n_elements != 1:
            check_length(node, 1, data.shape[1], "channels")
    elif broadcast(node, data.shape, slope.shape) != data.shape:
        raise node.error(f"slope {list(slope.shape)} does not broadcast to {list(data.shape)}")
    return [(data.dtype, data.shape)]


@rule("Pow")
def _power(node: Node) -> Sequence[Spec]:
    if node.opset < 12:
        check_types(node, node.input(0), (node.input(1),))
    return [(node.input(0).dtype, _pair_shape(node))]


@rule("SwiGLU")
def _gated(node: Node) -> Sequence[Spec]:
    gate, value = node.input(0), node.input(1)
    check_types(node, gate, (value,))
    if gate.shape != value.shape:
        raise node.error(f"gate {list(gate.shape)} and value {list(value.shape)} differ")
    return [(gate.dtype, gate.shape)]


@rule(*COMPARISON, *LOGIC)
def _comparison(node: Node) -> Sequence[Spec]:
    check_types(node, node.input(0), (node.input(1),))
    return [(BOOL, _pair_shape(node))]


@rule("IsNaN", "IsInf")
def _test(node: Node) -> Sequence[Spec]:
    return [(BOOL, node.input(0).shape)]


@rule("Where")
def _where(node: Node) -> Sequence[Spec]:
    condition, yes, no = node.input(0), node.input(1), node.input(2)
    check_types(node, yes, (no,))
    return [(yes.dtype, broadcast(node, condition.shape, yes.shape, no.shape))]


@rule("Clip")
def _clip(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    for position in range(1, len(node.inputs)):
        bound = node.optional(position)
        if bound is not None:
            check_types(node, data, (bound,))
            check_length(node, position, 1, "bound")
    return [(data.dtype, data.shape)]


@rule("Cast")
def _cast(node: Node) -> Sequence[Spec]:
    return [(element_type(node, "to"), node.input(0).shape)]


@rule("CastLike")
def _cast_like(node: Node) -> Sequence[Spec]:
    return [(node.input(1).dtype, node.input(0).shape)]


@rule("BitCast")
def _bit_cast(node: Node) -> Sequence[Spec]:
    data, dtype = node.input(0), element_type(node, "to")
    if data.dtype.n_bits != dtype.n_bits:
        raise node.error(f"{data.dtype.name} and {dtype.name} are of different widths")
    return [(dtype, data.shape)]


@rule("Dropout")
def _dropout(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    # The mask became boolean in version 10; before, it had the data's type.
    return [same(data), (BOOL if node.opset >= 10 else data.dtype, data.shape)]


def element_type(node: Node, attribute: str, default: ElementType | None = None) -> ElementType:
    """The element type an attribute names by ONNX's code, before version 6 by its name."""
    value = node.attributes.get(attribute)
    if value is None and default is not None:
        return default
    dtype = BY_CODE.get(value) if isinstance(value, int) else None
    if isinstance(value, str):
        dtype = BY_PROTO_NAME.get(value.upper())
    if dtype is None:
        raise node.error(f"attribute {attribute!r} names no element type")
    return dtype
