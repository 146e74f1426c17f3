"""Operators that make tensors: constants, shapes, ranges, random numbers.

https://onnx.ai/onnx/operators/onnx__Constant.html, …__ConstantOfShape, …__Shape, …__Range,
…__EyeLike, …__RandomNormal, …__Bernoulli, …__Multinomial and kin. A random number counts
as one function: what a generator does for one (Philox: some 100 integer operations for
four) is no arithmetic of the network; exp and log hide as much behind one function.
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import FLOAT32, INT32, INT64, STRING, ElementType, hold
from mansard.estimator.operators.costs import move, no_bytes, no_work, per_element
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import check_rank, element_type, known_ints, open_shape
from mansard.estimator.tensors import Node, Shape


@shape_of("Constant", cost=move)
def _constant_shape(node: Node) -> Specs:
    held = constant_tensor(node)
    return [(held.dtype, held.shape)]


@shape_of("ConstantOfShape", cost=move)
def _filled_shape(node: Node) -> Specs:
    fill = node.attributes.get("value")
    dtype = fill.dtype if isinstance(fill, StoredTensor) else FLOAT32
    shape = known_ints(node, 0)
    if shape is None:
        return [(dtype, open_shape(node, node.input(0).n_elements))]
    if any(size < 0 for size in shape):
        raise node.error(f"shape {list(shape)} has a negative dimension")
    return [(dtype, shape)]


@shape_of("Shape", cost=move)
def _dimensions_shape(node: Node) -> Specs:
    return [(INT64, (len(shape_slice(node)),))]


def shape_slice(node: Node) -> Shape:
    """The part of the input's shape that a Shape node gives (``start`` and ``end``)."""
    shape = node.input(0).shape
    if not node.attributes:
        return shape
    return shape[node.integer("start", 0) : node.integer("end", len(shape))]


@shape_of("Size", cost=move)
def _size_shape(node: Node) -> Specs:
    node.input(0)
    return [(INT64, ())]


@shape_of("Range", cost=per_element(2))  # start + i·delta
def _range_shape(node: Node) -> Specs:
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


@shape_of(
    "EyeLike",
    cost=no_work(),
    not_weights=(0,),
    reads=no_bytes,
)
def _eye_like_shape(node: Node) -> Specs:
    check_rank(node, 0, 2)
    return [(element_type(node, "dtype", node.input(0).dtype), node.input(0).shape)]


@shape_of(
    *("RandomNormal", "RandomUniform"),
    cost=per_element(2, 1),
)
def _random_shape(node: Node) -> Specs:
    shape = node.integers("shape")
    if shape is None:
        raise node.error("the shape is missing")
    return [(element_type(node, "dtype", FLOAT32), shape)]


def _random_like_shape(node: Node) -> Specs:
    return [(element_type(node, "dtype", node.input(0).dtype), node.input(0).shape)]


operator(
    "RandomNormalLike",
    "RandomUniformLike",
    shape=_random_like_shape,
    not_weights=(0,),
    reads=no_bytes,
)(per_element(2, 1))
operator("Bernoulli", shape=_random_like_shape)(
    per_element(1, 1, "A function and a comparison for each output element.")
)


def _multinomial_shape(node: Node) -> Specs:
    """[batch, samples] for log-probabilities [batch, classes]."""
    check_rank(node, 0, 2)
    n_samples = node.integer("sample_size", 1)
    if n_samples < 1:
        raise node.error(f"draws {n_samples} samples")
    return [(element_type(node, "dtype", INT32), (node.input(0).shape[0], n_samples))]


@operator("Multinomial", shape=_multinomial_shape)
def multinomial(node: Node) -> Cost:
    """For a row of n: 3·n - 2 operations and n functions; a sample 1 + ⌈log2 n⌉ and a function."""
    batch, n = node.input(0).shape
    n_samples = node.output.n_elements
    rows = batch * Cost(simple=3 * n - 2, functions=n) if n else Cost()
    return rows + n_samples * Cost(simple=1 + max(n - 1, 0).bit_length(), functions=1)


_LITERALS = {"int": INT64, "float": FLOAT32, "string": STRING}


def constant_tensor(node: Node) -> StoredTensor:
    """What a Constant node holds, in whichever of its attributes."""
    for name in ("value", "sparse_value"):
        held = node.attributes.get(name)
        if isinstance(held, StoredTensor):
            return held
    for kind, dtype in _LITERALS.items():
        for name in (f"value_{kind}", f"value_{kind}s"):
            if name in node.attributes:
                return _literal(node, node.attributes[name], dtype)
    raise node.error("holds no value")


def _literal(node: Node, value: object, dtype: ElementType) -> StoredTensor:
    if isinstance(value, StoredTensor):  # a long list
        return StoredTensor(node.name, dtype, value.shape, None)
    shape = (len(value),) if isinstance(value, tuple) else ()
    if dtype.name == "string":
        return StoredTensor(node.name, dtype, shape, None)
    kind = float if dtype.is_float else int
    numbers = [kind(element) for element in (value if isinstance(value, tuple) else (value,))]
    return StoredTensor(node.name, dtype, shape, hold(dtype, shape, numbers))
