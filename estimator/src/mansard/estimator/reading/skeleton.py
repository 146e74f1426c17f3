"""The skeleton of a model, without weights: it is what is parsed and hashed.

Long contents that no count depends on are skipped without being read: stored tensors,
notes, training graphs. The rest is copied unchanged, so that it is an ONNX file again.
Protobuf's wire format: https://protobuf.dev/programming-guides/encoding/; fields by
number: onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import tee
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import (
    BYTES,
    END_GROUP,
    GROUP,
    cut_short,
    damaged,
    encode,
    field_at,
    signed32,
    varint,
)
from mansard.estimator.numbers import BY_CODE, MAX_INTEGERS
from mansard.estimator.reading.limits import FIX, MAX_FIELDS, MAX_KEPT_BYTES, MAX_TEXT_BYTES
from mansard.estimator.reading.tensors import MODE_FIELDS

SHORT_BYTES: Final = 1 << 12
"""A content up to this size is kept without a look at what is inside."""

DATA_TYPE: Final = 16
"""The key of a tensor's element type."""

_HEAD_BYTES = 20  # a key and a length take 5 and 10 at most
_ORDINARY = frozenset(range(10, 128, 8))  # keys of one byte whose content are bytes

# Numbers, each with a key of one byte, which is not that of an element type. Lists of
# numbers that are attributes are stored like this, millions of them in a forest of
# decision trees, and the modes of its nodes.
_NUMBERS = re.compile(
    rb"(?:"
    + MODE_FIELDS
    + rb"|[\x08\x18\x20\x28\x30\x38\x40\x48\x50\x58\x60\x68\x70\x78][\x80-\xff]{0,9}[\x00-\x7f]"
    rb"|[\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d].{4}"
    rb"|[\x09\x11\x19\x21\x29\x31\x39\x41\x49\x51\x59\x61\x69\x71\x79].{8})+",
    re.DOTALL,
)
_STRINGS, _MODE_LETTERS = 74, b"BL"  # what the modes of tree nodes begin with
_RUN_BYTES = 1 << 15  # scanned at once: a match needs memory for each number


class Source(Protocol):
    """A file, or bytes in memory."""

    size: int

    def read(self, start: int, n_bytes: int) -> bytes:
        """``n_bytes`` from ``start``, or fewer at the end."""
        ...

    def window(self, start: int) -> tuple[bytes, int]:
        """Some bytes around ``start``, and their offset."""
        ...


_MOST_BYTES: Final = 1 << 31  # of a protobuf message
_GRAPH: Final = 58  # key of a model's graph, nearly the whole of its file


class Field(NamedTuple):
    """A field in a file: its key, where it starts, where its content starts and ends.

    ``number`` is the content of a field of the key ``DATA_TYPE``.
    """

    key: int
    start: int
    content: int
    stop: int
    number: int = 0


class Walker:
    """Walks forward through a file; raises ModelError for too many fields."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._window = source.window(0)
        self._n_fields = 0

    def long_fields(self, start: int, end: int) -> Iterator[Field]:
        """The fields with long contents from ``start`` to ``end``, and those of element types.

        Raises ModelError where the bytes are no message.
        """
        position = start
        groups: list[int] = []
        while position < end:
            window, base = self._window
            at, n_fields = _skip_short(window, position - base, end - base)
            numbers = _NUMBERS.match(window, at, min(at + _RUN_BYTES, end - base))
            if numbers:
                position = numbers.end() + base
                self._count(n_fields + 1)
                continue
            position = at + base
            self._count(n_fields + 1)
            if position >= end:
                break
            if at > len(window) - _HEAD_BYTES:
                window, base = self._window = self._source.window(position)
            try:
                key, content, stop = _head(window, position - base)
                number = varint(window, content)[0] if key == DATA_TYPE else 0
                _follow(groups, key)
            except (ModelError, IndexError):
                raise damaged(f" at byte {position}") from None
            if stop + base > end:
                is_whole_file = position > 0 and end == self._source.size
                if key == _GRAPH and is_whole_file and stop - content < _MOST_BYTES:
                    raise cut_short(end)
                break
            if (stop - content > SHORT_BYTES or key == DATA_TYPE) and not groups:
                yield Field(key, position, content + base, stop + base, number)
            position = stop + base
        if position != end or groups:
            raise damaged(f" at byte {position}")

    def _count(self, n_fields: int) -> None:
        self._n_fields += n_fields
        if self._n_fields > MAX_FIELDS:
            raise too_large()


def too_large() -> ModelError:
    """The error for a file that is not a network with weights."""
    return ModelError(
        f"without its weights it is still larger than {MAX_FIELDS} fields "
        f"or {MAX_KEPT_BYTES >> 20} MiB",
        fix=FIX,
    )


def _skip_short(window: bytes, at: int, end: int) -> tuple[int, int]:
    """Skip the short contents at ``at``: where the next field starts, and how many they were.

    Nearly every field of a graph is one of these, so this loop is what a large graph costs.
    """
    n_fields, last = 0, min(end, len(window)) - _HEAD_BYTES
    while at < last:
        if window[at] not in _ORDINARY:
            break
        size, start = window[at + 1], at + 2
        if window[at] == _STRINGS and window[start] in _MODE_LETTERS:
            break
        if size > 127:
            size += (window[start] - 1) << 7
            if size > SHORT_BYTES:  # of three bytes too: the second is above 127 then
                break
            start += 1
        if start + size > end:
            break
        at = start + size
        n_fields += 1
    return at, n_fields


def _head(window: bytes, at: int) -> tuple[int, int, int]:
    """Key of the field at ``at``, where its content starts and ends; a group's is empty."""
    key = window[at]
    if key & 7 in (GROUP, END_GROUP):
        key, at = varint(window, at)
        return key, at, at
    return field_at(window, at)


