"""Operators that work element by element, with broadcasting.

A single addition, multiplication, division, comparison or rounding is one simple
operation; exp, log, sqrt, erf and the like are one function. Definitions of the
activations: https://onnx.ai/onnx/operators/

Broadcasting: https://onnx.ai/onnx/repo-docs/Broadcasting.html ; before version 7 two
inputs had to be of one shape, or an attribute said how the second lies on the first
(https://onnx.ai/onnx/operators/onnx__Add.html, versions 1 and 6).
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import BOOL
from mansard.estimator.operators.costs import first_bytes, move, no_work, per_element, view
from mansard.estimator.operators.registry import ShapeRule, Specs, operator, shape_of
from mansard.estimator.operators.shapes import (
    as_large_as_first,
    broadcast,
    check_length,
    check_types,
    element_type,
    same,
    same_as_first,
)
from mansard.estimator.tensors import Node, Shape


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
            f"but version {node.opset} broadcasts only where it is asked to"
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


def _arithmetic_shape(node: Node) -> Specs:
    first = node.input(0)
    check_types(node, first, (node.input(1),))
    return [(first.dtype, _pair_shape(node))]


def _parametric_relu_shape(node: Node) -> Specs:
    data, slope = node.input(0), node.input(1)
    check_types(node, data, (slope,))
    if node.opset < 7:
        if slope.n_elements != 1:
            check_length(node, 1, data.shape[1], "channels")
    elif broadcast(node, data.shape, slope.shape) != data.shape:
        raise node.error(f"slope {list(slope.shape)} does not broadcast to {list(data.shape)}")
    return [(data.dtype, data.shape)]


def _comparison_shape(node: Node) -> Specs:
    check_types(node, node.input(0), (node.input(1),))
    return [(BOOL, _pair_shape(node))]


def _where_shape(node: Node) -> Specs:
    condition, yes, no = node.input(0), node.input(1), node.input(2)
    check_types(node, yes, (no,))
    return [(yes.dtype, broadcast(node, condition.shape, yes.shape, no.shape))]


_PAIRS = ("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mod", "Mul", "Sub")
ARITHMETIC = (*_PAIRS, "Max", "Mean", "Min", "Sum", "PRelu")
COMPARISON = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
LOGIC = ("And", "Or", "Xor")
_ONE_OPERATION = ("Abs", "BitwiseNot", "Ceil", "Floor", "Neg", "Not", "Reciprocal", "Round", "Sign")
_ONE_FUNCTION = (
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Log"),
    *("Sin", "Sinh", "Sqrt", "Tan", "Tanh"),
)
_ACTIVATIONS = {
    "Celu": (6, 1),  # max(0, x) + min(0, a·(exp(x / a) - 1))
    "Elu": (3, 1),  # x < 0 ? a·(exp(x) - 1) : x
    "HardSigmoid": (4, 0),  # max(0, min(1, a·x + b))
    "HardSwish": (5, 0),  # x · HardSigmoid(x)
    "LeakyRelu": (2, 0),  # x < 0 ? a·x : x
    "Mish": (2, 3),  # x · tanh(log(1 + exp(x)))
    "Relu": (1, 0),
    "Selu": (4, 1),  # g·(x > 0 ? x : a·exp(x) - a)
    "Shrink": (3, 0),  # compare with both thresholds, add the bias
    "Sigmoid": (3, 1),  # 1 / (1 + exp(-x))
    "Softplus": (1, 2),  # log(1 + exp(x))
    "Softsign": (3, 0),  # x / (1 + |x|)
    "ThresholdedRelu": (1, 0),
}

# shape rule -> operators -> (simple operations, functions) for each element of the output
_ROWS: dict[ShapeRule, dict[str, tuple[int, int]]] = {
    same_as_first: {
        **dict.fromkeys(_ONE_OPERATION, (1, 0)),
        **dict.fromkeys(_ONE_FUNCTION, (0, 1)),
        **_ACTIVATIONS,
    },
    as_large_as_first(BOOL): dict.fromkeys(("IsInf", "IsNaN"), (1, 0)),
    _arithmetic_shape: dict.fromkeys(_PAIRS, (1, 0)),
    _comparison_shape: dict.fromkeys((*COMPARISON, *LOGIC), (1, 0)),
    _where_shape: {"Where": (1, 0)},
    _parametric_relu_shape: {"PRelu": (2, 0)},  # x < 0 ? slope·x : x
}
PER_ELEMENT = {op_type: each for rows in _ROWS.values() for op_type, each in rows.items()}

for _shape, _operators in _ROWS.items():
    for _op_type, _counts in _operators.items():
        operator(_op_type, shape=_shape)(per_element(*_counts))


@operator("Gelu", shape=same_as_first)
def gelu(node: Node) -> Cost:
    """0.5·x·(1 + erf(x/√2)): 4 operations and a function; with tanh 8 and a function."""
    simple = 8 if node.text("approximate", "none") == "tanh" else 4
    return Cost(simple=simple * node.output.n_elements, functions=node.output.n_elements)


@operator("Swish", shape=same_as_first)
def swish(node: Node) -> Cost:
    """x · sigmoid(a·x): 4 operations and a function, 5 if a is not 1."""
    simple = 4 if node.number("alpha", 1.0) == 1.0 else 5
    return Cost(simple=simple * node.output.n_elements, functions=node.output.n_elements)


def _variadic_shape(node: Node) -> Specs:
    first = node.input(0)
    check_types(node, first, node.present)
    shape = broadcast(node, *(tensor.shape for tensor in node.present))
    if node.opset < 8 and any(tensor.shape != shape for tensor in node.present):
        raise node.error(f"its inputs must be of one shape before version 8, not {list(shape)}")
    return [(first.dtype, shape)]


@operator("Max", "Min", "Sum", shape=_variadic_shape)
def fold(node: Node) -> Cost:
    """k - 1 operations for each output element of k inputs."""
    return Cost(simple=(len(node.present) - 1) * node.output.n_elements)


@operator("Mean", shape=_variadic_shape)
def mean(node: Node) -> Cost:
    """Additions, and one division, for each output element."""
    return Cost(simple=len(node.present) * node.output.n_elements)


def _power_shape(node: Node) -> Specs:
    if node.opset < 12:
        check_types(node, node.input(0), (node.input(1),))
    return [(node.input(0).dtype, _pair_shape(node))]


@operator("Pow", shape=_power_shape)
def power(node: Node) -> Cost:
    """A square is one multiplication, a cube two, anything else a function."""
    n, exponent = node.output.n_elements, node.input(1).value
    if exponent is not None and exponent.n_elements == 1:
        known = float(exponent.first)
        if known in (1.0, 2.0, 3.0):
            return Cost(simple=int(known - 1) * n)
    return Cost(functions=n)


def _gated_shape(node: Node) -> Specs:
    gate, value = node.input(0), node.input(1)
    check_types(node, gate, (value,))
    if gate.shape != value.shape:
        raise node.error(f"gate {list(gate.shape)} and value {list(value.shape)} differ")
    return [(gate.dtype, gate.shape)]


@operator("SwiGLU", shape=_gated_shape)
def gated_swish(node: Node) -> Cost:
    """a · sigmoid(alpha·a) · b: 5 operations and a function, 6 if alpha is not 1."""
    return swish(node) + Cost(simple=node.output.n_elements)


def _clip_shape(node: Node) -> Specs:
    data = node.input(0)
    for position in range(1, len(node.inputs)):
        bound = node.optional(position)
        if bound is not None:
            check_types(node, data, (bound,))
            check_length(node, position, 1, "bound")
    return [(data.dtype, data.shape)]


@operator("Clip", shape=_clip_shape, not_weights=(1, 2))
def clip(node: Node) -> Cost:
    """One comparison for each bound that is given."""
    bounds = sum(node.has(i) for i in (1, 2)) + sum(k in node.attributes for k in ("min", "max"))
    return Cost(simple=bounds * node.output.n_elements)


@shape_of("Cast", cost=move)
def _cast_shape(node: Node) -> Specs:
    return [(element_type(node, "to"), node.input(0).shape)]


@shape_of(
    "CastLike",
    cost=no_work(),
    not_weights=(1,),
    reads=first_bytes,
)
def _cast_like_shape(node: Node) -> Specs:
    return [(node.input(1).dtype, node.input(0).shape)]


@shape_of("BitCast", cost=view, is_view=True, not_weights=(1, 2))
def _bit_cast_shape(node: Node) -> Specs:
    data, dtype = node.input(0), element_type(node, "to")
    if data.dtype.n_bits != dtype.n_bits:
        raise node.error(f"{data.dtype.name} and {dtype.name} are of different widths")
    return [(dtype, data.shape)]


@shape_of("Dropout", cost=view, is_view=True, not_weights=(1, 2))
def _dropout_shape(node: Node) -> Specs:
    data = node.input(0)
    # The mask became boolean in version 10; before, it had the data's type.
    return [same(data), (BOOL if node.opset >= 10 else data.dtype, data.shape)]


operator("Identity", is_view=True, not_weights=(1, 2), shape=same_as_first)(view)
