"""Tensors in the file: type and shape, and the few small values that shapes are made of.

Messages TensorProto and SparseTensorProto of onnx.proto
(https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are 8 · field + kind.
"""

from __future__ import annotations

import math
from typing import Any

from mansard.core.errors import ModelError
from mansard.estimator.element_types import BY_CODE, ElementType
from mansard.estimator.graph.limits import Budget
from mansard.estimator.graph.protobuf import fields, packed, signed, signed32
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import Numbers
from mansard.estimator.tensors import Shape, is_sane
from mansard.estimator.values import may_keep

_DIM, _DIMS, _DATA_TYPE, _NAME, _RAW, _LOCATION = 8, 10, 16, 66, 74, 112
_INT32, _INT32S, _INT64, _INT64S, _UINT64, _UINT64S = 40, 42, 56, 58, 88, 90
_FLOAT, _FLOATS, _DOUBLE, _DOUBLES = 37, 34, 81, 82
_VALUES, _SPARSE_DIM, _SPARSE_DIMS = 10, 24, 26
_EXTERNAL = 1  # enum DataLocation

# Which typed field holds which element type, by onnx.proto's comments: the key of one
# number, and that of a packed list.
_FIELDS = {
    "float32": (_FLOAT, _FLOATS),
    "float64": (_DOUBLE, _DOUBLES),
    "int64": (_INT64, _INT64S),
    "int32": (_INT32, _INT32S),
    "int16": (_INT32, _INT32S),
    "int8": (_INT32, _INT32S),
    "uint16": (_INT32, _INT32S),
    "uint8": (_INT32, _INT32S),
    "bool": (_INT32, _INT32S),
    "uint32": (_UINT64, _UINT64S),
    "uint64": (_UINT64, _UINT64S),
}

_Numbers = list[tuple[int, Any]]  # the fields with typed numbers, in the file's order


def read_stored(data: bytes, budget: Budget, label: str | None = None) -> StoredTensor:
    """The TensorProto in ``data``; errors call it ``label``, by default its own name."""
    code = location = 0
    name, raw = b"", None
    dims: list[int] = []
    numbers: _Numbers = []
    for key, content in fields(data):
        if key == _DIM:
            dims.append(signed(content))
        elif key == _DATA_TYPE:
            code = signed32(content)
        elif key == _NAME:
            name = content
        elif key == _RAW:
            raw = content
        elif key == _DIMS:
            dims.extend(map(signed, packed(content)))
        elif key == _LOCATION:
            location = content if content in (0, _EXTERNAL) else location  # a closed enum
        else:
            numbers.append((key, content))
    budget.read(
        len(data)
        - len(raw or b"")
        - sum(len(held) for _, held in numbers if held.__class__ is bytes)
    )
    text = name.decode()
    label = label or text
    dtype = BY_CODE.get(code)
    if dtype is None:
        raise ModelError(f"element type {code} does not exist", where=f"tensor {label!r}")
    shape = _checked(tuple(dims), label)
    if location == _EXTERNAL or dtype.name not in _FIELDS or not may_keep(dtype, math.prod(shape)):
        return StoredTensor(text, dtype, shape, None)
    return StoredTensor(text, dtype, shape, _value(raw, numbers, dtype, shape, label))


def read_stored_sparse(data: bytes, budget: Budget) -> StoredTensor:
    """The SparseTensorProto in ``data``, counted as the dense tensor it stands for."""
    held: list[bytes] = []
    dims: list[int] = []
    for key, content in fields(data):
        if key == _VALUES:
            held.append(content)
        elif key == _SPARSE_DIM:
            dims.append(signed(content))
        elif key == _SPARSE_DIMS:
            dims.extend(map(signed, packed(content)))
    values = read_stored(b"".join(held), budget)
    return StoredTensor(values.name, values.dtype, _checked(tuple(dims), values.name), None)


def _checked(shape: Shape, label: str) -> Shape:
    if not is_sane(shape):
        shown = f"{list(shape[:8])}{' and more' if len(shape) > 8 else ''}"
        raise ModelError(
            f"stored shape {shown} is absurd",
            where=f"tensor {label!r}",
            fix="the file is damaged; export it again",
        )
    return shape


def _value(
    raw: bytes | None, numbers: _Numbers, dtype: ElementType, shape: Shape, label: str
) -> Numbers | None:
    n_elements, width = math.prod(shape), dtype.n_bits // 8
    held = _raw(raw, dtype, label) if raw is not None else _typed(numbers, dtype)
    if not held and n_elements:
        return None  # a file whose weights were taken out
    if len(held) != n_elements * width:
        raise ModelError(
            f"{len(held) // width} values are stored for a shape of {list(shape)}",
            where=f"tensor {label!r}",
            fix="the file is damaged; export it again",
        )
    return Numbers(dtype, shape, held)


def _raw(raw: bytes, dtype: ElementType, label: str) -> bytes:
    if len(raw) % (dtype.n_bits // 8):
        raise ModelError(
            f"{len(raw)} bytes are stored, which is no whole number of {dtype.name}",
            where=f"tensor {label!r}",
            fix="the file is damaged; export it again",
        )
    return bytes(map(bool, raw)) if dtype.name == "bool" else raw


def _typed(numbers: _Numbers, dtype: ElementType) -> bytes:
    one, many = _FIELDS[dtype.name]
    width = dtype.n_bits // 8
    if dtype.is_float:
        held = b"".join(content for key, content in numbers if key in (one, many))
        return held[: len(held) // width * width]
    found: list[int] = []
    for key, content in numbers:
        if key == one:
            found.append(content)
        elif key == many:
            found.extend(packed(content))
    if dtype.name == "bool":
        return bytes(map(bool, found))
    # A stored number outside the type wraps instead of raising.
    kept = 2**dtype.n_bits - 1
    return b"".join([(number & kept).to_bytes(width, "little") for number in found])
