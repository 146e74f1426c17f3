"""From an ONNX file, or its bytes, to a Model; weights are never read.

Message ModelProto of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto);
keys are 8 · field + kind. Neither onnx nor protobuf is imported: the ``onnx`` package
alone takes longer to load than a network of a thousand nodes takes to score.

ONNX files have no magic number. Files of other formats are recognised once they are no ONNX, so
that the error can propose what to do.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mansard.core.errors import ModelError, StorageError
from mansard.core.formats.protobuf import damaged, field_at, messages, signed, varint
from mansard.core.hashing import file_hash
from mansard.core.storage.files import storage_error
from mansard.estimator.model import Model, ModelInput, ModelNode, StatedType, all_nodes
from mansard.estimator.reading.functions import inline, read_functions
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
    """A model in an open file of any size; only the requested bytes are read."""

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
        other_format = recognised(source.read(0, HEAD_BYTES))
        if other_format is None:
            raise
        raise other_format from error
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
    inputs = tuple(declared for declared in listed if declared.name not in stored)
    if len({declared.name for declared in inputs}) < len(inputs):
        raise ModelError("two inputs of the graph have the same name", fix=_BROKEN)
    defined = dict.fromkeys(stored) | dict.fromkeys(declared.name for declared in inputs)
    _check_outputs(nodes, defined, outputs)
    return Model(sort_nodes(nodes, defined), inputs, tuple(outputs), stored, opsets, stated)


def _check_outputs(
    nodes: list[ModelNode], defined: Mapping[str, object], outputs: list[ModelInput]
) -> None:
    missing = {output.name for output in outputs}.difference(defined)
    for node in reversed(nodes):  # most often the last one writes them
        if not missing:
            return
        missing.difference_update(node.outputs)
    if missing:
        name = next(output.name for output in outputs if output.name in missing)
        raise ModelError(f"no node writes the graph's output {name!r}", fix=_BROKEN)


HEAD_BYTES = 512  # of a file that are compared

_EXPORT = "export the network itself to ONNX (torch.onnx.export, or mansard models export)"
_EXPORT_OR_FOLDER = (
    f"{_EXPORT}; of a language model, give the folder with its config.json, or a .gguf file"
)
_UNPACK = "unpack it first"
_TENSORFLOW = "convert it with tf2onnx"
_BINARY = "give the same network in ONNX's binary format: onnx.save(onnx.load(...), 'net.onnx')"

# Offset of the magic number, the number, the name of such files, what to do.
# Numbers: RFC 1952 (gzip), 8878 (zstd); the formats' own documents for the others.
_MAGIC = (
    (0, b"\x1f\x8b", "gzip", _UNPACK),
    (0, b"BZh", "bzip2", _UNPACK),
    (0, b"\xfd7zXZ\0", "xz", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "zstd", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "7z", _UNPACK),
    (257, b"ustar", "tar archive", _UNPACK),
    (4, b"ORTM", "ORT (ONNX Runtime's own)", "give the ONNX file that it was made from"),
    (4, b"TFL3", "TensorFlow Lite", "convert it with tf2onnx --tflite"),
    (0, b"\x89HDF\r\n\x1a\n", "HDF5 (Keras)", _TENSORFLOW),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", "PyTorch checkpoint", _EXPORT_OR_FOLDER),
    (8, b'{"', "safetensors", _EXPORT_OR_FOLDER),
    (0, b"GGUF", "GGUF", "export the network to ONNX from its original framework"),
    (0, b"ftrt", "TensorRT engine", "give the ONNX file that it was built from"),
    (0, b"ptrt", "TensorRT engine", "give the ONNX file that it was built from"),
    (0, b"\x89PNG", "PNG image", "give a network"),
    (0, b"\xff\xd8\xff", "JPEG image", "give a network"),
    (0, b"\x7fELF", "executable", "give a network"),
    (0, b"%PDF", "PDF", "give a network"),
    (0, b"\x93NUMPY", "NumPy array", "give the network, not its data"),
    (0, b"version https://git-lfs", "Git LFS pointer, not the file itself", "run git lfs pull"),
)

_PATTERNS = (
    (
        rb"PK\x03\x04.{26,200}?(data\.pkl|constants\.pkl|\.data/serialization_id)",
        "PyTorch",
        _EXPORT_OR_FOLDER,
    ),
    (rb"PK\x03\x04.{26,200}?config\.json", "Keras", _TENSORFLOW),
    (rb"PK[\x03\x05]", "zip archive", _UNPACK),
    (rb"\s*<\s*ir_version\s*:", "ONNX text", _BINARY),
    (rb"\s*(ir_version\s*:|producer_name\s*:|graph\s*\{)", "ONNX protobuf text", _BINARY),
    (rb'\s*\{\s*"(irVersion|ir_version|graph|producerName)"', "ONNX JSON", _BINARY),
    (rb"\s*<\?xml|\s*<net\b", "XML (OpenVINO?)", "give the ONNX file that it was made from"),
    (rb"(?i)\s*<(!doctype html|html)", "web page", "the download went wrong; fetch the file again"),
    (rb"\x08\x01\x12.{1,5}\x0a.{1,5}(\x12|\x0a|\x1a|\x22)", "TensorFlow SavedModel", _TENSORFLOW),
    (
        rb"\x0a.{1,3}\x0a.{1,80}\x12.(Placeholder|Const|VarHandleOp|Variable)",
        "TensorFlow graph",
        _TENSORFLOW,
    ),
)


def recognised(head: bytes) -> ModelError | None:
    """An error that names the format of a file that starts with ``head``, if it is known."""
    for offset, magic, name, fix in _MAGIC:
        if head.startswith(magic, offset):
            return _error(name, fix)
    for pattern, name, fix in _PATTERNS:
        if re.match(pattern, head, re.DOTALL):
            return _error(name, fix)
    return None


def _error(name: str, fix: str) -> ModelError:
    return ModelError(f"this is not an ONNX model, but a file of the format {name}", fix=fix)
