"""Attributes of nodes: from the message AttributeProto to a Python value.

onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are
8 · field + kind. Integers, floats, strings and tensors become what they are, lists
become tuples; graphs stay bytes until all nodes around them have been read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.estimator.graph.declarations import read_type
from mansard.estimator.graph.limits import Budget
from mansard.estimator.graph.protobuf import (
    count_packed,
    damaged,
    fields,
    packed,
    signed,
    signed32,
)
from mansard.estimator.graph.stored import read_stored, read_stored_sparse

_NAME, _TYPE, _REFERENCE = 10, 160, 170
_F, _I, _S, _T, _G, _TP, _SPARSE = 21, 24, 34, 42, 50, 114, 178
_FLOATS, _INTS, _STRINGS, _TENSORS, _GRAPHS, _TPS, _SPARSES = 61, 64, 74, 82, 90, 122, 186
_PACKED_FLOATS, _PACKED_INTS = 58, 66
_EMPTY_FLOAT = bytes(4)


class GraphBytes(msgspec.Struct, frozen=True):
    """A graph that is not read yet."""

    data: bytes


class Reference(msgspec.Struct, frozen=True):
    """In a function: the value of the attribute ``name`` of the node that calls it."""

    name: str


def read_attribute(data: bytes, budget: Budget, label: str) -> tuple[str, object]:
    """Name and value of the AttributeProto in ``data``; errors name a tensor ``label``."""
    held = _collect(data, budget)
    name: str = held[_NAME][-1].decode() if _NAME in held else ""
    if _REFERENCE in held and held[_REFERENCE][-1]:
        return name, Reference(held[_REFERENCE][-1].decode())
    # The type is a closed enum: a number that it does not have counts as not there.
    types = [code for value in held.get(_TYPE, ()) if (code := signed32(value)) in _READERS]
    code = types[-1] if types else 0
    # The type is missing in files older than version 2: what is there tells it.
    key, read = _READERS.get(code) or _guess(held)
    return name, read(held.get(key, []), budget, label)


def _collect(data: bytes, budget: Budget) -> dict[int, list[Any]]:
    """The contents by their keys; lists in their packed form join the others."""
    held: dict[int, list[Any]] = {}
    for key, content in fields(data):
        if key == _PACKED_INTS:
            budget.numbers(count_packed(content))
            held.setdefault(_INTS, []).extend(packed(content))
        else:
            held.setdefault(_FLOATS if key == _PACKED_FLOATS else key, []).append(content)
    return held


_Contents = list[Any]
_Read = Callable[[_Contents, Budget, str], object]


def _float(contents: _Contents, _budget: Budget, _label: str) -> float:
    (value,) = struct.unpack("<f", contents[-1] if contents else _EMPTY_FLOAT)
    return float(value)


def _int(contents: _Contents, _budget: Budget, _label: str) -> int:
    return signed(contents[-1]) if contents else 0


def _string(contents: _Contents, _budget: Budget, _label: str) -> str:
    return str(contents[-1], "utf-8", "replace") if contents else ""


def _tensor(contents: _Contents, budget: Budget, label: str) -> object:
    return read_stored(b"".join(contents), budget, label)


def _graph(contents: _Contents, _budget: Budget, _label: str) -> GraphBytes:
    return GraphBytes(b"".join(contents))


def _type(contents: _Contents, _budget: Budget, _label: str) -> object:
    return read_type(b"".join(contents))


def _sparse(contents: _Contents, budget: Budget, _label: str) -> object:
    return read_stored_sparse(b"".join(contents), budget)


def _floats(contents: _Contents, budget: Budget, _label: str) -> tuple[float, ...]:
    data = b"".join(contents)
    if len(data) % 4:
        raise damaged()
    budget.numbers(len(data) // 4)
    return struct.unpack(f"<{len(data) // 4}f", data)


def _ints(contents: _Contents, budget: Budget, _label: str) -> tuple[int, ...]:
    budget.numbers(len(contents))
    return tuple(map(signed, contents))


def _each(read: _Read) -> _Read:
    return lambda contents, budget, label: tuple(
        read([content], budget, label) for content in contents
    )


def _nothing(_contents: _Contents, _budget: Budget, _label: str) -> None:
    return None


# enum AttributeProto.AttributeType: the key of the field that holds the value
_READERS: Mapping[int, tuple[int, _Read]] = MappingProxyType(
    {
        1: (_F, _float),
        2: (_I, _int),
        3: (_S, _string),
        4: (_T, _tensor),
        5: (_G, _graph),
        6: (_FLOATS, _floats),
        7: (_INTS, _ints),
        8: (_STRINGS, _each(_string)),
        9: (_TENSORS, _each(_tensor)),
        10: (_GRAPHS, _each(_graph)),
        11: (_SPARSE, _sparse),
        12: (_SPARSES, _each(_sparse)),
        13: (_TP, _type),
        14: (_TPS, _each(_type)),
    }
)


def _guess(held: Mapping[int, _Contents]) -> tuple[int, _Read]:
    return next((row for row in _READERS.values() if row[0] in held), (0, _nothing))
