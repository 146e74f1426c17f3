"""Number formats: their width, their names, and the unit in which work in them is counted."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Literal

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


# Prefixes of the formats whose operations are not floating-point. Layers of a network
# have ONNX's types as well: int64, uint16, bool.
_NOT_FLOATING = ("int", "uint", "bool")


def work_unit(*precisions: str) -> Literal["FLOP", "OP"]:
    """The unit of work in ``precisions``: OP, operations, where any of them is an integer.

    A sum over floats and integers is in operations: those of floats are operations too. The name
    of a peak, "int8 tensor", counts as its precision.
    """
    return "OP" if any(name.startswith(_NOT_FLOATING) for name in precisions) else "FLOP"


def rate_unit(precision: str) -> Literal["FLOP/s", "OP/s"]:
    """The unit of a rate of work in ``precision``."""
    return "OP/s" if work_unit(precision) == "OP" else "FLOP/s"


def unit_title(form: str, precisions: Iterable[str]) -> str:
    """A title over numbers in several ``precisions``, with their unit of work for "{}" in ``form``.

    "G{}/s" is GFLOP/s; of int8 alone GOP/s; of fp16 and int8 "GFLOP/s (int8: GOP/s)".
    """
    names = dict.fromkeys(precisions)
    integers = [name for name in names if work_unit(name) == "OP"]
    operations = form.format("OP")
    if not integers:
        return form.format("FLOP")
    if len(integers) == len(names):
        return operations
    return f"{form.format('FLOP')} ({', '.join(sorted(integers))}: {operations})"
