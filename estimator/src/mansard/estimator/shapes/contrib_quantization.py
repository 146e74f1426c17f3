"""ONNX Runtime's quantised operators that are no products and no convolutions.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import (
    BY_CODE,
    ELEMENT_TYPES,
    FLOAT32,
    INT32,
    INT64,
    UINT8,
    ElementType,
)
from mansard.estimator.shapes.checks import check_rank, distinct_axes, known_ints
from mansard.estimator.shapes.contrib_parts import (
    MICROSOFT,
    as_standard,
    channels_first,
    channels_last,
    standard_specs,
)
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

INT8 = ELEMENT_TYPES["int8"]
UINT32 = ELEMENT_TYPES["uint32"]


@rule("QuantizeLinear", domain=MICROSOFT)
def _quantize(node: Node) -> Sequence[Spec]:
    node.input(1)
    zero = node.optional(2)
    return [(UINT8 if zero is None else zero.dtype, node.input(0).shape)]


@rule("DequantizeLinear", domain=MICROSOFT)
def _dequantize(node: Node) -> Sequence[Spec]:
    return [(node.input(1).dtype, node.input(0).shape)]


@rule("QuantizeWithOrder", domain=MICROSOFT)
def _quantize_ordered(node: Node) -> Sequence[Spec]:
    return [(INT8, node.input(0).shape)]


@rule("DequantizeWithOrder", domain=MICROSOFT)
def _dequantize_ordered(node: Node) -> Sequence[Spec]:
    return [(_named(node, "to", FLOAT32), node.input(0).shape)]


def _named(node: Node, name: str, default: ElementType) -> ElementType:
    dtype = BY_CODE.get(node.integer(name, default.code))
    if dtype is None:
        raise node.error(f"attribute {name!r} is no element type")
    return dtype


@rule("QuantizeBFP", domain=MICROSOFT)
def _quantize_blocks(node: Node) -> Sequence[Spec]:
    """How long the packed result is depends on the type's layout, which is not public."""
    rank = node.input(0).rank
    return [(UINT8, (None,)), (INT64, (rank,)), (INT64, (rank,))]


@rule("DequantizeBFP", domain=MICROSOFT)
def _dequantize_blocks(node: Node) -> Sequence[Spec]:
    dtype = _named(node, "dtype", FLOAT32)
    shape = known_ints(node, 1)
    return [(dtype, (None,) * node.input(1).n_elements if shape is None else shape)]


@rule("QLinearConcat", domain=MICROSOFT)
def _concat(node: Node) -> Sequence[Spec]:
    """Scale and zero point of the output, then tensor, scale and zero point of each part."""
    parts = node.inputs[2::3]
    (spec,) = standard_specs(as_standard(node, "Concat", *parts))
    return [(node.input(1).dtype, spec[1])]


@rule("QLinearReduceMean", domain=MICROSOFT)
@rule("ReduceSumInteger", domain=MICROSOFT)
def _reduce(node: Node) -> Sequence[Spec]:
    data, axes = node.input(0), node.integers("axes")
    gone = set(distinct_axes(node, data, range(data.rank) if axes is None else axes))
    keeps = node.integer("keepdims", 1)
    shape = [
        1 if i in gone else size for i, size in enumerate(data.shape) if keeps or i not in gone
    ]
    unsigned = data.dtype.name.startswith("u")
    summed = (UINT32 if unsigned else INT32) if node.op_type == "ReduceSumInteger" else data.dtype
    return [(summed, tuple(shape))]


@rule("QLinearAveragePool", domain=MICROSOFT)
def _average_pool(node: Node) -> Sequence[Spec]:
    return _pooled(node, "AveragePool")


@rule("QLinearGlobalAveragePool", domain=MICROSOFT)
def _global_average_pool(node: Node) -> Sequence[Spec]:
    return _pooled(node, "GlobalAveragePool")


def _pooled(node: Node, op_type: str) -> Sequence[Spec]:
    data = node.input(0)
    if not node.integer("channels_last", 0):
        return standard_specs(as_standard(node, op_type, data))
    ((dtype, shape),) = standard_specs(as_standard(node, op_type, channels_first(data)))
    return [(dtype, channels_last(shape))]


@rule("GatherBlockQuantized", domain=MICROSOFT)
def _gather_blocks(node: Node) -> Sequence[Spec]:
    """A Gather of a table that is stored in blocks; the result is dequantised.

    Several numbers may stand in one byte, along the last dimension.
    """
    data, indices, scales = node.input(0), node.input(1), node.input(2)
    each = packed_numbers(node)
    shape = (*data.shape[:-1], data.shape[-1] * each)
    axis = data.axis(node.integer("gather_axis", 0))
    data.axis(node.integer("quantize_axis", 1))
    check_rank(node, 2, data.rank)
    return [(scales.dtype, shape[:axis] + indices.shape + shape[axis + 1 :])]


def packed_numbers(node: Node) -> int:
    """Numbers that stand in one element of the table of a GatherBlockQuantized."""
    bits = node.integer("bits", 4)
    if bits not in (2, 4, 8):
        raise node.error(f"attribute 'bits' = {bits} is not 2, 4 or 8")
    return 8 // bits if node.input(0).dtype.name == "uint8" else 1
