"""Operators that ONNX once had as experiments, and copies between devices.

onnxruntime 1.31, core/graph/contrib_ops/onnx_deprecated_operators.cc
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import SIGMOID, reads_only
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("Affine", "ImageScaler")
def affine(node: Node) -> Cost:
    """A factor and a summand for each element."""
    return Cost(simple=2 * node.output.n_elements)


@register("Scale")
def scale(node: Node) -> Cost:
    """A factor for each element."""
    return Cost(simple=node.output.n_elements)


@register("ParametricSoftplus")
def parametric_softplus(node: Node) -> Cost:
    """a·log(exp(b·x) + 1): 3 operations and 2 functions for each element."""
    n = node.output.n_elements
    return Cost(simple=3 * n, functions=2 * n)


@register("ScaledTanh")
def scaled_tanh(node: Node) -> Cost:
    """a·tanh(b·x): 2 operations and a function for each element."""
    n = node.output.n_elements
    return Cost(simple=2 * n, functions=n)


def _picked(node: Node, precision: Precision | None) -> int:
    return reads_only(node, precision, {0: node.output.n_elements})


@register("Crop", "DynamicSlice", not_weights=(1, 2, 3), reads=_picked)
def cut(node: Node) -> Cost:  # noqa: ARG001
    """No work; of the first input it reads only what it picks."""
    return NOTHING


@register("GivenTensorFill", "MemcpyFromHost", "MemcpyToHost", not_weights=(0,))
def copy(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its input and writes its output."""
    return NOTHING


@register("GRUUnit", not_weights=(0, 2, 3))
def gru_unit(node: Node) -> Cost:
    """Two sigmoids and a tanh, then (1 - z)·h + z·H of 4 operations, for each element."""
    return (2 * SIGMOID + Cost(simple=4, functions=1)) * node.output.n_elements
