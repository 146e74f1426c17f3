"""Protobuf's wire format (https://protobuf.dev/programming-guides/encoding/).

A message is a row of fields, each a key and a content. The key is the field's number
times 8 plus the kind of content: 0 a varint, 1 eight bytes, 2 a length and that many
bytes, 5 four bytes; 3 and 4 open and close a group, which is skipped. A field whose
kind is not the expected one is an unknown field, and unknown fields are skipped: so
callers compare whole keys. Of a field that is there twice the last one counts;
messages that are there twice are merged, which is to read one after the other.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Final

from mansard.core.errors import ModelError

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)

_COUNTED = (VARINT, BYTES)  # kinds whose content starts with a varint
_MAX_GROUPS = 100  # protobuf's own limit of nesting
_MAX_KEY = 2**32  # a field number has 29 bits
_MASK: Final = 2**64 - 1
_FIX = "give a file written by an ONNX exporter, whole and uncompressed"


def damaged(at: str = "") -> ModelError:
    """The error for bytes that are no protobuf message."""
    return ModelError(f"this is not an ONNX model, or it is cut short or damaged{at}", fix=_FIX)


def cut_short(n_bytes: int) -> ModelError:
    """The error for a model whose last part announces more bytes than the file has."""
    return ModelError(
        f"the file is cut short: it ends at byte {n_bytes}, within a part that goes on",
        fix="copy or download it again, whole",
    )


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at ``position``, of up to 64 bits, and where it ends."""
    value = shift = 0
    try:
        while shift < 70:
            byte = data[position]
            position += 1
            if byte < 128:
                return (value | byte << shift) & _MASK, position
            value |= (byte & 127) << shift
            shift += 7
    except IndexError:
        pass
    raise damaged()


def encode(value: int) -> bytes:
    """The varint of a number that is not negative."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def signed(value: int) -> int:
    """A varint as a signed number of 64 bits."""
    return value - 2**64 if value >> 63 else value


def signed32(value: int) -> int:
    """A varint in a field of 32 bits: the bits above are cut off."""
    value &= 2**32 - 1
    return value - 2**32 if value >> 31 else value


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Key and content of each field: a number for varints, else bytes.

    Raises ModelError where the bytes are no message.
    """
    position, end = 0, len(data)
    try:
        while position < end:
            key, value = data[position], data[position + 1]
            position += 2
            if key > 127:
                key, position = varint(data, position - 2)
                value, position = data[position], position + 1
            kind = key & 7
            if value > 127 and kind in _COUNTED:
                value, position = varint(data, position - 1)
            if key < 8 or key >= _MAX_KEY:
                raise damaged()
            if kind == VARINT:
                yield key, value
                continue
            if kind != BYTES:
                position -= 1
            stop = position + value if kind == BYTES else _end_of(data, position, key)
            if stop > end:
                raise damaged()
            if kind != GROUP:
                yield key, data[position:stop]
            position = stop
    except IndexError:
        raise damaged() from None


def messages(
    data: bytes, wanted: Container[int], start: int = 0, end: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Those fields of ``data[start:end]`` whose keys are ``wanted``, all of them of bytes.

    The same as ``fields``, but quicker over what is not wanted.
    """
    position, end = start, len(data) if end is None else end
    while position < end:
        key = data[position]
        if key > 127 or key & 7 != BYTES or key < 8 or position + 1 == end:
            key, position, stop = field_at(data, position)
        else:
            size = data[position + 1]
            position += 2
            if size > 127:  # two bytes are usual, and faster without a call
                if position < end and data[position] < 128:
                    size += (data[position] - 1) << 7
                    position += 1
                else:
                    size, position = varint(data, position - 1)
            stop = position + size
        if stop > end:
            raise damaged()
        if key in wanted:
            yield key, data[position:stop]
        position = stop


def field_at(data: bytes, position: int) -> tuple[int, int, int]:
    """Key of the field at ``position``, and where its content starts and ends."""
    key, position = varint(data, position)
    if key < 8 or key >= _MAX_KEY:
        raise damaged()
    kind = key & 7
    if kind == VARINT:
        return key, position, varint(data, position)[1]
    if kind == BYTES:
        size, position = varint(data, position)
        return key, position, position + size
    return key, position, _end_of(data, position, key)


def _end_of(data: bytes, position: int, key: int) -> int:
    """Where the content of eight or four bytes, or a group, ends."""
    kind = key & 7
    if kind == FIXED64:
        return position + 8
    if kind == FIXED32:
        return position + 4
    if kind != GROUP:
        raise damaged()
    return _end_of_group(data, position, key)


def _end_of_group(data: bytes, position: int, key: int) -> int:
    open_groups = [key]
    while open_groups:
        key, position = varint(data, position)
        if len(open_groups) > _MAX_GROUPS:
            raise damaged()
        kind = key & 7
        if kind == GROUP:
            open_groups.append(key)
        elif kind == END_GROUP:
            if open_groups.pop() + 1 != key:
                raise damaged()
        elif kind == VARINT:
            _, position = varint(data, position)
        elif kind == BYTES:
            size, position = varint(data, position)
            position += size
        else:
            position = _end_of(data, position, key)
    return position


def packed(data: bytes) -> Iterator[int]:
    """The numbers of a packed list of varints."""
    if data.isascii():
        return iter(data)
    return _packed(data)


def _packed(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        if byte > 127:
            shift += 7
            if shift > 63:
                raise damaged()
            continue
        yield value & _MASK
        value = shift = 0
    if shift:
        raise damaged()


def count_packed(data: bytes) -> int:
    """The number of varints in a packed list: each ends in a byte below 128."""
    return len(data.translate(None, _HIGH))


_HIGH = bytes(range(128, 256))
