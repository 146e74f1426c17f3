"""Nodes of an ONNX file, read without the package ``onnx``: names and tensors, no weights.

https://github.com/onnx/onnx/blob/main/onnx/onnx.proto has the numbers of the fields.

A label is the name by which what an engine ran is traced to a node of the network. Names of nodes
may be empty or doubled, an engine joins several where it fuses nodes, and writes its own in front
of those of a branch that it moves out of an If. A label survives that.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import BYTES, damaged, field_at, fields, messages

_LABEL = re.compile(r"@(\d{1,9})@")


def label(index: int) -> str:
    """The name of the node that ``LayerScore.index`` calls ``index``."""
    return f"@{index}@"


def labels_of(name: str) -> tuple[int, ...]:
    """The indexes in a name that holds labels, whatever was written around them; each once."""
    return tuple(dict.fromkeys(int(found) for found in _LABEL.findall(name)))


def label_of(name: str) -> int | None:
    """The last index in a name; None where it holds no label."""
    found = labels_of(name)
    return found[-1] if found else None


def _key(field: int) -> int:
    return field * 8 + BYTES


_MODEL_GRAPH = _key(7)
_GRAPH_NODE = _key(1)
_INPUT, _OUTPUT, _NAME, _OP_TYPE, _ATTRIBUTE = (_key(field) for field in (1, 2, 3, 4, 5))
_BODIES = (_key(6), _key(11))  # of an attribute: one graph, or several


class GraphNode(NamedTuple):
    """One node; of an input that is left out the name is empty."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_nodes(path: Path) -> tuple[GraphNode, ...]:
    """Every node of the file, one before those in its bodies; raises ModelError and OSError."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view: Any = data  # what protobuf reads: bytes, or a mapped file as if it were bytes
        position, end, found = 0, len(data), []
        while position < end:
            key, start, position = field_at(view, position)
            if position > end:
                raise damaged()
            if key == _MODEL_GRAPH:
                found += list(_nodes(view, start, position))
        return tuple(found)


def _nodes(data: bytes, start: int, end: int) -> Iterator[GraphNode]:
    for _, node in messages(data, (_GRAPH_NODE,), start, end):
        bodies: list[bytes] = []
        texts: dict[int, list[str]] = {_INPUT: [], _OUTPUT: [], _NAME: [], _OP_TYPE: []}
        for key, content in fields(node):
            if key in texts:
                texts[key].append(_text(content))
            elif key == _ATTRIBUTE:
                bodies += [body for _, body in messages(content, _BODIES)]
        yield GraphNode(
            "".join(texts[_NAME][-1:]),
            "".join(texts[_OP_TYPE][-1:]),
            tuple(texts[_INPUT]),
            tuple(texts[_OUTPUT]),
        )
        for body in bodies:
            yield from _nodes(body, 0, len(body))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelError("a name in the file is no UTF-8") from error
