"""Long lists of numbers in attributes, without an object for each of them.

A forest of decision trees is some millions of numbers in the attributes of one node. Of floats
only their count is kept, as of a weight; of integers, from which the depth of the trees follows,
their bytes; of the modes of the nodes a byte each. Numbers that are not packed, as protobuf's
second version writes them, each have their field's key in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mansard.core.formats.protobuf import BYTES, damaged, field_at, varint
from mansard.estimator.element_types import ELEMENT_TYPES, FLOAT32, INT64, ElementType
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import Array, Numbers, hold_array
from mansard.estimator.reading.limits import ReadingBudget

LONG_BYTES = 1 << 16  # an attribute that takes more is read here

_NAME, _FLOATS, _INTS, _STRINGS, _PACKED_FLOATS, _PACKED_INTS = 10, 61, 64, 74, 58, 66
_RUN_BYTES = 1 << 20  # read at once
# The modes of a tree's nodes, numbered as in a TreeEnsemble; a leaf is behind them.
MODES: tuple[bytes, ...] = (
    b"BRANCH_LEQ",
    b"BRANCH_LT",
    b"BRANCH_GTE",
    b"BRANCH_GT",
    b"BRANCH_EQ",
    b"BRANCH_NEQ",
)
MODES += (b"BRANCH_MEMBER", b"LEAF")
MODE_FIELDS = rb"\x4a(?:" + b"|".join(re.escape(bytes([len(m)]) + m) for m in MODES) + rb")"
_RUNS = {
    _FLOATS: re.compile(rb"(?:\x3d.{4})+", re.DOTALL),
    _INTS: re.compile(rb"(?:\x40[\x80-\xff]{0,9}[\x00-\x7f])+"),
    _STRINGS: re.compile(rb"(?:" + MODE_FIELDS + rb")+"),
}
_PACKED = {_PACKED_FLOATS: _FLOATS, _PACKED_INTS: _INTS}
_TYPE, _TYPES = 160, (6, 7, 8)  # enum AttributeType: lists of floats, integers and texts
_KINDS = {_FLOATS: FLOAT32, _INTS: INT64, _STRINGS: ELEMENT_TYPES["uint8"]}


def read_long_list(  # noqa: C901 - one branch a form
    data: bytes, budget: ReadingBudget
) -> tuple[str, StoredTensor] | None:
    """Name and numbers of the AttributeProto in ``data``; None where it is another attribute."""
    name, kind, n_numbers, position = "", 0, 0, 0
    parts: list[Array] = []
    while position < len(data):
        key, start, stop = field_at(data, position)
        run = _RUNS[key].match(data, position, position + _RUN_BYTES) if key in _RUNS else None
        if key in _PACKED:
            key, found = _PACKED[key], list(_packed_numbers(key, data[start:stop]))
        elif run is not None:
            stop, found = run.end(), [_numbers(key, run[0])]
        elif key in _RUNS or (key & 7 == BYTES and key != _NAME):
            return None  # a text of another word, a tensor, a graph
        else:
            if key == _NAME:
                name = data[start:stop].decode()
            elif key == _TYPE and varint(data, start)[0] not in _TYPES:
                return None
            position = stop
            continue
        if kind not in (0, key):
            return None
        kind, position = key, stop
        for count, part in found:
            n_numbers += count
            if part is not None:
                budget.long_numbers(count)
                parts.append(part)
    dtype = _KINDS.get(kind)
    if dtype is None or not n_numbers:
        return None
    return name, StoredTensor(name, dtype, (n_numbers,), _value(dtype, parts))


def _value(dtype: ElementType, parts: list[Array]) -> Numbers | None:
    import numpy as np

    return hold_array(dtype, np.concatenate(parts)) if parts else None


def _numbers(key: int, run: bytes) -> tuple[int, Array | None]:
    """How many numbers a run holds, each behind its key, and these but floats."""
    import numpy as np

    if key == _FLOATS:
        return len(run) // 5, None
    if key == _STRINGS:
        codes = {mode: code for code, mode in enumerate(MODES)}
        modes = [codes[text[1:]] for text in run.split(b"\x4a")[1:]]  # no mode has a J in it
        return len(modes), np.array(modes, np.uint8)
    held = np.frombuffer(run, np.uint8)
    ends = np.flatnonzero(held < 128)  # of a key, then of its number
    values = _varints(held, ends[0::2] + 1, ends[1::2])
    return len(values), values


def _packed_numbers(key: int, content: bytes) -> Iterator[tuple[int, Array | None]]:
    import numpy as np

    if key == _PACKED_FLOATS:
        yield len(content) // 4, None
        return
    position = 0
    while position < len(content):
        held = np.frombuffer(content[position : position + _RUN_BYTES], np.uint8)
        ends = np.flatnonzero(held < 128)
        if not len(ends):
            raise damaged()
        starts = np.concatenate([[0], ends[:-1] + 1])
        values = _varints(held, starts, ends)
        position += int(ends[-1]) + 1
        yield len(values), values


def _varints(held: Array, starts: Array, ends: Array) -> Array:
    """The numbers whose bytes stand from ``starts`` to ``ends``, seven bits in each."""
    import numpy as np

    if len(starts) and int((ends - starts).max()) > 9:
        raise damaged()
    values = np.zeros(len(starts), np.uint64)
    for place in range(10):
        at = starts + place
        rows = at <= ends
        if not rows.any():
            break
        values[rows] |= (held[at[rows]] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * place)
    return values.view(np.int64)
