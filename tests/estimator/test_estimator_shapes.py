"""Shapes, types and small values against what ONNX Runtime really makes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper, parser

from mansard.estimator import score
from mansard.estimator.model import Given
from mansard.estimator.reading import read_model
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.estimator.tensors import Tensor
from tests.estimator.models import store

Arrays = dict[str, npt.NDArray[np.generic]]

# Attention as exporters write it: head counts and batch through Shape, Gather, Concat.
ATTENTION = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, seq, 32] x, int64[batch, seq] mask) => (float[batch, seq, 32] y)
<float[32,96] w, float[96] b, int64 zero = {0}, int64 one = {1}, int64[1] axis0 = {0},
 int64[1] axis1 = {1}, int64[2] axes12 = {1, 2}, int64[1] heads = {4}, int64[1] width = {8},
 int64[1] all = {32}, float scale = {0.35}, float large = {-10000.0}, float unit = {1.0}>
{
    s = Shape(x)
    n = Gather(s, zero)
    t = Gather(s, one)
    n1 = Unsqueeze(n, axis0)
    t1 = Unsqueeze(t, axis0)
    split_shape = Concat<axis=0>(n1, t1, heads, width)
    flat_shape = Concat<axis=0>(n1, t1, all)
    p = MatMul(x, w)
    qkv = Add(p, b)
    q0, k0, v0 = Split<axis=-1>(qkv)
    q1 = Reshape(q0, split_shape)
    k1 = Reshape(k0, split_shape)
    v1 = Reshape(v0, split_shape)
    q = Transpose<perm=[0,2,1,3]>(q1)
    k = Transpose<perm=[0,2,3,1]>(k1)
    v = Transpose<perm=[0,2,1,3]>(v1)
    a0 = MatMul(q, k)
    a1 = Mul(a0, scale)
    m0 = Cast<to=1>(mask)
    m1 = Unsqueeze(m0, axes12)
    m2 = Sub(unit, m1)
    m3 = Mul(m2, large)
    a2 = Add(a1, m3)
    a = Softmax<axis=-1>(a2)
    z0 = MatMul(a, v)
    z1 = Transpose<perm=[0,2,1,3]>(z0)
    y = Reshape(z1, flat_shape)
}
"""

# The arithmetic of a resize to half the input, positions by Range and Expand, a mask by
# Where and Equal, as detectors and vision transformers are exported.
ARITHMETIC = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 4, h, w] x) => (float[a, b, c, d] y, float[e, f] z, int64[i, j] grid)
<int64[1] two = {2}, int64 zero = {0}, int64 one = {1}, int64[1] axis0 = {0}, int64[1] start = {2},
 int64[1] end = {9223372036854775807}, int64[1] minus = {-1}, int64[2] corner = {0, 0},
 int64[2] last = {-1, -1}, int64[2] axes = {2, 3}, int64[1] rows = {3},
 int64[8] pads = {0, 0, 1, 2, 0, 0, 3, 4}>
{
    s = Shape(x)
    spatial = Slice(s, start, end)
    half = Div(spatial, two)
    head = Shape<start=0, end=2>(x)
    sizes = Concat<axis=0>(head, half)
    small = Resize<mode="nearest">(x, , , sizes)
    cropped = Slice(small, corner, last, axes)
    padded = Pad(cropped, pads)
    y = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(padded)
    g0 = GlobalAveragePool(x)
    z = Flatten(g0)
    h1 = Gather(spatial, zero)
    r = Range(zero, h1, one)
    h1v = Unsqueeze(h1, axis0)
    target = Concat<axis=0>(rows, h1v)
    filled = ConstantOfShape<value = int64[1] {-1}>(target)
    is_free = Equal(filled, minus)
    spread = Expand(r, target)
    grid = Where(is_free, spread, filled)
}
"""

RECURRENT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, seq, 10] x) => (float[batch, 16] y)
<float[2,32,10] w, float[2,32,8] r, float[2,64] b, int64[1] two = {2}, int64[1] eight = {8},
 int64 zero = {0}, int64[1] axis0 = {0}, int64[1] axis1 = {1}, int64[3] merged = {0, 0, -1},
 int64 last = {-1}>
{
    s = Shape(x)
    n = Gather(s, zero)
    n1 = Unsqueeze(n, axis0)
    state_shape = Concat<axis=0>(two, n1, eight)
    h0 = ConstantOfShape(state_shape)
    steps = Transpose<perm=[1,0,2]>(x)
    all, hn, cn = LSTM<hidden_size=8, direction="bidirectional">(steps, w, r, b, , h0, h0)
    sequence = Transpose<perm=[0,2,1,3]>(all)
    joined = Reshape(sequence, merged)
    y = Gather(joined, last)
}
"""

