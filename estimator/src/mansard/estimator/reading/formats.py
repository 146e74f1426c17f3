"""Other formats, recognised so that the error can propose what to do.

ONNX files have no magic number, so this is called only for files that are no ONNX.
"""

from __future__ import annotations

import re

from mansard.core.errors import ModelError

HEAD_BYTES = 512  # of a file that are compared

_EXPORT = "export the network itself to ONNX (torch.onnx.export, or mansard export)"
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
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", "PyTorch checkpoint", _EXPORT),
    (8, b'{"', "safetensors", _EXPORT),
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
        _EXPORT,
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
