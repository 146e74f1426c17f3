"""A model without its weights: what is parsed, and what is hashed.

Long contents that no count depends on are skipped without being read: stored tensors,
notes, training graphs. The rest is copied as it stands, so that it is an ONNX file again.
Protobuf's wire format: https://protobuf.dev/programming-guides/encoding/; fields by
number: onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import tee
from types import MappingProxyType
from typing import Final

from mansard.core.errors import ModelError
from mansard.estimator.element_types import BY_CODE
from mansard.estimator.graph.limits import FIX, MAX_KEPT_BYTES, MAX_TEXT_BYTES
from mansard.estimator.graph.protobuf import BYTES, damaged, encode, signed32
from mansard.estimator.graph.walking import (
    DATA_TYPE,
    SHORT_BYTES,
    Field,
    Source,
    Walker,
    too_large,
)
from mansard.estimator.values import MAX_INTEGERS

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
    """Walks a model once and notes which pieces of it stay."""

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
        place = len(self._pieces)
        self._pieces.append(b"")
        n_bytes = self._message(name, field.content, field.stop, depth)
        head = self._pieces[place] = encode(field.key) + encode(n_bytes)
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
    """How long the values of a tensor with these fields may be to stay."""
    codes = [signed32(field.number) for field in fields if field.key == DATA_TYPE]
    dtype = BY_CODE.get(codes[-1]) if codes else None
    return SHORT_BYTES if dtype is None or dtype.is_float else INTEGERS_BYTES
