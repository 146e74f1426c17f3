"""Operators that move elements or see them otherwise: no arithmetic, but traffic.

Views (is_view) do not even move: the output is the input's memory.
"""

from __future__ import annotations

import math

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.picking import PICKING
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node

VIEWS = ("BitCast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")

_COPYING = (
    *("Cast", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Expand", "Pad"),
    *("ReverseSequence", "Shape", "Size", "SpaceToDepth", "Split", "Tile", "Transpose", "Trilu"),
)

# Whatever moves elements without arithmetic and is neither a view nor picks.
MOVING = (*_COPYING, "CastLike", "CenterCropPad", "EyeLike", "MaxUnpool", "TensorScatter")

__all__ = ["MOVING", "PICKING", "VIEWS"]


@register(*VIEWS, is_view=True, not_weights=(1, 2))
def view(node: Node) -> Cost:  # noqa: ARG001
    """No work and no traffic."""
    return NOTHING


@register(*_COPYING)
def move(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its inputs and writes its outputs."""
    return NOTHING


def first_bytes(node: Node, precision: Precision | None) -> int:
    """The first input alone: of the second only the type is of interest."""
    return node.input(0).n_bytes(precision)


def no_bytes(node: Node, precision: Precision | None) -> int:  # noqa: ARG001
    """Nothing: only the shape of the input is of interest."""
    return 0


def _overlap_bytes(node: Node, precision: Precision | None) -> int:
    """What is in both the input and the output."""
    data, result = node.input(0), node.output
    kept = math.prod(map(min, data.shape, result.shape))
    return data.dtype.size_bytes(kept, precision) + node.input(1).n_bytes(precision)


@register("CastLike", not_weights=(1,), reads=first_bytes)
def cast_like(node: Node) -> Cost:  # noqa: ARG001
    """No work; of the second input only the type is used."""
    return NOTHING


@register("EyeLike", not_weights=(0,), reads=no_bytes)
def fill_like(node: Node) -> Cost:  # noqa: ARG001
    """No work; of the input only the shape is used."""
    return NOTHING


@register("CenterCropPad", not_weights=(1,), reads=_overlap_bytes)
def center_crop_pad(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads only what stays."""
    return NOTHING