def _follow(groups: list[int], key: int) -> None:
    """Keep ``groups``, the keys of those that are open."""
    if key & 7 == GROUP:
        groups.append(key)
    elif key & 7 == END_GROUP and (not groups or groups.pop() != key - 1):
        raise damaged()


INTEGERS_BYTES: Final = 10 * MAX_INTEGERS
"""So long may stored integers be to be kept: shapes depend on them. A varint takes 10 bytes."""

_MAX_DEPTH = 100  # protobuf refuses messages that are nested deeper

_PAYLOADS = frozenset({34, 42, 58, 74, 82, 90})  # float, int32, int64, raw, double, uint64

# What to do with a long content, by message and key (8 · field + kind): look into it, or
# keep it. ``text`` is refused beyond a size that no name has. What is not here is skipped.
_PLANS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "model": {58: "graph", 66: "text", 202: "function"},
        "graph": {10: "node", 42: "tensor", 122: "sparse", 90: "text", 98: "text"},
        "node": {**dict.fromkeys((10, 18, 26, 34, 58, 66), "text"), 42: "attribute"},
        "attribute": {
            **dict.fromkeys((10, 74, 114, 122, 170), "text"),
            **dict.fromkeys((58, 66), "list"),
            **dict.fromkeys((42, 82), "tensor"),
            **dict.fromkeys((50, 90), "graph"),
            **dict.fromkeys((178, 186), "sparse"),
        },
        "tensor": {10: "text", 66: "text"},
        "sparse": {10: "tensor", 26: "text"},
        "function": {
            **dict.fromkeys((10, 34, 42, 50, 74, 82, 106), "text"),
            58: "node",
            90: "attribute",
        },
    }
)


def skeleton(source: Source) -> bytes:
    """The model in ``source`` without weights; raises ModelError if it is damaged."""
    return _Copier(source).copy()


class _Copier:
    """Walks a model once and notes which pieces to copy."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._walker = Walker(source)
        self._pieces: list[bytes | tuple[int, int]] = []  # bytes, or a start and an end
        self._n_kept = 0

    def copy(self) -> bytes:
        if self._message("model", 0, self._source.size, 0) == self._source.size:
            return self._read(0, self._source.size)
        return b"".join(
            piece if isinstance(piece, bytes) else self._read(*piece) for piece in self._pieces
        )

    def _read(self, start: int, end: int) -> bytes:
        data = self._source.read(start, end - start)
        if len(data) < end - start:
            raise damaged(f" at byte {start + len(data)}")
        return data

    def _message(self, name: str, start: int, end: int, depth: int) -> int:
        """Note the pieces of one message that stay; how many bytes they have."""
        if depth > _MAX_DEPTH:
            raise ModelError(f"its messages are nested deeper than {_MAX_DEPTH}", fix=FIX)
        plan, n_bytes, run = _PLANS[name], 0, start
        limit, fields = SHORT_BYTES, self._walker.long_fields(start, end)
        if name == "tensor":
            fields, held = tee(fields)
            limit = _payload_limit(held)
        for field in fields:
            todo = plan.get(field.key)
            if self._stays(field, todo, limit):
                continue
            n_bytes += self._keep(run, field.start)
            run = field.stop
            if todo is not None:
                n_bytes += self._nested(field, todo, depth + 1)
        return n_bytes + self._keep(run, end)

    def _nested(self, field: Field, name: str, depth: int) -> int:
        head_index = len(self._pieces)
        self._pieces.append(b"")
        n_bytes = self._message(name, field.content, field.stop, depth)
        head = self._pieces[head_index] = encode(field.key) + encode(n_bytes)
        return len(head) + n_bytes

    def _keep(self, start: int, end: int) -> int:
        if start < end:
            self._pieces.append((start, end))
            self._n_kept += end - start
        if self._n_kept > MAX_KEPT_BYTES:
            raise too_large()
        return end - start

    def _stays(self, field: Field, todo: str | None, limit: int) -> bool:
        n_bytes = field.stop - field.content
        if field.key & 7 != BYTES or (field.key in _PAYLOADS and n_bytes <= limit):
            return True
        if todo == "text" and n_bytes > MAX_TEXT_BYTES:
            raise ModelError(f"a name in it takes {n_bytes} bytes", fix=FIX)
        return todo in ("text", "list")


def _payload_limit(fields: Iterable[Field]) -> int:
    """The most bytes of values that are copied for a tensor with these fields."""
    codes = [signed32(field.number) for field in fields if field.key == DATA_TYPE]
    dtype = BY_CODE.get(codes[-1]) if codes else None
    return SHORT_BYTES if dtype is None or dtype.is_float else INTEGERS_BYTES
