"""Operators that make tensors: Constant, ConstantOfShape, Shape, Size, Range, EyeLike, random.

https://onnx.ai/onnx/operators/onnx__Constant.html, …__ConstantOfShape, …__Shape, …__Range and kin
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import FLOAT32, INT32, INT64, STRING, ElementType
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import hold
from mansard.estimator.shapes.checks import check_rank, known_ints, open_shape
from mansard.estimator.shapes.elementwise import element_type
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


@rule("Constant")
def _constant(node: Node) -> Sequence[Spec]:
    held = constant_tensor(node)
    return [(held.dtype, held.shape)]


@rule("ConstantOfShape")
def _constant_of_shape(node: Node) -> Sequence[Spec]:
    fill = node.attributes.get("value")
    dtype = fill.dtype if isinstance(fill, StoredTensor) else FLOAT32
    shape = known_ints(node, 0)
    if shape is None:
        return [(dtype, open_shape(node, node.input(0).n_elements))]
    if any(size < 0 for size in shape):
        raise node.error(f"shape {list(shape)} has a negative dimension")
    return [(dtype, shape)]


@rule("Shape")
def _shape(node: Node) -> Sequence[Spec]:
    return [(INT64, (len(shape_slice(node)),))]


def shape_slice(node: Node) -> Shape:
    """The part of the input's shape that a Shape node gives (``start`` and ``end``)."""
    shape = node.input(0).shape
    if not node.attributes:
        return shape
    return shape[node.integer("start", 0) : node.integer("end", len(shape))]


@rule("Size")
def _size(node: Node) -> Sequence[Spec]:
    node.input(0)
    return [(INT64, ())]


@rule("Range")
def _range(node: Node) -> Sequence[Spec]:
    dtype, values = node.input(0).dtype, [node.input(position).value for position in range(3)]
    if any(value is None for value in values):
        return [(dtype, (None,))]
    start, limit, step = (node.value(position).first for position in range(3))
    if not step:
        raise node.error("has a step of zero")
    # n = max(ceil((limit - start) / step), 0): exact for integers, in fp64 for the others.
    n = -((start - limit) // step) if isinstance(start, int) else _ceil((limit - start) / step)
    return [(dtype, (max(n, 0),))]


def _ceil(number: float) -> int:
    # What is beyond 63 bits, infinities included, stays absurd instead of raising.
    return math.ceil(min(max(number, -(2.0**63)), 2.0**63))


@rule("EyeLike")
def _eye_like(node: Node) -> Sequence[Spec]:
    check_rank(node, 0, 2)
    return [(element_type(node, "dtype", node.input(0).dtype), node.input(0).shape)]


@rule("RandomNormal", "RandomUniform")
def _random(node: Node) -> Sequence[Spec]:
    shape = node.integers("shape")
    if shape is None:
        raise node.error("the shape is missing")
    return [(element_type(node, "dtype", FLOAT32), shape)]


@rule("Bernoulli", "RandomNormalLike", "RandomUniformLike")
def _random_like(node: Node) -> Sequence[Spec]:
    return [(element_type(node, "dtype", node.input(0).dtype), node.input(0).shape)]


@rule("Multinomial")
def _multinomial(node: Node) -> Sequence[Spec]:
    """[batch, samples] for log-probabilities [batch, classes]."""
    check_rank(node, 0, 2)
    n_samples = node.integer("sample_size", 1)
    if n_samples < 1:
        raise node.error(f"draws {n_samples} samples")
    return [(element_type(node, "dtype", INT32), (node.input(0).shape[0], n_samples))]


def constant_tensor(node: Node) -> StoredTensor:
    """What a Constant node holds, in whichever of its attributes."""
    for name in ("value", "sparse_value"):
        held = node.attributes.get(name)
        if isinstance(held, StoredTensor):
            return held
    for name, dtype in _LITERALS.items():
        if name in node.attributes:
            return _literal(node, node.attributes[name], dtype)
    raise node.error("holds no value")


_LITERALS = {
    "value_int": INT64,
    "value_ints": INT64,
    "value_float": FLOAT32,
    "value_floats": FLOAT32,
    "value_string": STRING,
    "value_strings": STRING,
}


def _literal(node: Node, value: object, dtype: ElementType) -> StoredTensor:
    shape = (len(value),) if isinstance(value, tuple) else ()
    if dtype.name == "string":
        return StoredTensor(node.name, dtype, shape, None)
    kind = float if dtype.is_float else int
    numbers = [kind(element) for element in (value if isinstance(value, tuple) else (value,))]
    return StoredTensor(node.name, dtype, shape, hold(dtype, shape, numbers))
