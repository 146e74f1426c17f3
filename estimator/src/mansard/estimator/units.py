"""The execution unit of a GPU that could run an operator's work."""

from __future__ import annotations

import math
from typing import Literal

from mansard.estimator.cost import Cost
from mansard.estimator.tensors import Node

Unit = Literal["tensor core", "CUDA core", "none"]

# Tensor cores multiply these on every board from Xavier on (bf16 from Orin, fp8 from
# Thor). fp32 stays on CUDA cores: TF32 (from Orin) rounds it, which must be asked for.
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
    """Where the multiply-adds of ``node`` could run, else where its work does."""
    if not cost.work_flop:
        return "none"
    if cost.macs and precision in _TENSOR_CORE and not _is_depthwise(node):
        return "tensor core"
    return "CUDA core"


def _is_depthwise(node: Node) -> bool:
    """Whether each output channel sees one input channel: no matrix product to be made."""
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
