"""Operators that put elements into a tensor by index.

https://onnx.ai/onnx/operators/onnx__ScatterElements.html, …__ScatterND, …__TensorScatter,
…__Col2Im, …__MaxUnpool
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("Col2Im", not_weights=(1, 2))
def col2im(node: Node) -> Cost:
    """Each element of the columns is added into the image."""
    return Cost(simple=node.input(0).n_elements)


@register("Scatter", "ScatterElements", "ScatterND", not_weights=(1,))
def scatter(node: Node) -> Cost:
    """An operation for each update where one is asked for, else none."""
    is_plain = node.text("reduction", "none") == "none"
    return NOTHING if is_plain else Cost(simple=node.input(2).n_elements)


def _update_reads(node: Node, precision: Precision | None) -> int:
    """All inputs but the cache."""
    return sum(tensor.n_bytes(precision) for tensor in node.present[1:])


def _update_writes(node: Node, precision: Precision | None) -> int:
    """As many bytes as the update has."""
    return node.input(1).n_bytes(precision)


@register("TensorScatter", not_weights=(2,), reads=_update_reads, writes=_update_writes)
def tensor_scatter(node: Node) -> Cost:  # noqa: ARG001
    """No work. The cache is updated in place: what stays in it is neither read nor written."""
    return NOTHING


@register("MaxUnpool", not_weights=(1, 2))
def max_unpool(node: Node) -> Cost:  # noqa: ARG001
    """No work; writes the whole output, zeros among it."""
    return NOTHING
