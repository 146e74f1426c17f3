"""Values that are made: of shapes, or filled in."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from mansard.estimator.model import StoredTensor
from mansard.estimator.shapes.constants import shape_slice
from mansard.estimator.tensors import Array, Node, Shape, as_array
from mansard.estimator.values.registry import Evaluate, alone


def _shape_of(node: Node, _shape: Shape) -> Array:
    return as_array(shape_slice(node))


def _size_of(node: Node, _shape: Shape) -> Array:
    return as_array(node.input(0).n_elements)


def _constant_of_shape(node: Node, shape: Shape) -> Array:
    fill = node.attributes.get("value")
    if isinstance(fill, StoredTensor):
        if fill.value is None:
            return np.zeros(shape)
        return np.full(shape, fill.value.reshape(-1)[0])
    return np.zeros(shape)


def _range(node: Node, shape: Shape) -> Array:
    # The length comes from the shape: NumPy's arange rounds it in the narrower type.
    return np.asarray(node.value(0).reshape(()) + np.arange(*shape) * node.value(2).reshape(()))


def _eye(node: Node, shape: Shape) -> Array:
    rows, columns = shape
    return np.asarray(np.eye(rows, columns, node.integer("k", 0)))


EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "ConstantOfShape": alone(_constant_of_shape),
        "EyeLike": alone(_eye),
        "Range": alone(_range),
        "Shape": alone(_shape_of),
        "Size": alone(_size_of),
    }
)
