"""Converts a network of fp32 to fp16 or bf16.

Nothing is executed. The nodes keep their labels; inserted casts have none. ONNX Runtime's tool
converts to fp16 only. For bf16, everything that it made fp16 is changed to bf16: types of tensors,
targets of casts, and stored numbers, which are rounded from fp32, not from fp16.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from mansard.core.errors import ModelError, UsageError
from mansard.core.onnx_runtime import import_runtime
from mansard.inference.preparing.sources import all_tensors

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
    """The stored tensors of ``graph`` and its bodies, each with its place, by name."""
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
    """Turn a tensor of fp16 into bf16, from its ``numbers`` in fp32 where these are known."""
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
    """The bits of ``numbers`` in bf16: rounded to nearest, ties to even; NaN stays NaN."""
    wide = np.ascontiguousarray(numbers, np.float32)
    bits = wide.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(wide), 0x7FC0, rounded).astype(np.uint16)


CONVERTIBLE = ("fp16", "bf16", "int8")  # precisions that fp32 can be converted to


def check_convertible(precision: str, wanted: str) -> None:
    """Raise UsageError unless a network of ``precision`` can be converted to ``wanted``."""
    if precision != "fp32":
        raise UsageError(
            f"it is {precision}, and only networks of fp32 are converted",
            fix=f"leave --precision out, or give a file of {wanted}",
        )
    if wanted not in CONVERTIBLE:
        what = f"fp32 is converted to {', '.join(CONVERTIBLE)}, not to {wanted}"
        raise UsageError(what, fix="give such a file")


def check_weights(model: ModelProto, wanted: str) -> None:
    """Raise ModelError unless all weights of ``model`` are in it."""
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in all_tensors(model.graph)):
        raise ModelError(
            "its weights lie in another file: it is not converted", fix=f"give a file of {wanted}"
        )


def to_fp16(model: ModelProto) -> ModelProto:
    """``model``, whose weights are all in it, in fp16; inputs and outputs stay as they are.

    Operators that the converter leaves in fp32 get casts around them. Raises ModelError for what
    it cannot convert.
    """
    convert_float_to_float16 = import_runtime("transformers.float16").convert_float_to_float16
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each number that fp16 cannot hold
            converted: ModelProto = convert_float_to_float16(
                model, keep_io_types=True, disable_shape_infer=True
            )
    except Exception as error:  # its own have no base but this
        raise ModelError(f"ONNX Runtime's tool cannot convert it to fp16 ({error})") from error
    return converted
