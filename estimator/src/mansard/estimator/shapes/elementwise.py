"""Operators that work element by element, with broadcasting.

Broadcasting: https://onnx.ai/onnx/repo-docs/Broadcasting.html
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import BOOL, BY_CODE, ElementType
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape, Tensor

# Outputs of the first input's type and shape.
SAME = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu"),
    *(
        "Clip",
        "Cos",
        "Cosh",
        "CumProd",
        "CumSum",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
    ),
    *("HardSwish", "Hardmax", "Identity", "InstanceNormalization", "LRN", "LeakyRelu", "Log"),
    *("LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "Mish", "Neg", "Not"),
    *("GroupNormalization", "RMSNormalization", "Reciprocal", "Relu", "Round", "Scatter"),
    *("ScatterElements", "ScatterND", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh"),
    *("Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "TensorScatter"),
    *("ThresholdedRelu", "Trilu", "RotaryEmbedding", "ReverseSequence"),
)
ARITHMETIC = (
    *("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min"),
    *("Mod", "Mul", "PRelu", "Sub", "Sum"),
)
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
                raise node.error(
                    f"shapes {', '.join(str(list(shape)) for shape in shapes)} do not go together",
                    "if a batch or dimension was set, the file fixes another one inside the "
                    "graph: export the model with that dimension dynamic",
                )
    return tuple(result)


@rule(*SAME)
def _same(node: Node) -> Sequence[Spec]:
    return [same(node.input(0))]


@rule("BiasGelu", "FastGelu", "Gelu", "QuickGelu", domain="com.microsoft")
@rule("SkipLayerNormalization", domain="com.microsoft")
def _same_microsoft(node: Node) -> Sequence[Spec]:
    return [same(node.input(0))]


@rule(*ARITHMETIC)
def _arithmetic(node: Node) -> Sequence[Spec]:
    dtype = node.input(0).dtype
    _check_types(node, dtype, node.present)
    if node.opset < 7 and node.integer("broadcast", 0):
        return [same(node.input(0))]
    return [(dtype, broadcast(node, *(tensor.shape for tensor in node.present)))]


@rule("Pow")
def _power(node: Node) -> Sequence[Spec]:
    return [(node.input(0).dtype, broadcast(node, node.input(0).shape, node.input(1).shape))]


@rule(*COMPARISON, *LOGIC)
def _comparison(node: Node) -> Sequence[Spec]:
    _check_types(node, node.input(0).dtype, node.present)
    if node.opset < 7 and node.integer("broadcast", 0):
        return [(BOOL, node.input(0).shape)]
    return [(BOOL, broadcast(node, node.input(0).shape, node.input(1).shape))]


@rule("IsNaN", "IsInf")
def _test(node: Node) -> Sequence[Spec]:
    return [(BOOL, node.input(0).shape)]


@rule("Where")
def _where(node: Node) -> Sequence[Spec]:
    _check_types(node, node.input(1).dtype, (node.input(1), node.input(2)))
    shapes = (node.input(position).shape for position in range(3))
    return [(node.input(1).dtype, broadcast(node, *shapes))]


@rule("Cast")
def _cast(node: Node) -> Sequence[Spec]:
    return [(element_type(node, "to"), node.input(0).shape)]


@rule("CastLike")
def _cast_like(node: Node) -> Sequence[Spec]:
    return [(node.input(1).dtype, node.input(0).shape)]


@rule("Dropout")
def _dropout(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    # The mask became boolean in version 10; before, it had the data's type.
    return [same(data), (BOOL if node.opset >= 10 else data.dtype, data.shape)]


@rule("BatchNormalization", "SpatialBN")
def _batch_normalization(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if data.rank < 2:
        raise node.error(f"needs an input of at least 2 dimensions, not {list(data.shape)}")
    for position in range(1, 5):
        values = node.input(position)
        if values.n_elements != data.shape[1]:
            raise node.error(
                f"{values.name!r} has {values.n_elements} values for {data.shape[1]} channels"
            )
    return [same(data), *(same(node.input(position)) for position in (3, 4))]


@rule("LayerNormalization")
def _layer_normalization(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axis = data.axis(node.integer("axis", -1))
    rows = data.shape[:axis] + (1,) * (data.rank - axis)
    stash = BY_CODE.get(node.integer("stash_type", 1), data.dtype)
    return [same(data), (stash, rows), (stash, rows)]


def element_type(node: Node, attribute: str) -> ElementType:
    """The element type an attribute names by ONNX's code."""
    value = node.attributes.get(attribute)
    dtype = BY_CODE.get(value) if isinstance(value, int) else None
    if dtype is None:
        raise node.error(f"attribute {attribute!r} names no element type")
    return dtype


def _check_types(node: Node, expected: ElementType, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.dtype is not expected and tensor.dtype != expected:
            raise node.error(
                f"types contradict: {tensors[0].name!r} is {expected.name}, "
                f"{tensor.name!r} is {tensor.dtype.name}",
                "the file is broken; export it again",
            )
