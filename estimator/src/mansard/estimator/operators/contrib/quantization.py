"""ONNX Runtime's quantised operators that are no products and no convolutions.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import ELEMENT_TYPES, FLOAT32, INT32, INT64, UINT8
from mansard.estimator.operators.contrib.parts import (
    as_standard,
    channels_first,
    channels_last,
    cost_of,
    microsoft,
    microsoft_shape,
    standard_cost,
    standard_specs,
)
from mansard.estimator.operators.costs import DEQUANTIZE, QUANTIZE, folds, per_element, reads_only
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import (
    as_large_as_first,
    check_rank,
    distinct_axes,
    element_type,
    known_ints,
)
from mansard.estimator.tensors import Node

_INT8 = ELEMENT_TYPES["int8"]

_UINT32 = ELEMENT_TYPES["uint32"]


@microsoft_shape("QuantizeLinear", cost=cost_of("QuantizeLinear"), not_weights=(1, 2))
def _quantize_shape(node: Node) -> Specs:
    node.input(1)
    zero = node.optional(2)
    return [(UINT8 if zero is None else zero.dtype, node.input(0).shape)]


@microsoft_shape("DequantizeLinear", cost=cost_of("DequantizeLinear"), not_weights=(1, 2))
def _dequantize_shape(node: Node) -> Specs:
    return [(node.input(1).dtype, node.input(0).shape)]


microsoft("QuantizeWithOrder", shape=as_large_as_first(_INT8), not_weights=(1,))(per_element(4))
_scale = per_element(1, text="A product for each element.")


@microsoft_shape("DequantizeWithOrder", cost=_scale, not_weights=(1,))
def _dequantize_ordered_shape(node: Node) -> Specs:
    return [(element_type(node, "to", FLOAT32), node.input(0).shape)]


def _quantize_blocks_shape(node: Node) -> Specs:
    """How long the packed result is depends on the type's layout, which is not public."""
    rank = node.input(0).rank
    return [(UINT8, (None,)), (INT64, (rank,)), (INT64, (rank,))]


@microsoft("QuantizeBFP", shape=_quantize_blocks_shape)
def quantize_blocks(node: Node) -> Cost:
    """6 operations for each element."""
    return Cost(simple=6 * node.input(0).n_elements)


@microsoft_shape("DequantizeBFP", cost=_scale, not_weights=(1, 2))
def _dequantize_blocks_shape(node: Node) -> Specs:
    dtype = element_type(node, "dtype", FLOAT32)
    shape = known_ints(node, 1)
    return [(dtype, (None,) * node.input(1).n_elements if shape is None else shape)]


@microsoft_shape(
    "QLinearConcat",
    cost=per_element(7, text="Each element is dequantised (2) and quantised (5)."),
    not_weights=range(1024),  # scales and zero points stand between the parts
)
def _concat_shape(node: Node) -> Specs:
    """Scale and zero point of the output, then tensor, scale and zero point of each part."""
    parts = node.inputs[2::3]
    (spec,) = standard_specs(as_standard(node, "Concat", *parts))
    return [(node.input(1).dtype, spec[1])]


def _reduce_shape(node: Node) -> Specs:
    data, axes = node.input(0), node.integers("axes")
    gone = set(distinct_axes(node, data, range(data.rank) if axes is None else axes))
    keeps = node.integer("keepdims", 1)
    shape = [
        1 if i in gone else size for i, size in enumerate(data.shape) if keeps or i not in gone
    ]
    unsigned = data.dtype.name.startswith("u")
    summed = (_UINT32 if unsigned else INT32) if node.op_type == "ReduceSumInteger" else data.dtype
    return [(summed, tuple(shape))]


_QUANTIZED = (1, 2, 3, 4)  # scale and zero point of the input and of the output


@microsoft("QLinearReduceMean", shape=_reduce_shape, not_weights=_QUANTIZED)
def reduce_mean(node: Node) -> Cost:
    """As ReduceMean; dequantise 2, quantise 5."""
    n, n_outputs = node.input(0).n_elements, node.output.n_elements
    return DEQUANTIZE * n + Cost(simple=n) + QUANTIZE * n_outputs


@microsoft("ReduceSumInteger", shape=_reduce_shape)
def reduce_sum(node: Node) -> Cost:
    """n elements become one by n - 1 additions."""
    return Cost(simple=folds(node))


def _pooled_shape(node: Node) -> Specs:
    """As the pool of ONNX, whichever way the channels stand."""
    data, op_type = node.input(0), node.op_type.removeprefix("QLinear")
    if not node.integer("channels_last", 0):
        return standard_specs(as_standard(node, op_type, data))
    ((dtype, shape),) = standard_specs(as_standard(node, op_type, channels_first(data)))
    return [(dtype, channels_last(shape))]


@microsoft("QLinearAveragePool", shape=_pooled_shape, not_weights=_QUANTIZED)
def average_pool(node: Node) -> Cost:
    """As AveragePool; dequantise 2, quantise 5."""
    n_outputs = node.output.n_elements
    ends = DEQUANTIZE * node.input(0).n_elements + QUANTIZE * n_outputs
    return standard_cost(node, "AveragePool") + ends


@microsoft("QLinearGlobalAveragePool", shape=_pooled_shape, not_weights=_QUANTIZED)
def global_average_pool(node: Node) -> Cost:
    """As GlobalAveragePool; quantise 5 for each channel."""
    return Cost(simple=node.input(0).n_elements) + QUANTIZE * node.output.n_elements


def _gather_blocks_shape(node: Node) -> Specs:
    """A Gather of a table that is stored in blocks; the result is dequantised.

    Several numbers may stand in one byte, along the last dimension.
    """
    data, indices, scales = node.input(0), node.input(1), node.input(2)
    each = _packed_numbers(node)
    shape = (*data.shape[:-1], data.shape[-1] * each)
    axis = data.axis(node.integer("gather_axis", 0))
    data.axis(node.integer("quantize_axis", 1))
    check_rank(node, 2, data.rank)
    return [(scales.dtype, shape[:axis] + indices.shape + shape[axis + 1 :])]


def _picked_bytes(node: Node, precision: Precision | None) -> int:
    """Of table, scales and zero points the picked rows."""
    data, n = node.input(0), node.output.n_elements
    total = data.n_elements * _packed_numbers(node)
    elements = {
        position: -(-node.input(position).n_elements * n // max(total, 1))
        for position in (0, 2, 3)
        if node.has(position)
    }
    return reads_only(node, precision, elements)


def _table_elements(node: Node) -> int:
    return node.input(0).n_elements * _packed_numbers(node)


microsoft(
    "GatherBlockQuantized",
    shape=_gather_blocks_shape,
    not_weights=(1,),
    statistics=(2, 3),
    packed={0: _table_elements},
    reads=_picked_bytes,
)(per_element(2))


def _packed_numbers(node: Node) -> int:
    """Numbers that stand in one element of the table of a GatherBlockQuantized."""
    bits = node.integer("bits", 4)
    if bits not in (2, 4, 8):
        raise node.error(f"attribute 'bits' = {bits} is not 2, 4 or 8")
    return 8 // bits if node.input(0).dtype.name == "uint8" else 1
