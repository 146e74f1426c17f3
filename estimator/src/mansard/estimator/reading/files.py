"""From an ONNX file, or its bytes, to a Model; weights are never read.

Message ModelProto of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto);
keys are 8 · field + kind. Neither onnx nor protobuf is imported: the ``onnx`` package
alone takes longer to load than a network of a thousand nodes takes to score.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mansard.core.errors import ModelError, StorageError
from mansard.core.formats.protobuf import damaged, field_at, messages, signed, varint
from mansard.core.hashing import file_hash
from mansard.core.storage.files import storage_error
from mansard.estimator.model import Model, ModelInput, ModelNode, StatedType, all_nodes
from mansard.estimator.reading.formats import HEAD_BYTES, recognised
from mansard.estimator.reading.graphs import GRAPH_KEYS, GraphReader, Parts, read_opsets, sort_nodes
from mansard.estimator.reading.limits import ReadingBudget
from mansard.estimator.reading.skeleton import Source, skeleton
from mansard.estimator.reading.versions import version_notes

WHOLE_BYTES = 1 << 24  # a file up to this size is read at once
_WINDOW_BYTES = 1 << 14  # after each tensor that is skipped, a new one is read


class BytesSource:
    """A model in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def read(self, start: int, n_bytes: int) -> bytes:
        return self._data[start : start + n_bytes]

    def window(self, start: int) -> tuple[bytes, int]:  # noqa: ARG002 - all of it, always
        return self._data, 0


class FileSource:
    """A model in an open file, however large; only the bytes that are asked for are read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        self._descriptor = descriptor

    def read(self, start: int, n_bytes: int) -> bytes:
        return os.pread(self._descriptor, n_bytes, start)

    def window(self, start: int) -> tuple[bytes, int]:
        return self.read(start, _WINDOW_BYTES), start


def read_source(source: Path | bytes) -> tuple[bytes, str]:
    """The model's bytes without its weights, and their SHA-256.

    The hash thus names the network, not its weights; of a model without long contents it
    is the file's own. Two models of one hash have one score.

    Raises StorageError where a file cannot be read, ModelError where it is no ONNX model.
    """
    if isinstance(source, bytes):
        return _without_weights(BytesSource(source))
    try:
        status = source.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            # A pipe would wait for ever, a device never end.
            raise StorageError(
                "is not a regular file", where=str(source), fix="give a model's file"
            )
        with source.open("rb") as stream:
            if status.st_size > WHOLE_BYTES:
                return _without_weights(FileSource(stream.fileno(), status.st_size))
            # No more than this: a file may grow while it is read.
            return _without_weights(BytesSource(stream.read(status.st_size)))
    except OSError as error:
        raise storage_error(error, source) from error
    except ValueError as error:  # a path with a zero byte in it
        raise StorageError(str(error), where=str(source), fix="check the path") from error


def _without_weights(source: Source) -> tuple[bytes, str]:
    try:
        data = skeleton(source)
        find_parts(data)
    except ModelError as error:
        told = recognised(source.read(0, HEAD_BYTES))
        if told is None:
            raise
        raise told from error
    return data, file_hash(data)


_IR_VERSION, _GRAPH, _OPSET, _FUNCTION = 8, 58, 66, 202

_NOT_ONNX = "this is not an ONNX model"
_FIX = "give a file written by an ONNX exporter, whole and uncompressed"
_BROKEN = "the graph is broken; export the model again"

Span = tuple[int, int]


def read_model(data: bytes) -> Model:
    """The network in ``data``; raises ModelError for anything that is not a whole ONNX model."""
    try:
        return _read(data)
    except UnicodeDecodeError as error:
        raise ModelError(f"{_NOT_ONNX}: a name in it is not text", fix=_FIX) from error


def _read(data: bytes) -> Model:
    ir_version, spans = find_parts(data)
    imports = read_opsets(data[start:end] for start, end in spans[_OPSET])
    # Before IR version 3 a model had no opset list and meant version 1.
    opsets = {"": 1, **dict(imports)}
    budget = ReadingBudget()
    reader = GraphReader(budget)
    parts = reader.graph(_fields(data, spans[_GRAPH]), opsets)
    if spans[_FUNCTION]:
        from mansard.estimator.reading.functions import inline, read_functions

        contents = (data[start:end] for start, end in spans[_FUNCTION])
        parts = inline(parts, read_functions(contents, opsets, reader, budget), budget)
    model = _model(parts, opsets, reader.stated.by_name)
    notes = tuple(version_notes(ir_version, imports, [*all_nodes(model.nodes)]))
    return msgspec.structs.replace(model, notes=notes)


def find_parts(data: bytes) -> tuple[int, Mapping[int, list[Span]]]:
    """The IR version, and spans of the messages that are read, by key; ModelError without graph."""
    if not data:
        raise ModelError("the file is empty", fix=_FIX)
    ir_version, position = 0, 0
    spans: dict[int, list[Span]] = {_GRAPH: [], _OPSET: [], _FUNCTION: []}
    while position < len(data):
        key, start, position = field_at(data, position)
        if position > len(data):
            raise damaged()
        if key in spans:
            spans[key].append((start, position))
        elif key == _IR_VERSION:
            ir_version = signed(varint(data, start)[0])
    # Protobuf has no magic number: many files parse as a message of unknown fields.
    if ir_version < 1 or not spans[_GRAPH]:
        raise ModelError(f"{_NOT_ONNX}: it holds no graph", fix=_FIX)
    return ir_version, spans


def _fields(data: bytes, spans: list[Span]) -> Iterator[tuple[int, bytes]]:
    for start, end in spans:
        yield from messages(data, GRAPH_KEYS, start, end)


def _model(parts: Parts, opsets: Mapping[str, int], stated: Mapping[str, StatedType]) -> Model:
    nodes, listed, outputs, stored = parts
    if not nodes:
        raise ModelError("the graph is empty: it has no nodes", fix=_FIX)
    # Up to IR version 3 every initialiser is listed among the inputs as well; later on
    # one that is listed is the default of an input.
    inputs = tuple(given for given in listed if given.name not in stored)
    if len({given.name for given in inputs}) < len(inputs):
        raise ModelError("two inputs of the graph have the same name", fix=_BROKEN)
    known = dict.fromkeys(stored) | dict.fromkeys(given.name for given in inputs)
    _check_outputs(nodes, known, outputs)
    return Model(sort_nodes(nodes, known), inputs, tuple(outputs), stored, opsets, stated)


def _check_outputs(
    nodes: list[ModelNode], known: Mapping[str, object], outputs: list[ModelInput]
) -> None:
    missing = {output.name for output in outputs}.difference(known)
    for node in reversed(nodes):  # most often the last one writes them
        if not missing:
            return
        missing.difference_update(node.outputs)
    if missing:
        name = next(output.name for output in outputs if output.name in missing)
        raise ModelError(f"no node writes the graph's output {name!r}", fix=_BROKEN)