# Every part of a Split, what TopK, CumSum, OneHot and kin make of a shape, places by index.
INDEXING = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, c, h, w] x) => (float[a, b, e] y, float[k, l] z)
<int64[1] two = {2}, int64 zero = {0}, int64 four = {4}, int64[2] off_on = {0, 1},
 int64[2,1] ends = {0, 3}, int64[2] marks = {7, 8}, int64[2] around = {1, 2},
 int64[4] order = {3, 2, 1, 0}>
{
    s = Shape(x)
    n1, c1, h1, w1 = Split<axis=0>(s)
    area = Mul(h1, w1)
    target = Concat<axis=0>(n1, c1, area)
    y = Reshape(x, target)
    largest, places = TopK<sorted=1>(s, two)
    running = CumSum<exclusive=1>(s, zero)
    back = CumSum<reverse=1>(s, zero)
    hot = OneHot<axis=0>(places, four, off_on)
    lower = Trilu<upper=0>(hot)
    picked = GatherND(s, ends)
    placed = ScatterND(s, ends, marks)
    turned = GatherElements<axis=0>(s, order)
    added = ScatterElements<axis=0>(s, places, marks)
    padded = Pad(s, around)
    isbig = Greater(s, two)
    found = NonZero(isbig)
    best = ArgMax<axis=0>(s)
    odd = Mod(s, two)
    kinds, first, inverse, counts = Unique<sorted=0>(odd)
    total = ReduceSum<keepdims=1>(padded)
    z = Flatten<axis=2>(x)
}
"""

CASES: list[tuple[str, dict[str, int]]] = [
    (INDEXING, {"n": 2, "c": 3, "h": 7, "w": 5}),
    (INDEXING, {"n": 1, "c": 4, "h": 4, "w": 1}),
    (ATTENTION, {"batch": 3, "seq": 7}),
    (ATTENTION, {"batch": 1, "seq": 1}),
    (ARITHMETIC, {"n": 2, "h": 13, "w": 22}),
    (ARITHMETIC, {"n": 1, "h": 8, "w": 9}),
    (RECURRENT, {"batch": 5, "seq": 3}),
]


def run_all(proto: onnx.ModelProto, dims: Mapping[str, int]) -> Arrays:
    """Every tensor that ONNX Runtime computes, with its optimiser off."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    random = np.random.default_rng(0)
    for tensor in proto.graph.initializer:
        if not tensor.float_data and not tensor.int64_data:
            size = int(np.prod(tensor.dims))
            tensor.float_data.extend(random.normal(size=size).astype(float).tolist())
    given = {value.name for value in proto.graph.output}
    names = [name for node in proto.graph.node for name in node.output if name not in given]
    proto.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    feeds = {}
    for value in session.get_inputs():
        shape = [dims.get(size, size) for size in value.shape]
        is_integer = "int64" in value.type
        feeds[value.name] = (
            np.ones(shape, np.int64) if is_integer else random.normal(size=shape).astype(np.float32)
        )
    wanted = [value.name for value in session.get_outputs()]
    return dict(zip(wanted, session.run(wanted, feeds), strict=True))


def our_tensors(proto: onnx.ModelProto, dims: Mapping[str, int]) -> Mapping[str, Tensor]:
    model = read_model(proto.SerializeToString())
    return infer_shapes(model, bind(model, Given(dims=dims))).tensors


@pytest.mark.parametrize(("text", "dims"), CASES)
def test_every_tensor_has_the_shape_and_type_of_the_real_one(
    text: str, dims: dict[str, int]
) -> None:
    proto = store(parser.parse_model(text))
    ours, real = our_tensors(proto, dims), run_all(proto, dims)
    assert {name: ours[name].shape for name in real} == {n: a.shape for n, a in real.items()}
    assert {name: ours[name].dtype.name for name in real} == {
        name: str(array.dtype) for name, array in real.items()
    }


@pytest.mark.parametrize(("text", "dims"), CASES)
def test_values_kept_for_shapes_are_the_real_ones(text: str, dims: dict[str, int]) -> None:
    proto = store(parser.parse_model(text))
    ours, real = our_tensors(proto, dims), run_all(proto, dims)
    kept = {name: t.value for name, t in ours.items() if t.value is not None and name in real}
    assert len(kept) >= 4
    for name, value in kept.items():
        np.testing.assert_array_equal(value.array, real[name], err_msg=name)


def test_no_value_of_shape_arithmetic_is_lost() -> None:
    proto = store(parser.parse_model(INDEXING))
    ours = our_tensors(proto, {"n": 2, "c": 3, "h": 7, "w": 5})
    made = {name for node in proto.graph.node for name in node.output}
    assert {name for name in made if ours[name].value is None} == {"y", "z"}


@pytest.mark.parametrize(("text", "dims"), CASES)
def test_output_bytes_are_those_of_the_real_tensors(text: str, dims: dict[str, int]) -> None:
    proto = store(parser.parse_model(text))
    real = run_all(proto, dims)
    for row, node in zip(
        score(proto.SerializeToString(), dims=dims).layers, proto.graph.node, strict=True
    ):
        expected = sum(real[name].nbytes for name in node.output)
        assert row.output_bytes in (expected, 0)
        if row.output_bytes == 0:
            assert row.work_flop == 0


def test_shape_arithmetic_costs_nothing() -> None:
    layers = score(
        store(parser.parse_model(ATTENTION)).SerializeToString(), batch=2, dims={"seq": 4}
    ).layers
    free = {layer.name for layer in layers if layer.traffic_bytes == 0}
    assert free == {"s", "n", "t", "n1", "t1", "split_shape", "flat_shape"} | {
        *("q1", "k1", "v1", "m1", "y")  # views
    }


@pytest.mark.parametrize(
    ("body", "signature", "shape"),
    [
        ("y = SpaceToDepth<blocksize=2>(x)", "float[1,2,4,6] x", (1, 8, 2, 3)),
        ("y = CenterCropPad(x, s)", "float[10,7,3] x", (4, 9, 3)),
        ("y = Split<num_outputs=1>(x)", "float[5] x", (5,)),
    ],
)
def test_single_operators(body: str, signature: str, shape: tuple[int, ...]) -> None:
    stored = "<int64[3] s = {4, 9, 3}>"
    head = f'<ir_version: 8, opset_import: ["" : 18]> g ({signature}) => (float[] y)'
    text = f"{head} {stored} {{ {body} }}"
    assert our_tensors(store(parser.parse_model(text)), {})["y"].shape == shape
