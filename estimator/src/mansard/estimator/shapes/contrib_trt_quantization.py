"""The quantisation that NVIDIA's ModelOpt and Transformer Engine write, domain "trt".

https://github.com/NVIDIA/Model-Optimizer, modelopt/torch/quantization/export_onnx.py, and
https://github.com/NVIDIA/TransformerEngine, onnx_extensions: 8-bit floats stand in the
file as bytes, and are counted as what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import BY_CODE, ELEMENT_TYPES
from mansard.estimator.shapes.contrib_parts import as_standard, standard_specs
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

DOMAIN = "trt"
FLOAT8 = ELEMENT_TYPES["float8e4m3fn"]
_SCALES = ELEMENT_TYPES["float8e8m0"]
_FLOAT4 = ELEMENT_TYPES["float4e2m1"]


@rule("TRT_FP8QuantizeLinear", domain=DOMAIN)
def _quantize(node: Node) -> Sequence[Spec]:
    node.input(1)
    return [(FLOAT8, node.input(0).shape)]


@rule("TRT_FP8DequantizeLinear", domain=DOMAIN)
def _dequantize(node: Node) -> Sequence[Spec]:
    return [(node.input(1).dtype, node.input(0).shape)]


@rule("DequantizeLinear", "QuantizeLinear", domain=DOMAIN)
def _as_standard(node: Node) -> Sequence[Spec]:
    return standard_specs(as_standard(node, node.op_type))


@rule("TRT_FP4DynamicQuantize", "TRT_MXFP8DynamicQuantize", domain=DOMAIN)
def _quantize_blocks(node: Node) -> Sequence[Spec]:
    """The narrow numbers, and a scale for each block of them."""
    data, block = node.input(0), node.integer("block_size", 32 if "MX" in node.op_type else 16)
    axis = data.axis(node.integer("axis", -1))
    if block < 1 or data.shape[axis] % block:
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    scales = (*data.shape[:axis], data.shape[axis] // block, *data.shape[axis + 1 :])
    if "MX" in node.op_type:
        return [(FLOAT8, data.shape), (_SCALES, scales)]
    return [(_FLOAT4, data.shape), (FLOAT8, scales)]


@rule("TRT_MXFP8DequantizeLinear", domain=DOMAIN)
def _dequantize_blocks(node: Node) -> Sequence[Spec]:
    node.input(1)
    dtype = BY_CODE.get(node.integer("output_dtype", 1))
    if dtype is None:
        raise node.error("attribute 'output_dtype' is no element type")
    return [(dtype, node.input(0).shape)]
