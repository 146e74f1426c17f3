"""Operators that ONNX once had as experiments, copies, and operators that are refused.

onnxruntime 1.31, core/graph/contrib_ops/onnx_deprecated_operators.cc, and what it answers.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from mansard.estimator.numbers import FLOAT32
from mansard.estimator.operators.contrib.parts import MICROSOFT
from mansard.estimator.operators.costs import (
    copy,
    per_element,
    pick,
    picked_bytes,
    refused,
    refused_shape,
)
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import (
    check_length,
    check_rank,
    known_ints,
    same,
    same_as_first,
)
from mansard.estimator.tensors import Node

_affine = per_element(2)
operator("Affine", shape=same_as_first)(_affine)
operator("Scale", shape=same_as_first)(per_element(1, text="A factor for each element."))
operator("ParametricSoftplus", shape=same_as_first)(
    per_element(3, 2, "a·log(exp(b·x) + 1): 3 operations and 2 functions for each element.")
)
operator("ScaledTanh", shape=same_as_first)(
    per_element(2, 1, "a·tanh(b·x): 2 operations and a function for each element.")
)
operator("MemcpyFromHost", "MemcpyToHost", shape=same_as_first, not_weights=(0,))(copy)


@shape_of("ImageScaler", cost=_affine)
def _image_scaler_shape(node: Node) -> Specs:
    check_rank(node, 0, 4)
    return same_as_first(node)


@shape_of("Crop", cost=pick, not_weights=(1, 2, 3), reads=picked_bytes)
def _crop_shape(node: Node) -> Specs:
    """Borders (left, top, right, bottom) go, or a size (height, width) stays."""
    data, border = check_rank(node, 0, 4), node.integers("border") or (0, 0, 0, 0)
    batch, channels, height, width = data.shape
    left, top, right, bottom = border
    size = node.integers("scale")
    height, width = size or (height - top - bottom, width - left - right)
    if min(height, width) < 0:
        raise node.error(f"borders {list(border)} leave less than nothing of {list(data.shape)}")
    return [(data.dtype, (batch, channels, height, width))]


@shape_of("DynamicSlice", cost=pick, not_weights=(1, 2, 3), reads=picked_bytes)
def _dynamic_slice_shape(node: Node) -> Specs:
    """As ONNX's Slice without steps."""
    data, starts, ends = node.input(0), known_ints(node, 1), known_ints(node, 2)
    axes = known_ints(node, 3) if node.has(3) else tuple(range(len(starts or ())))
    if starts is None or ends is None or axes is None:
        return [(data.dtype, (None,) * data.rank)]
    shape = list(data.shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        position = data.axis(axis)
        shape[position] = len(range(*slice(start, end).indices(shape[position])))
    return [(data.dtype, tuple(shape))]


@shape_of("GivenTensorFill", cost=copy, not_weights=(0,))
def _filled_shape(node: Node) -> Specs:
    extra = node.integers("extra_shape") or ()
    if not node.has(0):
        return [(FLOAT32, node.integers("shape") or ())]
    if not node.integer("input_as_shape", 0):
        return [(FLOAT32, (*node.input(0).shape, *extra))]
    shape = known_ints(node, 0)
    if shape is None:
        return [(FLOAT32, ((None,) * node.input(0).n_elements + extra))]
    return [(FLOAT32, (*shape, *extra))]


@shape_of(
    "GRUUnit",
    cost=per_element(10, 3, "2 sigmoids, a tanh and 4 operations for each element."),
    not_weights=(0, 2, 3),
)
def _gru_unit_shape(node: Node) -> Specs:
    """One step from gates [1, batch, 3 · hidden] that were computed before."""
    hidden, gates = node.input(0), node.input(1)
    check_length(node, 1, 3 * math.prod(hidden.shape), "values of three gates")
    if gates.shape[-1] != 3 * hidden.shape[-1]:
        raise node.error(f"gates {list(gates.shape)} do not fit a state {list(hidden.shape)}")
    return [same(hidden)]


_GENERATES = (
    "it generates until the data ends it, and runs graphs of its own meanwhile: score the "
    "decoder graph inside it as a file of its own, for prefill and for one step"
)
_COMPILED = "it holds a program that was compiled for one device: score the model it was made from"

# (domain, operator) -> why its work and shapes cannot be told from the file
REFUSED = MappingProxyType(
    {
        (MICROSOFT, "BeamSearch"): _GENERATES,
        (MICROSOFT, "GreedySearch"): _GENERATES,
        (MICROSOFT, "Sampling"): _GENERATES,
        (MICROSOFT, "WhisperBeamSearch"): _GENERATES,
        (MICROSOFT, "EPContext"): _COMPILED,
        (MICROSOFT, "Snpe"): _COMPILED,
        ("org.pytorch.aten", "ATen"): (
            "it stands for a call of PyTorch that the exporter could not translate: export again "
            "with operators of ONNX"
        ),
    }
)

for (_domain, _op_type), _reason in REFUSED.items():
    operator(_op_type, shape=refused_shape(_reason), domain=_domain)(refused(_reason))
