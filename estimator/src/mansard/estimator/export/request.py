"""The request of an export, and how its options are parsed; torch is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from mansard.core.errors import UsageError

Exporter = Literal["auto", "dynamo", "torchscript"]

DTYPES = {
    **{name: name for name in ("float16", "bfloat16", "float32", "float64")},
    **{name: name for name in ("uint8", "int8", "int16", "int32", "int64", "bool")},
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
}
"""Element types by the names that ``--input`` takes; the values are torch's own names."""

BATCH = "batch"
_LARGEST = 2**31 - 1  # a longer axis cannot be indexed by every runtime


class ExportInput(msgspec.Struct, frozen=True):
    """One ``--input``: the shape of an argument of ``forward``; the type may be left open."""

    name: str
    shape: tuple[int, ...]
    dtype: str | None = None


class DynamicAxis(msgspec.Struct, frozen=True):
    """An axis whose size stays a symbol in the file."""

    name: str
    axis: int
    symbol: str


class ExportRequest(msgspec.Struct, frozen=True):
    """One export. ``tolerance``: relative, None for the one that fits the precision."""

    source: str
    output: Path
    inputs: tuple[ExportInput, ...] = ()
    dynamic: tuple[DynamicAxis, ...] = ()
    is_static: bool = False  # no axis but those of ``dynamic`` is a symbol
    settings: Mapping[str, object] = msgspec.field(default_factory=dict)
    exporter: Exporter = "auto"
    opset: int | None = None
    with_weights: bool = True
    check: bool = True
    tolerance: float | None = None


def parse_input(text: str) -> ExportInput:
    """``name=1x3x224x224``, ``name=1x16:int64`` or ``name=scalar``; raises UsageError."""
    name, equals, rest = text.partition("=")
    shape_text, colon, dtype = rest.partition(":")
    fix = "write name=1x3x224x224, and a type where it is not float32: name=1x16:int64"
    if not (name.isidentifier() and equals and shape_text) or (colon and dtype not in DTYPES):
        raise UsageError(f"--input {text!r} is not an input", fix=fix)
    shape = () if shape_text == "scalar" else tuple(map(_length, shape_text.split("x")))
    if 0 in shape:
        raise UsageError(f"--input {text!r} is not a shape", fix=fix)
    return ExportInput(name, shape, DTYPES[dtype] if colon else None)


def _length(text: str) -> int:
    """A positive size, or 0 for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return 0
    return int(text) if int(text) <= _LARGEST else 0


def parse_dynamic(texts: Iterable[str]) -> tuple[tuple[DynamicAxis, ...], bool]:
    """The axes of ``--dynamic``, and whether ``none`` is among them; raises UsageError."""
    axes: list[DynamicAxis] = []
    is_static = False
    for text in texts:
        if text == "none":
            is_static = True
        else:
            axes.append(_parse_axis(text))
    places = [(axis.name, axis.axis) for axis in axes]
    for place in places:
        if places.count(place) > 1:
            raise UsageError(f"--dynamic gives {place[0]}:{place[1]} twice", fix="give it once")
    return tuple(axes), is_static


def _parse_axis(text: str) -> DynamicAxis:
    place, _, symbol = text.partition("=")
    name, _, axis = place.partition(":")
    is_axis = axis.isascii() and axis.isdigit() and len(axis) <= 2
    if not (name.isidentifier() and is_axis and symbol.isidentifier()):
        raise UsageError(
            f"--dynamic {text!r} is not an axis",
            fix="write input:axis=symbol, such as ids:1=sequence",
        )
    return DynamicAxis(name, int(axis), symbol)


def parse_settings(texts: Iterable[str]) -> dict[str, object]:
    """``--set key=value``: JSON if it parses, else text; ``a.b=1`` sets ``b`` of ``a``."""
    settings: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        parts = key.split(".")
        if not equals or not all(part.isidentifier() for part in parts):
            raise UsageError(f"--set {text!r} sets nothing", fix="write key=value")
        place = settings
        for part in parts[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set {text!r}: {part!r} is a value already", fix="set it once")
            place = inner
        place[parts[-1]] = _value(value)
    return settings


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


# Where a network comes from: an import path, a file, transformers or torchvision.


_FORMS = (
    "give package.module:factory, file.py:factory, transformers:config.json, "
    "transformers:BertConfig or torchvision:resnet50"
)


class PythonSource(msgspec.Struct, frozen=True):
    """``place`` is a module's import path or, with ``is_file``, the path of a file."""

    place: str
    attribute: str  # may be dotted
    is_file: bool


class LibrarySource(msgspec.Struct, frozen=True):
    """A network that a library knows under ``name``."""

    library: Literal["transformers", "torchvision"]
    name: str  # of a configuration's file, folder or class; of torchvision's builder


Source: TypeAlias = PythonSource | LibrarySource


def parse_source(text: str) -> Source:
    """The source that ``text`` names; imports and opens nothing. Raises UsageError."""
    head, colon, tail = text.partition(":")
    if colon and tail:
        if head == "transformers":
            return LibrarySource("transformers", tail)
        if head == "torchvision":
            return LibrarySource("torchvision", tail)
    place, colon, attribute = text.rpartition(":")
    is_attribute = bool(colon) and all(part.isidentifier() for part in attribute.split("."))
    if is_attribute and place.endswith(".py"):
        return PythonSource(place, attribute, is_file=True)
    if is_attribute and all(part.isidentifier() for part in place.split(".")):
        return PythonSource(place, attribute, is_file=False)
    raise UsageError(f"{text!r} names no network", fix=_FORMS)
