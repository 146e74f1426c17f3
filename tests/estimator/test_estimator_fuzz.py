"""Damaged models end in our own errors or in a score that can be written, and quickly."""

from __future__ import annotations

from pathlib import Path

import msgspec
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from mansard.core.errors import MansardError
from mansard.estimator import score, totals

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
ALEXNET = (LIGHT / "light_bvlc_alexnet.onnx").read_bytes()
SHAPES = parser.parse_model(
    """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3,8,8] x) => (float[a,b] y)
    <int64[1] axis0 = {0}, int64 zero = {0}, int64[1] minus = {-1}, int64[4] ends = {2, 3, 6, 6},
     int64[4] starts = {0, 0, 1, 1}, float[4] scales = {1.0, 1.0, 2.0, 2.0}>
    {
        c = Slice(x, starts, ends)
        u = Resize(c, , scales)
        m = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(u)
        s = Shape(m)
        n = Gather(s, zero)
        n1 = Unsqueeze(n, axis0)
        t = Concat<axis=0>(n1, minus)
        r = Reshape(m, t)
        p = Transpose<perm=[1,0]>(r)
        q = MatMul(r, p)
        y = Softmax(q)
    }
    """
).SerializeToString()

EXTREME = (0, 1, -1, 3, 2**31, 2**62, 2**63 - 1, -(2**63))
OPERATORS = (
    *("Conv", "Gemm", "MatMul", "LSTM", "Einsum", "Attention", "Resize", "TopK", "If", "Loop"),
    *("Slice", "Pad", "OneHot", "Split", "GatherND", "ScatterND", "Range", "Tile", "Expand"),
    *("ConvTranspose", "Concat", "Flatten", "Softmax", "DFT", "NonMaxSuppression", "Upsample"),
)


def must_end_well(data: bytes, allow_unknown: bool) -> None:
    try:
        found = score(data, allow_unknown=allow_unknown, phase="training")
    except MansardError:
        return
    totals(found)
    assert msgspec.json.encode(found)


changes = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6
)


@settings(max_examples=300)
@given(st.sampled_from([ALEXNET, SHAPES]), changes, st.booleans())
def test_changed_bytes(data: bytes, places: list[tuple[float, int]], allow_unknown: bool) -> None:
    damaged = bytearray(data)
    for place, value in places:
        damaged[int(place * len(damaged))] = value
    must_end_well(bytes(damaged), allow_unknown)


@settings(max_examples=300)
@given(st.data(), st.sampled_from([ALEXNET, SHAPES]), st.booleans())
def test_changed_meaning(data: st.DataObject, model: bytes, allow_unknown: bool) -> None:
    proto = onnx.ModelProto.FromString(model)
    for _ in range(data.draw(st.integers(1, 3))):
        change(data, proto.graph)
    must_end_well(proto.SerializeToString(), allow_unknown)


def change(data: st.DataObject, graph: onnx.GraphProto) -> None:
    """One change that leaves the file readable."""
    node = graph.node[data.draw(st.integers(0, len(graph.node) - 1))]
    extreme = data.draw(st.sampled_from(EXTREME))
    kind = data.draw(st.sampled_from(["wire", "operator", "attribute", "stored", "input", "drop"]))
    if kind == "wire" and node.input:
        names = sorted({name for other in graph.node for name in (*other.input, *other.output)})
        place = data.draw(st.integers(0, len(node.input) - 1))
        node.input[place] = data.draw(st.sampled_from(names))
    elif kind == "operator":
        node.op_type = data.draw(st.sampled_from(OPERATORS))
    elif kind == "attribute" and node.attribute:
        attribute = node.attribute[data.draw(st.integers(0, len(node.attribute) - 1))]
        attribute.i = extreme
        attribute.ints.append(extreme)
        attribute.type = data.draw(st.integers(1, 14))
    elif kind == "stored" and graph.initializer:
        tensor = graph.initializer[data.draw(st.integers(0, len(graph.initializer) - 1))]
        tensor.dims.append(extreme)
        tensor.data_type = data.draw(st.integers(0, 30))
    elif kind == "input":
        dims = graph.input[0].type.tensor_type.shape.dim
        dims[data.draw(st.integers(0, len(dims) - 1))].dim_value = extreme
    elif kind == "drop" and node.input:
        del node.input[-1]


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    must_end_well(data, allow_unknown=True)
