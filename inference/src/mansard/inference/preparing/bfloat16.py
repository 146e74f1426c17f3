"""A network of fp32 in bf16: cast where the tool for fp16 casts, with the numbers of fp32 rounded.

The tool that comes with ONNX Runtime converts to fp16 alone. What it makes fp16 becomes bf16 here:
types of tensors, targets of casts, and stored numbers, which are rounded from fp32, not from fp16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from mansard.inference.preparing.conversion import to_fp16

_FP16, _BF16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
_TYPES = ("to", "dtype")  # attributes that name a type
_Numbers = npt.NDArray[Any]


def to_bf16(model: ModelProto) -> ModelProto:
    """``model``, whose weights are all in it, in bf16; inputs and outputs stay as they are.

    Raises ModelError for what the tool cannot convert.
    """
    numbers = {
        place: numpy_helper.to_array(tensor)
        for place, tensor in _stored(model.graph)
        if tensor.data_type == TensorProto.FLOAT
    }
    converted = to_fp16(model)
    for place, tensor in _stored(converted.graph):
        _round(tensor, numbers.get(place))
    _retype(converted.graph)
    return converted


def _stored(graph: GraphProto, *outer: str) -> Iterator[tuple[tuple[str, ...], TensorProto]]:
    """The stored tensors of ``graph`` and of its bodies, each with where it is, by names."""
    for tensor in graph.initializer:
        yield (*outer, tensor.name), tensor
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield (*outer, *node.output, attribute.name), attribute.t
            for number, body in enumerate(_bodies(attribute)):
                yield from _stored(body, *outer, node.name, attribute.name, str(number))


def _bodies(attribute: AttributeProto) -> list[GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _retype(graph: GraphProto) -> None:
    for value in (*graph.value_info, *graph.input, *graph.output):
        if value.type.tensor_type.elem_type == _FP16:
            value.type.tensor_type.elem_type = _BF16
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _TYPES and attribute.i == _FP16:
                attribute.i = _BF16
            for body in _bodies(attribute):
                _retype(body)


def _round(tensor: TensorProto, numbers: _Numbers | None) -> None:
    """Make a tensor of fp16 one of bf16, of ``numbers`` where they are known in fp32."""
    if tensor.data_type != _FP16:
        return
    if numbers is None:
        numbers = numpy_helper.to_array(tensor)
    name, dims = tensor.name, list(tensor.dims)
    tensor.Clear()
    tensor.name, tensor.data_type = name, _BF16
    tensor.dims.extend(dims)
    tensor.raw_data = bf16_bits(numbers).tobytes()


def bf16_bits(numbers: _Numbers) -> npt.NDArray[np.uint16]:
    """The upper halves of fp32, rounded to the nearest, ties to even; NaN stays NaN."""
    wide = np.ascontiguousarray(numbers, np.float32)
    bits = wide.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(wide), 0x7FC0, rounded).astype(np.uint16)
