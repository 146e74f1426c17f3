"""Number formats: their width, and the names other tools give them."""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.core.errors import UsageError


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """One number format. ``n_bits`` is the stored width of an element."""

    name: str
    n_bits: int
    numpy_name: str | None  # None: NumPy has no such type


# Widths by definition of the formats: IEEE 754-2019 for fp64/fp32/fp16,
# bfloat16 is the upper half of fp32, tf32 is stored as fp32 (PTX: tensor cores read the
# upper 19 bits: 8 of exponent, 10 of mantissa), OCP OFP8 for fp8, OCP MX for fp4 (E2M1), two's
# complement integers.
PRECISIONS = MappingProxyType(
    {
        precision.name: precision
        for precision in (
            Precision(name="fp64", n_bits=64, numpy_name="float64"),
            Precision(name="fp32", n_bits=32, numpy_name="float32"),
            Precision(name="tf32", n_bits=32, numpy_name="float32"),
            Precision(name="fp16", n_bits=16, numpy_name="float16"),
            Precision(name="bf16", n_bits=16, numpy_name=None),
            Precision(name="fp8", n_bits=8, numpy_name=None),
            Precision(name="fp4", n_bits=4, numpy_name=None),
            Precision(name="int8", n_bits=8, numpy_name="int8"),
            Precision(name="int4", n_bits=4, numpy_name=None),
        )
    }
)


def parse_precision(name: str) -> Precision:
    """The precision called ``name``; raises UsageError with the known names."""
    try:
        return PRECISIONS[name]
    except KeyError:
        raise UsageError(
            f"unknown precision {name!r}", fix=f"use one of {', '.join(PRECISIONS)}"
        ) from None
