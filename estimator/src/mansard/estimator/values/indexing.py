"""Values picked and placed by index."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from mansard.estimator.numbers import Array
from mansard.estimator.tensors import Node, Shape
from mansard.estimator.values.registry import Evaluate, Known, alone

_UPDATES: dict[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
}


def _along(indices: Array, axis: int) -> tuple[Array, ...]:
    """Where each index points: its own place, moved along ``axis``."""
    places = np.indices(indices.shape)
    return tuple(indices if i == axis else np.asarray(p) for i, p in enumerate(places))


def _gather_nd(node: Node, shape: Shape) -> Array:
    value, indices, batch = node.array(0), node.array(1), node.integer("batch_dims", 0)
    if not batch:
        return np.asarray(value[tuple(np.moveaxis(indices, -1, 0))])
    found = [
        value[place][tuple(np.moveaxis(indices[place], -1, 0))]
        for place in np.ndindex(*indices.shape[:batch])
    ]
    return np.asarray(found).reshape(shape)


def _scatter_elements(node: Node, _shape: Shape) -> Array:
    result, axis = node.array(0).copy(), node.integer("axis", 0)
    return _update(node, result, _along(node.array(1), axis % max(result.ndim, 1)))


def _scatter_nd(node: Node, _shape: Shape) -> Array:
    return _update(node, node.array(0).copy(), tuple(np.moveaxis(node.array(1), -1, 0)))


def _update(node: Node, result: Array, places: tuple[Array, ...]) -> Array:
    operation = _UPDATES.get(node.text("reduction", "none"))
    if operation is None:
        result[places] = node.array(2)
    else:
        operation.at(result, places, node.array(2))
    return result


def _compress(node: Node, _shape: Shape) -> Array:
    axis = node.integer("axis", 0) if "axis" in node.attributes else None
    return np.compress(node.array(1), node.array(0), axis=axis)


def _nonzero(node: Node, shape: Shape) -> Array:
    # A scalar has no coordinates: its result is [0, n].
    return np.asarray(np.nonzero(node.array(0))) if shape[0] else np.zeros(shape)


def _one_hot(node: Node, _shape: Shape) -> Array:
    depth = int(node.array(1).reshape(-1)[0])
    off, on = node.array(2).reshape(-1)
    indices = np.asarray(node.array(0)).astype(np.int64)
    inside = (indices >= -depth) & (indices < depth)
    hit = (np.arange(depth) == (indices % max(depth, 1))[..., None]) & inside[..., None]
    return np.moveaxis(np.where(hit, on, off), -1, node.integer("axis", -1))


def _unique(node: Node, _specs: Sequence[Known]) -> tuple[Array, ...]:
    axis = node.integer("axis", 0) if "axis" in node.attributes else None
    values, first, inverse, counts = np.unique(
        node.array(0), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if node.integer("sorted", 1):
        return values, first, inverse, counts
    order = np.argsort(first)
    place = np.argsort(order)
    values = np.take(values, order, axis=0 if axis is None else axis)
    return values, first[order], place[inverse], counts[order]


EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "Compress": alone(_compress),
        "GatherND": alone(_gather_nd),
        "NonZero": alone(_nonzero),
        "OneHot": alone(_one_hot),
        "Scatter": alone(_scatter_elements),
        "ScatterElements": alone(_scatter_elements),
        "ScatterND": alone(_scatter_nd),
        "Unique": _unique,
    }
)
