"""Operators that ONNX once had as experiments, and ONNX Runtime still runs; its copies.

onnxruntime 1.31, core/graph/contrib_ops/onnx_deprecated_operators.cc, and what it answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import FLOAT32
from mansard.estimator.shapes.checks import check_length, check_rank, known_ints
from mansard.estimator.shapes.contrib_parts import same_as_first
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

rule("Affine", "MemcpyFromHost", "MemcpyToHost", "ParametricSoftplus", "Scale", "ScaledTanh")(
    same_as_first
)


@rule("ImageScaler")
def _image_scaler(node: Node) -> Sequence[Spec]:
    check_rank(node, 0, 4)
    return same_as_first(node)


@rule("Crop")
def _crop(node: Node) -> Sequence[Spec]:
    """Borders (left, top, right, bottom) go, or a size (height, width) stays."""
    data, border = node.input(0), node.integers("border") or (0, 0, 0, 0)
    check_rank(node, 0, 4)
    batch, channels, height, width = data.shape
    left, top, right, bottom = border
    size = node.integers("scale")
    height, width = size or (height - top - bottom, width - left - right)
    if min(height, width) < 0:
        raise node.error(f"borders {list(border)} leave less than nothing of {list(data.shape)}")
    return [(data.dtype, (batch, channels, height, width))]


@rule("DynamicSlice")
def _dynamic_slice(node: Node) -> Sequence[Spec]:
    """As ONNX's Slice without steps."""
    data, starts, ends = node.input(0), known_ints(node, 1), known_ints(node, 2)
    axes = known_ints(node, 3) if node.has(3) else tuple(range(len(starts or ())))
    if starts is None or ends is None or axes is None:
        return [(data.dtype, (None,) * data.rank)]
    shape = list(data.shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        place = data.axis(axis)
        shape[place] = len(range(*slice(start, end).indices(shape[place])))
    return [(data.dtype, tuple(shape))]


@rule("GivenTensorFill")
def _filled(node: Node) -> Sequence[Spec]:
    extra = node.integers("extra_shape") or ()
    if not node.has(0):
        return [(FLOAT32, node.integers("shape") or ())]
    if not node.integer("input_as_shape", 0):
        return [(FLOAT32, (*node.input(0).shape, *extra))]
    shape = known_ints(node, 0)
    if shape is None:
        return [(FLOAT32, ((None,) * node.input(0).n_elements + extra))]
    return [(FLOAT32, (*shape, *extra))]


@rule("GRUUnit")
def _gru_unit(node: Node) -> Sequence[Spec]:
    """One step from gates [1, batch, 3 · hidden] that were computed before."""
    hidden, gates = node.input(0), node.input(1)
    check_length(node, 1, 3 * math.prod(hidden.shape), "values of three gates")
    if gates.shape[-1] != 3 * hidden.shape[-1]:
        raise node.error(f"gates {list(gates.shape)} do not fit a state {list(hidden.shape)}")
    return [same(hidden)]
