"""Operators that put elements into a tensor by index: the result is of its shape.

https://onnx.ai/onnx/operators/onnx__ScatterElements.html, …__ScatterND, …__TensorScatter
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.shapes.checks import check_length, check_types
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.indexing import check_indices
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

_REDUCTIONS = ("none", "add", "mul", "min", "max")


@rule("Scatter", "ScatterElements")
def _scatter_elements(node: Node) -> Sequence[Spec]:
    data, indices, updates = node.input(0), node.input(1), node.input(2)
    check_types(node, data, (updates,))
    _check_reduction(node)
    if indices.rank != data.rank or updates.shape != indices.shape:
        raise node.error(
            f"indices {list(indices.shape)} and updates {list(updates.shape)} do not fit "
            f"{list(data.shape)}"
        )
    check_indices(node, indices, data.shape[data.axis(node.integer("axis", 0))])
    return [same(data)]


@rule("ScatterND")
def _scatter_nd(node: Node) -> Sequence[Spec]:
    data, indices, updates = node.input(0), node.input(1), node.input(2)
    check_types(node, data, (updates,))
    _check_reduction(node)
    depth = indices.shape[-1]
    if depth > data.rank or updates.shape != indices.shape[:-1] + data.shape[depth:]:
        raise node.error(
            f"indices {list(indices.shape)} and updates {list(updates.shape)} do not fit "
            f"{list(data.shape)}"
        )
    return [same(data)]


def _check_reduction(node: Node) -> None:
    reduction = node.text("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise node.error(f"attribute 'reduction' = {reduction!r} does not exist")


@rule("TensorScatter")
def _tensor_scatter(node: Node) -> Sequence[Spec]:
    cache, update = node.input(0), node.input(1)
    check_types(node, cache, (update,))
    axis = cache.axis(node.integer("axis", -2))
    rest = cache.shape[:axis] + cache.shape[axis + 1 :]
    fits = update.rank == cache.rank and update.shape[axis] <= cache.shape[axis]
    if not axis or not fits or update.shape[:axis] + update.shape[axis + 1 :] != rest:
        raise node.error(
            f"update {list(update.shape)} does not fit into {list(cache.shape)} at axis {axis}"
        )
    check_length(node, 2, cache.shape[0], "samples")
    return [same(cache)]
