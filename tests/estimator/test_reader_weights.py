"""Weights are skipped, not read; what is left is the same model, and names it."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from mansard.core.errors import ModelError, StorageError
from mansard.estimator.reading import read_model, read_source
from mansard.estimator.reading.files import WHOLE_BYTES, BytesSource, FileSource
from mansard.estimator.reading.skeleton import INTEGERS_BYTES, SHORT_BYTES, Source, skeleton
from tests.estimator.reader_oracle import plain


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


def strip(model: onnx.ModelProto) -> onnx.ModelProto:
    data, _ = read_source(model.SerializeToString())
    proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    return proto


def test_payloads_go_and_everything_else_stays() -> None:
    model = large_model(512)
    stripped = strip(model)
    for tensor in (*model.graph.initializer[1:], model.graph.node[0].attribute[0].t):
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    assert stripped == model


def test_a_small_model_is_left_as_it_is() -> None:
    # 64 · 8 floats are 2 KB, less than what counts as long
    data = large_model(8).SerializeToString()
    assert read_source(data) == (data, hashlib.sha256(data).hexdigest())


def test_the_model_is_the_same_with_and_without_weights() -> None:
    data = large_model(512).SerializeToString()
    assert plain(read_model(read_source(data)[0])) == plain(read_model(data))


def one_tensor(tensor: onnx.TensorProto) -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Relu(x) }'
    )
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize(
    ("dtype", "n", "stays"),
    [
        ("float32", SHORT_BYTES // 4, True),
        ("float32", SHORT_BYTES // 4 + 1, False),
        ("float16", SHORT_BYTES, False),
        ("int64", INTEGERS_BYTES // 8, True),  # window indices, which shapes may depend on
        ("int64", INTEGERS_BYTES // 8 + 1, False),
        ("int8", INTEGERS_BYTES, True),
    ],
)
def test_how_long_contents_stay(dtype: str, n: int, stays: bool) -> None:
    model = one_tensor(numpy_helper.from_array(np.ones(n, dtype), "w"))
    assert bool(strip(model).graph.initializer[0].raw_data) is stays
    # the element type may stand behind the values
    front = model.graph.initializer[0].SerializeToString()
    late = onnx.TensorProto.FromString(front)
    late.ClearField("data_type")
    turned = late.SerializeToString() + bytes([16, model.graph.initializer[0].data_type])
    graph = b"\x2a" + length(turned) + turned
    data = b"\x08\x08\x3a" + length(graph) + graph
    kept = onnx.ModelProto.FromString(read_source(data)[0]).graph.initializer[0]
    assert bool(kept.raw_data) is stays
    assert list(kept.dims) == [n]


def length(data: bytes) -> bytes:
    encoded, size = b"", len(data)
    while size >= 0x80:
        encoded, size = encoded + bytes([size & 0x7F | 0x80]), size >> 7
    return encoded + bytes([size])


def test_long_notes_go_and_long_names_stay() -> None:
    model = one_tensor(numpy_helper.from_array(np.ones(4, np.float32), "w" * 10_000))
    model.metadata_props.add(key="words", value="x" * 10_000)
    model.graph.doc_string = "x" * 10_000
    model.graph.node[0].doc_string = "x" * 10_000
    model.training_info.add().initialization.doc_string = "x" * 10_000
    stripped = strip(model)
    assert len(stripped.graph.initializer[0].name) == 10_000
    for field, message in (
        ("metadata_props", model),
        ("training_info", model),
        ("doc_string", model.graph),
        ("doc_string", model.graph.node[0]),
    ):
        message.ClearField(field)
    assert stripped == model


def test_weights_everywhere() -> None:
    held = numpy_helper.from_array(np.ones(5000, np.float32), "held")
    branch = helper.make_graph([helper.make_node("Constant", [], ["o"], value=held)], "b", [], [])
    branch.initializer.append(held)
    sparse = helper.make_sparse_tensor(held, numpy_helper.from_array(np.arange(5000)), [10**6])
    branch.sparse_initializer.append(sparse)
    model = one_tensor(held)
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    node.attribute.append(helper.make_attribute("many", [held, held]))
    node.attribute.append(helper.make_attribute("sparse", sparse))
    node.attribute.append(helper.make_attribute("floats", [0.5] * 5000))
    model.graph.node.append(node)
    model.functions.append(helper.make_function("f", "f", [], [], [node], []))
    assert len(model.SerializeToString()) > 300_000
    left = read_source(model.SerializeToString())[0]
    # what remains is two lists of 5000 floats, each with its key; 25 KB
    assert 50_000 < len(left) < 55_000
    stripped = onnx.ModelProto.FromString(left)
    assert stripped.graph.node[1].attribute[4].floats == [0.5] * 5000
    assert len(stripped.functions[0].node[0].attribute[0].g.node) == 1


def test_a_hash_names_what_counts() -> None:
    one, other = large_model(512), large_model(512)
    other.graph.initializer[1].raw_data = other.graph.initializer[1].raw_data[::-1]
    other.graph.initializer[1].raw_data = bytes(len(one.graph.initializer[1].raw_data))
    assert one != other
    assert hash_of(one) == hash_of(other)  # other weights: the same network
    other.graph.initializer[0].int64_data[0] = 2
    assert hash_of(one) != hash_of(other)
    assert hash_of(large_model(513)) != hash_of(one)


def hash_of(model: onnx.ModelProto) -> str:
    return read_source(model.SerializeToString())[1]


@functools.cache
def large_file() -> bytes:
    """50 MB, which is more than is read whole."""
    data: bytes = large_model(65_536).SerializeToString()
    return data


def test_a_large_file_is_read_as_the_bytes_it_holds(tmp_path: Path) -> None:
    data = large_file()
    assert len(data) > WHOLE_BYTES
    path = tmp_path / "large.onnx"
    path.write_bytes(data)
    assert read_source(path) == read_source(data)
    assert len(read_source(path)[0]) < 1000


def test_a_file_far_larger_than_memory(tmp_path: Path) -> None:
    # 256 GB of weights, as a hole in the file: whoever reads them waits for minutes
    n_bytes = 1 << 38
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 16, 1 << 20])
    front = tensor.SerializeToString() + b"\x4a" + varint(n_bytes)
    model = one_tensor(numpy_helper.from_array(np.ones(4, np.float32), "v"))
    rest = model.graph.SerializeToString()
    size = len(front) + n_bytes
    head = b"\x08\x08\x3a" + varint(1 + len(varint(size)) + size + len(rest))
    path = tmp_path / "huge.onnx"
    with path.open("wb") as stream:
        stream.write(head + b"\x2a" + varint(size) + front)
        stream.seek(n_bytes, os.SEEK_CUR)
        stream.write(rest + b"\x42\x02\x10\x11")
    found = read_model(read_source(path)[0])
    assert found.stored["w"].shape == (1 << 16, 1 << 20)
    assert [node.op_type for node in found.nodes] == ["Relu"]
    assert found.opsets == {"": 17}


def varint(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        encoded, value = encoded + bytes([value & 0x7F | 0x80]), value >> 7
    return encoded + bytes([value])


def test_damaged_large_files(tmp_path: Path) -> None:
    data = large_file()
    path = tmp_path / "large.onnx"
    for broken in (data[:-1000], data[: len(data) // 2] + b"\xff" * 1000, b"\xff" * len(data)):
        path.write_bytes(broken + b"\x07" * max(0, WHOLE_BYTES + 1 - len(broken)))
        with pytest.raises(ModelError, match=r"damaged at byte|cut short: it ends at byte"):
            read_source(path)


def test_pipes_are_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="not a regular file"):
        read_source(pipe)


def pieces() -> bytes:
    """More than one window of nodes, notes and weights of all lengths."""
    model = large_model(512)
    for index in range(300):
        model.graph.node.add(op_type="Relu", input=["x"], output=[f"t{index}"])
        model.graph.node[-1].doc_string = "d" * (index * 37 % 5000)
        held = numpy_helper.from_array(np.zeros(index * 91 % 3000, np.float32), f"w{index}")
        model.graph.initializer.append(held)
    data: bytes = model.SerializeToString()
    return data


PIECES = pieces()


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(PIECES) - 1), st.integers(0, 255)), max_size=4))
def test_a_file_and_its_bytes_are_walked_alike(changes: list[tuple[int, int]]) -> None:
    data = bytearray(PIECES)
    for place, value in changes:
        data[place] = value
    with tempfile.TemporaryFile() as stream:
        stream.write(data)
        stream.flush()
        found = outcome(FileSource(stream.fileno(), len(data)))
    assert found == outcome(BytesSource(bytes(data)))


def outcome(source: Source) -> bytes | str:
    try:
        return skeleton(source)
    except ModelError as error:
        return str(error)
