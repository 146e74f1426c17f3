"""Files of other formats are told by name, with what to do about them."""

from __future__ import annotations

import gzip
import io
import lzma
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]
from onnx import parser, printer

from mansard.core.errors import ModelError
from mansard.estimator.reading import read_source
from mansard.estimator.reading.files import WHOLE_BYTES

MODEL = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
)
DATA = MODEL.SerializeToString()


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, DATA)
    return stream.getvalue()


def tarred() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("net.onnx"), io.BytesIO(b""))
    return stream.getvalue()


def array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones(3))
    return stream.getvalue()


def message(key: int, content: bytes) -> bytes:
    return bytes([key, len(content)]) + content


# SavedModel of TensorFlow (saved_model.proto): a version, then a graph with its tags
TAGGED = message(10, message(34, b"serve"))
SAVED_MODEL = b"\x08\x01" + message(18, TAGGED)
# GraphDef (graph.proto): nodes, each with a name and an operator
GRAPH_DEF = message(10, message(10, b"input") + message(18, b"Placeholder"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(DATA, mtime=0), "gzip; unpack it first"),
        (lzma.compress(DATA), "xz; unpack it first"),
        (tarred(), "tar archive; unpack it first"),
        (zipped("net.onnx"), "zip archive; unpack it first"),
        (zipped("archive/data.pkl"), "PyTorch; export the network itself to ONNX"),
        (zipped("config.json", "model.weights.h5"), "Keras; convert it with tf2onnx"),
        # what torch.save wrote before it wrote zip files starts with this number
        (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "PyTorch checkpoint; export the network itself"),
        (printer.to_text(MODEL).encode(), "ONNX text; give the same network in ONNX's binary"),
        (text_format.MessageToString(MODEL).encode(), "ONNX protobuf text; give the same network"),
        (json_format.MessageToJson(MODEL).encode(), "ONNX JSON; give the same network"),
        (SAVED_MODEL, "TensorFlow SavedModel; convert it with tf2onnx"),
        (GRAPH_DEF, "TensorFlow graph; convert it with tf2onnx"),
        (b"\x1c\0\0\0TFL3" + bytes(100), "TensorFlow Lite; convert it with tf2onnx --tflite"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5 (Keras); convert it with tf2onnx"),
        (b"\x40\0\0\0\0\0\0\0" + b'{"w":{"dtype":"F32"', "safetensors; export the network"),
        (b"GGUF\x03\0\0\0", "GGUF; export the network"),
        (b"ftrt" + bytes(100), "TensorRT engine; give the ONNX file that it was built from"),
        (array(), "NumPy array"),
        (b"<!DOCTYPE html>\n<html>", "web page; the download went wrong"),
        (b'<?xml version="1.0"?>\n<net name="x">', "XML (OpenVINO?)"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "run git lfs pull"),
    ],
)
def test_files_of_other_formats(data: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_source(data)
    assert message in str(caught.value)


def test_a_file_that_onnx_runtime_wrote_in_its_own_format(tmp_path: Path) -> None:
    path = tmp_path / "net.ort"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(DATA, options, providers=["CPUExecutionProvider"])
    with pytest.raises(ModelError, match=r"ORT \(ONNX Runtime's own\); give the ONNX file"):
        read_source(path)


def test_a_large_saved_model(tmp_path: Path) -> None:
    # what it holds is skipped as unknown, but what it is must still be told
    path = tmp_path / "saved_model.pb"
    graph = onnx.StringStringEntryProto(key="x" * (WHOLE_BYTES + 1)).SerializeToString()
    size = len(TAGGED) + len(graph)
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    path.write_bytes(b"\x08\x01\x12" + length + TAGGED + graph)
    with pytest.raises(ModelError, match="TensorFlow SavedModel"):
        read_source(path)


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 100, b"\xff" * 100, bytes(range(256)), b"hello, this is text\n"]
)
def test_files_of_no_format(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"not an ONNX model|is empty"):
        read_source(data)
