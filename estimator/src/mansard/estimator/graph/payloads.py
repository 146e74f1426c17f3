"""The few stored values that shapes are computed from; all other payloads stay unread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mansard.core.errors import ModelError
from mansard.estimator.element_types import BY_CODE, ElementType
from mansard.estimator.model import StoredTensor
from mansard.estimator.tensors import Array, Shape, is_sane
from mansard.estimator.values import may_keep

if TYPE_CHECKING:
    import onnx

_EXTERNAL = 1  # onnx.proto, enum TensorProto.DataLocation

# Which typed field of a TensorProto holds which element type, by onnx.proto's comments.
_FIELDS = {
    "float32": "float_data",
    "float64": "double_data",
    "int64": "int64_data",
    "int32": "int32_data",
    "int16": "int32_data",
    "int8": "int32_data",
    "uint16": "int32_data",
    "uint8": "int32_data",
    "bool": "int32_data",
}


def stored_tensor(tensor: onnx.TensorProto, name: str | None = None) -> StoredTensor:
    """Name, type and shape of ``tensor``, and its value where it is small."""
    label = name or tensor.name
    dtype = BY_CODE.get(tensor.data_type)
    if dtype is None:
        raise ModelError(
            f"element type {tensor.data_type} does not exist", where=f"tensor {label!r}"
        )
    shape = _checked(tuple(tensor.dims), label)
    return StoredTensor(label, dtype, shape, _small_value(tensor, dtype, shape, label))


def stored_sparse_tensor(sparse: onnx.SparseTensorProto) -> StoredTensor:
    """A sparse tensor, counted as the dense one it stands for."""
    values = stored_tensor(sparse.values)
    return StoredTensor(values.name, values.dtype, _checked(tuple(sparse.dims), values.name), None)


def _checked(shape: Shape, label: str) -> Shape:
    if not is_sane(shape):
        shown = f"{list(shape[:8])}{' and more' if len(shape) > 8 else ''}"
        raise ModelError(
            f"stored shape {shown} is absurd",
            where=f"tensor {label!r}",
            fix="the file is damaged; export it again",
        )
    return shape


def _small_value(
    tensor: onnx.TensorProto, dtype: ElementType, shape: Shape, label: str
) -> Array | None:
    n_elements = math.prod(shape)
    if not may_keep(dtype, n_elements) or dtype.name not in _FIELDS:
        return None
    if tensor.data_location == _EXTERNAL:
        return None
    is_raw = tensor.HasField("raw_data")
    flat = _raw_values(tensor, dtype, label) if is_raw else _values(tensor, dtype)
    if flat.size == 0 and n_elements:
        return None  # a file whose weights were taken out
    if flat.size != n_elements:
        raise ModelError(
            f"{flat.size} values are stored for a shape of {list(shape)}",
            where=f"tensor {label!r}",
            fix="the file is damaged; export it again",
        )
    return flat.reshape(shape)


def _raw_values(tensor: onnx.TensorProto, dtype: ElementType, label: str) -> Array:
    # The file format is little-endian on every machine.
    kind = np.dtype(dtype.name).newbyteorder("<")
    n_bytes = len(tensor.raw_data)
    if n_bytes % kind.itemsize:
        raise ModelError(
            f"{n_bytes} bytes are stored, which is no whole number of {dtype.name}",
            where=f"tensor {label!r}",
            fix="the file is damaged; export it again",
        )
    return np.frombuffer(tensor.raw_data, kind).astype(dtype.name)


def _values(tensor: onnx.TensorProto, dtype: ElementType) -> Array:
    values = list(getattr(tensor, _FIELDS[dtype.name]))
    # Through int64, so that a stored number outside the type wraps instead of raising.
    wide = np.float64 if dtype.is_float else np.int64
    return np.asarray(values, wide).astype(dtype.name)
