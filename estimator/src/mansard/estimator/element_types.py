"""The element types of ONNX tensors: their width and the precision they stand for."""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.core.precision import PRECISIONS, Precision


class ElementType(msgspec.Struct, frozen=True):
    """One value of ONNX's ``TensorProto.DataType``. ``n_bits`` is the stored width."""

    name: str
    code: int
    n_bits: int
    is_float: bool
    precision: str  # the name in mansard.core.precision where there is one, else ``name``

    def width_bits(self, precision: Precision | None) -> int:
        """Bits of an element; ``precision`` replaces floating formats only."""
        return precision.n_bits if precision is not None and self.is_float else self.n_bits

    def size_bytes(self, n_elements: int, precision: Precision | None) -> int:
        """Bytes of ``n_elements``, rounded up to a whole byte."""
        return (n_elements * self.width_bits(precision) + 7) // 8


# Codes and widths: onnx.proto, message TensorProto, enum DataType. Strings have no
# width of their own and count as 0 bytes; complex numbers count as two floats.
_TABLE = (
    ("float32", 1, 32, True, "fp32"),
    ("uint8", 2, 8, False, "int8"),
    ("int8", 3, 8, False, "int8"),
    ("uint16", 4, 16, False, "uint16"),
    ("int16", 5, 16, False, "int16"),
    ("int32", 6, 32, False, "int32"),
    ("int64", 7, 64, False, "int64"),
    ("string", 8, 0, False, "string"),
    ("bool", 9, 8, False, "bool"),
    ("float16", 10, 16, True, "fp16"),
    ("float64", 11, 64, True, "fp64"),
    ("uint32", 12, 32, False, "uint32"),
    ("uint64", 13, 64, False, "uint64"),
    ("complex64", 14, 64, False, "complex64"),
    ("complex128", 15, 128, False, "complex128"),
    ("bfloat16", 16, 16, True, "bf16"),
    ("float8e4m3fn", 17, 8, True, "fp8"),
    ("float8e4m3fnuz", 18, 8, True, "fp8"),
    ("float8e5m2", 19, 8, True, "fp8"),
    ("float8e5m2fnuz", 20, 8, True, "fp8"),
    ("uint4", 21, 4, False, "int4"),
    ("int4", 22, 4, False, "int4"),
    ("float4e2m1", 23, 4, True, "float4e2m1"),
    ("float8e8m0", 24, 8, True, "fp8"),
    ("uint2", 25, 2, False, "uint2"),
    ("int2", 26, 2, False, "int2"),
    ("float6e2m3", 27, 6, True, "float6e2m3"),
    ("float6e3m2", 28, 6, True, "float6e3m2"),
)

ELEMENT_TYPES = MappingProxyType({row[0]: ElementType(*row) for row in _TABLE})
BY_CODE = MappingProxyType({dtype.code: dtype for dtype in ELEMENT_TYPES.values()})
# The names of the enumeration, which the first versions of Cast use.
BY_PROTO_NAME = MappingProxyType(
    {
        {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper()): dtype
        for name, dtype in ELEMENT_TYPES.items()
    }
)

FLOAT32 = ELEMENT_TYPES["float32"]
FLOAT64 = ELEMENT_TYPES["float64"]
UINT8 = ELEMENT_TYPES["uint8"]
INT32 = ELEMENT_TYPES["int32"]
INT64 = ELEMENT_TYPES["int64"]
STRING = ELEMENT_TYPES["string"]
BOOL = ELEMENT_TYPES["bool"]

assert {row[4] for row in _TABLE if row[4].startswith(("fp", "bf"))} <= PRECISIONS.keys()  # noqa: S101
