"""Nodes: from the message NodeProto to a ModelNode, and from AttributeProto to a Python value.

onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are
8 · field + kind. Integers, floats, strings and tensors become what they are, lists
become tuples; graphs stay bytes until all nodes around them have been read.

Reading nodes is the loop that must be fast. Names repeat, and so do attributes as they
are in the file (``axis=1``): both are translated once and then looked up by their bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import asdict

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import (
    count_packed,
    damaged,
    encode,
    fields,
    packed,
    signed,
    signed32,
    varint,
)
from mansard.estimator.model import ModelInput, ModelNode, StoredTensor, normal_domain
from mansard.estimator.reading.limits import ReadingBudget
from mansard.estimator.reading.tensors import (
    LONG_BYTES,
    read_long_list,
    read_stored,
    read_stored_sparse,
    read_type,
)

_ATTRIBUTE_NAME, _ATTRIBUTE_TYPE, _REFERENCE = 10, 160, 170
_F, _I, _S, _T, _G, _TP, _SPARSE = 21, 24, 34, 42, 50, 114, 178
_FLOATS, _INTS, _STRINGS, _TENSORS, _GRAPHS, _TPS, _SPARSES = 61, 64, 74, 82, 90, 122, 186
_PACKED_FLOATS, _PACKED_INTS = 58, 66


class GraphBytes(msgspec.Struct, frozen=True):
    """A graph that is not read yet."""

    data: bytes


class AttributeReference(msgspec.Struct, frozen=True):
    """In a function: the value of the attribute ``name`` of the node that calls it."""

    name: str


def read_attribute(data: bytes, budget: ReadingBudget, label: str) -> tuple[str, object]:
    """Name and value of the AttributeProto in ``data``; errors name a tensor ``label``."""
    if len(data) > LONG_BYTES and (long := read_long_list(data, budget)) is not None:
        return long
    held = _collect(data, budget)
    name: str = held[_ATTRIBUTE_NAME][-1].decode() if _ATTRIBUTE_NAME in held else ""
    if _REFERENCE in held and held[_REFERENCE][-1]:
        return name, AttributeReference(held[_REFERENCE][-1].decode())
    # The type is a closed enum: a number that it does not have counts as not there.
    types = [
        code for value in held.get(_ATTRIBUTE_TYPE, ()) if (code := signed32(value)) in _READERS
    ]
    code = types[-1] if types else 0
    # The type is missing in files older than version 2: the field that is there decides.
    reader = _READERS.get(code) or next((row for row in _READERS.values() if row[0] in held), None)
    if reader is None:
        return name, None
    key, read = reader
    return name, read(held.get(key, []), budget, label)


def _collect(data: bytes, budget: ReadingBudget) -> dict[int, list[Any]]:
    """The contents by key; packed lists are joined with unpacked ones."""
    held: dict[int, list[Any]] = {}
    for key, content in fields(data):
        if key == _PACKED_INTS:
            budget.numbers(count_packed(content))
            held.setdefault(_INTS, []).extend(packed(content))
        else:
            held.setdefault(_FLOATS if key == _PACKED_FLOATS else key, []).append(content)
    return held


_Contents = list[Any]  # of one field, as often as the message has it
_Read = Callable[[_Contents, ReadingBudget, str], object]


def _float(contents: _Contents, *_: object) -> float:
    (value,) = struct.unpack("<f", contents[-1] if contents else bytes(4))
    return float(value)


def _string(contents: _Contents, *_: object) -> str:
    return str(contents[-1], "utf-8", "replace") if contents else ""


def _tensor(contents: _Contents, budget: ReadingBudget, label: str) -> StoredTensor:
    return read_stored(b"".join(contents), budget, label)


def _sparse(contents: _Contents, budget: ReadingBudget, _label: str) -> StoredTensor:
    return read_stored_sparse(b"".join(contents), budget)


def _graph(contents: _Contents, *_: object) -> GraphBytes:
    return GraphBytes(b"".join(contents))


def _type(contents: _Contents, *_: object) -> ModelInput:
    return read_type(b"".join(contents))


def _floats(contents: _Contents, budget: ReadingBudget, _label: str) -> tuple[float, ...]:
    data = b"".join(contents)
    if len(data) % 4:
        raise damaged()
    budget.numbers(len(data) // 4)
    return struct.unpack(f"<{len(data) // 4}f", data)


def _ints(contents: _Contents, budget: ReadingBudget, _label: str) -> tuple[int, ...]:
    budget.numbers(len(contents))
    return tuple(map(signed, contents))


def _each(read: _Read) -> _Read:
    return lambda contents, budget, label: tuple(
        [read([content], budget, label) for content in contents]
    )


# enum AttributeProto.AttributeType: the key of the field that holds the value
_READERS: Mapping[int, tuple[int, _Read]] = MappingProxyType(
    {
        1: (_F, _float),
        2: (_I, lambda contents, *_: signed(contents[-1]) if contents else 0),
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


_INPUT, _OUTPUT, _NAME, _OPERATOR, _ATTRIBUTE = 10, 18, 26, 34, 42
_DOC, _DOMAIN, _OVERLOAD, _METADATA = 50, 58, 66, 74
_SKIPPED = (_METADATA, _DOC)
_USUAL = frozenset({_INPUT, _OUTPUT, _NAME, _OPERATOR, _ATTRIBUTE, _DOMAIN, *_SKIPPED})
_SMALL_BYTES = 256  # attributes beyond this are rarely the same twice


class Call(ModelNode, frozen=True, eq=False):
    """A node that names one of several functions of the same name."""

    overload: str = ""


class _Names(dict[bytes, str]):
    """Strings by their bytes; a name that occurs twice is one object."""

    def __missing__(self, data: bytes) -> str:
        text = self[data] = data.decode()
        return text


# Inputs, outputs, name, type, domain, attributes, and how many bytes were skipped.
_Parts = tuple[list[str], list[str], bytes, bytes, bytes, dict[str, object], int]


def _label(name: bytes, outputs: list[str]) -> str:
    return name.decode("utf-8", "replace") or next(filter(None, outputs), "")


def _twice(attribute: str, name: bytes, outputs: list[str]) -> ModelError:
    return ModelError(
        f"attribute {attribute!r} is there twice",
        where=f"node {_label(name, outputs)!r}",
        fix="the file is broken; export the model again",
    )


class NodeReader:
    """Reads the nodes of one model.

    ``in_functions``: attributes may now refer to those of the function around them.
    """

    def __init__(self, budget: ReadingBudget) -> None:
        self._budget = budget
        self._names = _Names()
        self._attributes: dict[bytes, tuple[str, object]] = {}
        self._holds_graphs = False
        self.in_functions = False
        self._holders: list[ModelNode] = []

    def read(self, index: int, data: bytes, opsets: Mapping[str, int]) -> ModelNode:
        """The NodeProto in ``data``; ``opsets`` are versions by domain."""
        try:
            parts = self._usual(data)
        except IndexError:
            raise damaged() from None
        if parts is None:
            return self._read_unusual(index, data, opsets)
        inputs, outputs, name, op_type, domain, attributes, n_skipped = parts
        self._budget.read(len(data) - n_skipped)
        normal = normal_domain(self._names[domain]) if domain else ""
        node = ModelNode(
            index,
            # Many exporters leave names empty; the first output then names the node.
            name.decode() or next(filter(None, outputs), ""),
            self._names[op_type],
            normal,
            tuple(inputs),
            tuple(outputs),
            attributes,
            opsets.get(normal, 1),
        )
        if self._holds_graphs:
            self._holds_graphs = False
            self._holders.append(node)
        return node

    def take_holders(self) -> list[ModelNode]:
        """The nodes with graphs in them that were read since the last call."""
        taken, self._holders = self._holders, []
        return taken

    def _usual(self, data: bytes) -> _Parts | None:  # noqa: C901, PLR0912 - one branch a field
        """The fields of a node; None if it is encoded in an unusual way."""
        names, cached = self._names, self._attributes
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: dict[str, object] = {}
        name = op_type = domain = b""
        position, end, n_skipped = 0, len(data), 0
        while position < end:
            key, size = data[position], data[position + 1]
            position += 2
            if size > 127:
                if key not in _USUAL:
                    return None
                if data[position] < 128:  # two bytes are usual, and faster without a call
                    size += (data[position] - 1) << 7
                    position += 1
                else:
                    size, position = varint(data, position - 1)
            stop = position + size
            if key == _INPUT:
                inputs.append(names[data[position:stop]])
            elif key == _ATTRIBUTE:
                content = data[position:stop]
                attribute = cached.get(content) or self._attribute(content, name, outputs)
                if attribute[0] in attributes:
                    raise _twice(attribute[0], name, outputs)
                attributes[attribute[0]] = attribute[1]
                if size > LONG_BYTES and isinstance(attribute[1], StoredTensor):
                    n_skipped += size
            elif key == _OUTPUT:
                outputs.append(names[data[position:stop]])
            elif key == _NAME:
                name = data[position:stop]
            elif key == _OPERATOR:
                op_type = data[position:stop]
            elif key in _SKIPPED:
                n_skipped += size
            elif key == _DOMAIN:
                domain = data[position:stop]
            else:
                return None
            position = stop
        if position != end:
            raise damaged()
        return inputs, outputs, name, op_type, domain, attributes, n_skipped

    def _attribute(self, data: bytes, name: bytes, outputs: list[str]) -> tuple[str, object]:
        label = _label(name, outputs)
        attribute = read_attribute(data, self._budget, label)
        value = attribute[1]
        if isinstance(value, AttributeReference) and not self.in_functions:
            raise ModelError(
                f"attribute {attribute[0]!r} refers to one of a function, but stands in none",
                where=f"node {label!r}",
                fix="the file is broken; export the model again",
            )
        if isinstance(value, GraphBytes) or (
            isinstance(value, tuple) and value and isinstance(value[0], GraphBytes)
        ):
            self._holds_graphs = True
        elif len(data) <= _SMALL_BYTES:
            self._attributes[data] = attribute
        return attribute

    def _read_unusual(self, index: int, data: bytes, opsets: Mapping[str, int]) -> ModelNode:
        """A node with unknown fields, overlong numbers or an overload."""
        self._holds_graphs = False
        usual: list[bytes] = []
        overload = b""
        for key, content in fields(data):
            if key in _USUAL:
                usual.append(encode(key) + encode(len(content)) + content)
            elif key == _OVERLOAD:
                overload = content
        node = self.read(index, b"".join(usual), opsets)
        if not overload:
            return node
        call = Call(**asdict(node), overload=overload.decode())
        if self._holders and self._holders[-1] is node:
            self._holders[-1] = call
        return call
