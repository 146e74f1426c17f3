"""Taking the weights out of a large file before anything parses it.

Walks protobuf's wire format (https://protobuf.dev/programming-guides/encoding/) and
copies everything but tensors' payloads, which are skipped without being read. Fields
by number: onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO, Optional

from mansard.core.errors import ModelError

SMALL_BYTES = 1 << 16  # a message up to this size is copied as it is
_MAX_DEPTH = 90  # protobuf itself refuses messages nested deeper than 100
# A hundred times what the largest exported graphs have without their weights: a file of
# gigabytes that holds nothing but tiny fields must not take hours, nor fill the memory.
MAX_FIELDS = 2_000_000
MAX_KEPT_BYTES = 1 << 27

_Plan = Mapping[int, Optional["_Plan"]]  # field -> how to go on inside it; None: leave it out

_TENSOR: _Plan = dict.fromkeys((4, 5, 6, 7, 9, 10, 11))  # the seven payload fields
_SPARSE: _Plan = {1: _TENSOR, 2: _TENSOR}
_ATTRIBUTE: dict[int, _Plan | None] = {5: _TENSOR, 10: _TENSOR, 22: _SPARSE, 23: _SPARSE}
_NODE: _Plan = {5: _ATTRIBUTE}
_GRAPH: _Plan = {1: _NODE, 5: _TENSOR, 15: _SPARSE}
_ATTRIBUTE.update({6: _GRAPH, 11: _GRAPH})  # subgraphs
_MODEL: _Plan = {7: _GRAPH, 25: {7: _NODE}}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def without_payloads(stream: BinaryIO, n_bytes: int) -> bytes:
    """The model in ``stream`` without large payloads; raises ModelError if it is damaged."""
    stream.seek(0)
    return b"".join(_copy(stream, n_bytes, _MODEL, 0, _Budget()))


class _Budget:
    """How much of a file may still be walked and kept; spending more raises ModelError."""

    def __init__(self) -> None:
        self._n_fields, self._n_bytes = MAX_FIELDS, MAX_KEPT_BYTES

    def spend(self, n_bytes: int) -> None:
        self._n_fields -= 1
        self._n_bytes -= n_bytes
        if self._n_fields < 0 or self._n_bytes < 0:
            raise ModelError(
                f"without its weights it is still larger than {MAX_FIELDS} fields "
                f"or {MAX_KEPT_BYTES >> 20} MiB",
                fix="give a network, with its weights stored as tensors",
            )


def _copy(stream: BinaryIO, end: int, plan: _Plan, depth: int, budget: _Budget) -> Iterator[bytes]:
    while (position := stream.tell()) < end:
        tag = _varint(stream)
        field, kind = tag >> 3, tag & 7
        if field == 0:  # protobuf has no such field, a file of zeros has nothing else
            raise _damaged(position)
        budget.spend(0)
        is_left_out = field in plan and plan[field] is None
        if kind == _BYTES:
            yield from _copy_bytes(stream, end, tag, plan, depth, budget)
            continue
        if kind == _VARINT:
            content = _encode(_varint(stream))
        elif kind in (_FIXED64, _FIXED32):
            content = _take(stream, 8 if kind == _FIXED64 else 4)
        else:
            raise _damaged(position)
        if not is_left_out:
            yield _encode(tag) + content


def _copy_bytes(
    stream: BinaryIO, end: int, tag: int, plan: _Plan, depth: int, budget: _Budget
) -> Iterator[bytes]:
    length = _varint(stream)
    start = stream.tell()
    if start + length > end:
        raise _damaged(start)
    field = tag >> 3
    if length <= SMALL_BYTES or field not in plan or depth == _MAX_DEPTH:
        budget.spend(length)
        yield _encode(tag) + _encode(length) + _take(stream, length)
        return
    inner = plan[field]
    if inner is not None:
        content = b"".join(_copy(stream, start + length, inner, depth + 1, budget))
        yield _encode(tag) + _encode(len(content)) + content
    stream.seek(start + length)


def _varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _take(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise _damaged(stream.tell())


def _encode(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _take(stream: BinaryIO, n_bytes: int) -> bytes:
    taken = stream.read(n_bytes)
    if len(taken) < n_bytes:
        raise _damaged(stream.tell())
    return taken


def _damaged(position: int) -> ModelError:
    return ModelError(
        f"this is not an ONNX model, or it is cut short or damaged at byte {position}",
        fix="give a file written by an ONNX exporter, whole and uncompressed",
    )
