"""The quantisation that NVIDIA's ModelOpt and Transformer Engine write, domain "trt".

https://github.com/NVIDIA/Model-Optimizer, modelopt/torch/quantization/export_onnx.py, and
https://github.com/NVIDIA/TransformerEngine, onnx_extensions: 8-bit floats stand in the
file as bytes, and are counted as what they are.
"""

from __future__ import annotations

from functools import partial

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import ELEMENT_TYPES, FLOAT32
from mansard.estimator.operators.contrib.parts import as_standard, cost_of, standard_specs
from mansard.estimator.operators.costs import per_element
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import element_type
from mansard.estimator.tensors import Node

_DOMAIN = "trt"
trt = partial(operator, domain=_DOMAIN)
trt_shape = partial(shape_of, domain=_DOMAIN)
_FLOAT8 = ELEMENT_TYPES["float8e4m3fn"]
_SCALES = ELEMENT_TYPES["float8e8m0"]
_FLOAT4 = ELEMENT_TYPES["float4e2m1"]


@trt_shape(
    "TRT_FP8QuantizeLinear",
    cost=per_element(4),
    not_weights=(1,),
)
def _quantize_shape(node: Node) -> Specs:
    node.input(1)
    return [(_FLOAT8, node.input(0).shape)]


def _as_standard_shape(node: Node) -> Specs:
    return standard_specs(as_standard(node, node.op_type))


trt("QuantizeLinear", shape=_as_standard_shape, not_weights=(1, 2))(cost_of("QuantizeLinear"))


@trt("DequantizeLinear", shape=_as_standard_shape, not_weights=(1, 2))
def dequantize(node: Node) -> Cost:
    """Subtract the zero point where one is given, multiply."""
    return Cost(simple=(1 + node.has(2)) * node.output.n_elements)


@trt_shape("TRT_FP8DequantizeLinear", cost=dequantize, not_weights=(1, 2))
def _dequantize_shape(node: Node) -> Specs:
    return [(node.input(1).dtype, node.input(0).shape)]


@trt_shape("TRT_MXFP8DequantizeLinear", cost=dequantize, not_weights=(1, 2))
def _dequantize_blocks_shape(node: Node) -> Specs:
    node.input(1)
    return [(element_type(node, "output_dtype", FLOAT32), node.input(0).shape)]


def _quantize_blocks_shape(node: Node) -> Specs:
    """The narrow numbers, and a scale for each block of them."""
    data, block = node.input(0), node.integer("block_size", 32 if "MX" in node.op_type else 16)
    axis = data.axis(node.integer("axis", -1))
    if block < 1 or data.shape[axis] % block:
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    scales = (*data.shape[:axis], data.shape[axis] // block, *data.shape[axis + 1 :])
    if "MX" in node.op_type:
        return [(_FLOAT8, data.shape), (_SCALES, scales)]
    return [(_FLOAT4, data.shape), (_FLOAT8, scales)]


@trt(
    *("TRT_FP4DynamicQuantize", "TRT_MXFP8DynamicQuantize"),
    shape=_quantize_blocks_shape,
    not_weights=(1,),
)
def quantize_blocks(node: Node) -> Cost:
    """6 operations for each element, 2 for each block."""
    return Cost(simple=6 * node.output.n_elements + 2 * node.outputs[1].n_elements)
