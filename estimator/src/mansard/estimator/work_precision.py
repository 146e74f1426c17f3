"""The precision of each node's work, seen through quantisation, and the unit that could run it.

A product whose factors all come from DequantizeLinear runs on the integers behind
them: a file asks TensorRT and ONNX Runtime for int8 in this way. One quantised factor
alone (weight-only quantisation) leaves the work in the precision of the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import ElementType
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node

# Operators that only move a dequantised tensor's integers.
_PLAIN = frozenset({"fp16", "bf16", "fp32"})  # as the activations are
_TRANSPARENT = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split"}
    | {"Gather", "Expand", "MaxPool", "DepthToSpace", "SpaceToDepth"}
)


def quantized_tensors(nodes: Iterable[Node]) -> dict[str, ElementType]:
    """The element type that each dequantised tensor was quantised in, by its name."""
    quantized_types: dict[str, ElementType] = {}
    for node in nodes:
        if node.op_type.endswith("DequantizeLinear"):  # TensorRT has some of its own
            source = node.optional(0)
            if source is not None and node.outputs:
                quantized_types[node.outputs[0].name] = source.dtype
        elif quantized_types and node.op_type in _TRANSPARENT and not node.domain:
            source = node.optional(0)
            if source is not None and source.name in quantized_types:
                quantized_types.update(
                    (output.name, quantized_types[source.name]) for output in node.outputs
                )
    return quantized_types


def work_precision(
    node: Node,
    operator: Operator | None,
    macs: int,
    quantized_types: dict[str, ElementType],
    precision: Precision | None,
) -> str:
    """The precision of the multiply-adds; without any, of the node's floating tensors.

    ``precision`` replaces that of floating tensors. Without floats it is the element
    type of the first output.
    """
    if macs and operator is not None:
        compute = node.attributes.get("compute")
        if isinstance(compute, str) and compute not in _PLAIN:  # of stored weights
            return compute
        factors = _factors(node, operator, quantized_types)
        if factors:
            widest = max(factors, key=lambda dtype: dtype.n_bits)
            return _name(widest, precision)
    for tensor in node.outputs:
        if tensor.dtype.is_float:
            return _name(tensor.dtype, precision)
    for tensor in node.present:
        if tensor.dtype.is_float:
            return _name(tensor.dtype, precision)
    return node.outputs[0].dtype.precision if node.outputs else "none"


def _factors(
    node: Node, operator: Operator, quantized_types: dict[str, ElementType]
) -> list[ElementType]:
    tensors = [node.inputs[i] for i in operator.operands if node.has(i)]
    present = [tensor for tensor in tensors if tensor is not None]
    if quantized_types and present and all(tensor.name in quantized_types for tensor in present):
        return [quantized_types[tensor.name] for tensor in present]
    return [tensor.dtype for tensor in present]


def _name(dtype: ElementType, precision: Precision | None) -> str:
    return precision.name if precision is not None and dtype.is_float else dtype.precision


Unit = Literal["tensor core", "CUDA core", "none"]

# Tensor cores multiply these on every board from Xavier on (bf16 from Orin, fp8 from
# Thor). fp32 stays on CUDA cores: TF32 (from Orin) rounds it, and is an option.
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/ , "Warp Matrix Functions".
_TENSOR_CORE = frozenset({"tf32", "fp16", "bf16", "fp8", "int8", "int4"})

# Where each convolution has its weights.
_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3, "ConvTranspose": 1} | {
    "FusedConv": 1,
    "NhwcConv": 1,
    "NhwcFusedConv": 1,
}
_DEPTHWISE = frozenset({"CausalConvWithState"})  # one filter for each channel, always


def unit_of(node: Node, cost: Cost, precision: str) -> Unit:
    """The unit that could run the multiply-adds of ``node``, or its other work without any."""
    if not cost.work_flop:
        return "none"
    if cost.macs and precision in _TENSOR_CORE and not _is_depthwise(node):
        return "tensor core"
    return "CUDA core"


def _is_depthwise(node: Node) -> bool:
    """Whether each output channel reads one input channel, so that there is no matrix product."""
    if node.op_type in _DEPTHWISE:
        return True
    position = _CONVOLUTIONS.get(node.op_type)
    if position is None or not node.has(position):
        return False
    weights = node.input(position)
    if weights.rank < 2:
        return False
    groups = node.integer("group", 1)
    return groups > 1 and math.prod(weights.shape[1:2]) == 1
