"""Weights inside large files are skipped, not read; what is left is the same model."""

from __future__ import annotations

import hashlib
import io
import os
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from mansard.core.errors import ModelError, StorageError
from mansard.estimator import score, totals
from mansard.estimator.graph.source import WHOLE_BYTES
from mansard.estimator.graph.wire import SMALL_BYTES, without_payloads


def large_model(n: int) -> onnx.ModelProto:
    """Weights as raw bytes, as packed floats, inside a Constant node, and a small shape."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,64] x) => (float[2,64] y) '
        f"<int64[2] s = {{-1, {n}}}> "
        "{ a = MatMul(x, w) r = Reshape(a, s) b = MatMul(r, v) y = Gemm(b, c) }"
    )
    model = parser.parse_model(text)
    w, v = np.ones((64, n), np.float32), np.ones((n, 64), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    model.graph.initializer.append(
        helper.make_tensor("v", TensorProto.FLOAT, v.shape, v.reshape(-1).tolist())
    )
    held = numpy_helper.from_array(np.ones((64, n), np.float32))
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=held))
    return model


def strip(data: bytes) -> onnx.ModelProto:
    proto: onnx.ModelProto = onnx.ModelProto.FromString(
        without_payloads(io.BytesIO(data), len(data))
    )
    return proto


def test_payloads_go_and_everything_else_stays() -> None:
    model = large_model(512)
    stripped = strip(model.SerializeToString())
    assert len(stripped.SerializeToString()) < SMALL_BYTES
    for tensor in (*model.graph.initializer[1:], model.graph.node[0].attribute[0].t):
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    assert stripped == model


def test_small_messages_are_copied_unread() -> None:
    model = large_model(8)
    assert strip(model.SerializeToString()) == model


def test_a_large_file_scores_as_the_model_it_is(tmp_path: Path) -> None:
    data = large_model(65_536).SerializeToString()
    assert len(data) > WHOLE_BYTES
    path = tmp_path / "large.onnx"
    path.write_bytes(data)
    found = score(path)
    assert found.layers == score(data).layers
    assert found.model_hash == hashlib.sha256(data).hexdigest()
    assert totals(found).parameters == 3 * 64 * 65_536


def test_damaged_large_files(tmp_path: Path) -> None:
    data = large_model(65_536).SerializeToString()
    path = tmp_path / "large.onnx"
    for broken in (data[:-1000], data[: len(data) // 2] + b"\xff" * 1000, b"\xff" * len(data)):
        path.write_bytes(broken + b"\x07" * max(0, WHOLE_BYTES + 1 - len(broken)))
        with pytest.raises(ModelError):
            score(path)


def test_graphs_nested_deeper_than_protobuf_allows_end_in_an_error() -> None:
    # attribute (5) of node (1) of graph (6) of attribute …, around more than is copied unread
    inner = b"\x00" * (SMALL_BYTES + 1)
    for _ in range(200):
        for field in (6, 5, 1):
            inner = bytes([field << 3 | 2]) + varint(len(inner)) + inner
    data = bytes([7 << 3 | 2]) + varint(len(inner)) + inner
    with pytest.raises(ModelError):
        score(bytes([1 << 3, 8]) + data)
    without_payloads(io.BytesIO(data), len(data))


def varint(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        encoded += struct.pack("B", value & 0x7F | 0x80)
        value >>= 7
    return encoded + struct.pack("B", value)


def test_pipes_are_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="not a regular file"):
        score(pipe)
