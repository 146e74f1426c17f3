"""Scan of every version, and SequenceMap: one run for each slice or element."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from mansard.core.errors import ModelError
from mansard.estimator.model import Given
from tests.estimator.networks import check, floats, inferred, parsed, stored, times

# A recurrent cell: h = tanh(x·W + h·R), which hands on h and collects it.
CELL = stored(
    """body = b (float[n,m] h, float[n,k] x) => (float[n,m] h2, float[n,m] o)
        <float[4,3] w, float[3,3] r> {
        xw = MatMul(x, w)
        hr = MatMul(h, r)
        s = Add(xw, hr)
        h2 = Tanh(s)
        o = Identity(h2)
    }""",
    w=(4, 3),
    r=(3, 3),
)


@pytest.mark.parametrize("steps", [1, 2, 6, 33])
def test_one_run_for_each_slice(steps: int) -> None:
    proto = parsed(
        f"""g (float[t,2,4] x, float[2,3] h0) => (float[a,b] h, float[c,d,e] y) {{
            h, y = Scan<num_scan_inputs = 1, {CELL}>(h0, x) }}"""
    )
    feeds = {"x": floats(steps, 2, 4), "h0": floats(2, 3)}
    network = check(proto, feeds, Given(dims={"t": steps}))
    # the first step may start from another kind of state, so count runs only
    assert sum(runs for _, runs in times(network, "xw")) == steps
    assert {shape for shape, _ in times(network, "xw")} == {(2, 3)}


@settings(max_examples=40)
@given(
    rank=st.integers(1, 4),
    data=st.data(),
    n_steps=st.integers(1, 5),
    is_backward=st.booleans(),
)
def test_axes_and_directions(
    rank: int, data: st.DataObject, n_steps: int, is_backward: bool
) -> None:
    axis = data.draw(st.integers(-rank, rank - 1))
    out = data.draw(st.integers(-rank, rank - 1))
    shape = [2 + position for position in range(rank)]
    shape[axis] = n_steps
    attributes = (
        f"scan_input_axes = [{axis}], scan_output_axes = [{out}], "
        f"scan_input_directions = [{int(is_backward)}]"
    )
    inner = ",".join(str(size) for i, size in enumerate(shape) if i != axis % rank)
    proto = parsed(
        f"""g (float[{",".join(map(str, shape))}] x) => (float[{",".join("abcd"[:rank])}] y) {{
            y = Scan<num_scan_inputs = 1, {attributes}, body = b (float[{inner}] v)
                => (float[{inner}] o) {{ o = Exp(v) }}>(x) }}"""
    )
    network = check(proto, {"x": floats(*shape)})
    assert sum(runs for _, runs in times(network, "o")) == n_steps


def test_slices_of_known_values_steer_shapes() -> None:
    # backwards: 4, 3, 2 rows; the sum has one shape
    text = """g (float[5,3] x) => (float[a,b] y) <int64[3] ends = {2, 3, 4}> {
        y = Scan<num_scan_inputs = 1, scan_input_directions = [1], body = b (int64 e)
            => (float[3] o) {
            zero = Constant<value = int64[1] {0}>()
            end = Unsqueeze(e, zero)
            p = Slice(x, zero, end)
            o = ReduceSum<keepdims = 0>(p, zero)
        }>(ends) }"""
    network = check(parsed(text), {"x": floats(5, 3)})
    assert times(network, "p") == [((rows, 3), 1) for rows in (4, 3, 2)]


def scan_8(batch: int, steps: int, lengths: list[int] | None) -> onnx.ModelProto:
    """Version 8, which ONNX Runtime has: every sequence of a batch by itself."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["h", "x"], ["h2"], "sum"),
            helper.make_node("Exp", ["h2"], ["o"], "exp"),
        ],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("h", "x")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("h2", "o")],
    )
    name = "lengths" if lengths else ""
    node = helper.make_node("Scan", [name, "h0", "xs"], ["h", "y"], "scan", num_scan_inputs=1)
    node.attribute.append(helper.make_attribute("body", body))
    held = [helper.make_tensor("lengths", TensorProto.INT64, [batch], lengths)] if lengths else []
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("h0", TensorProto.FLOAT, [batch, 3]),
            helper.make_tensor_value_info("xs", TensorProto.FLOAT, [batch, steps, 3]),
        ],
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in ("h", "y")],
        held,
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 8)])


@pytest.mark.parametrize(("lengths", "runs"), [(None, 20), ([5, 5, 5, 5], 20), ([1, 5, 2, 3], 11)])
def test_version_8_scans_each_sequence_of_a_batch(lengths: list[int] | None, runs: int) -> None:
    proto = scan_8(4, 5, lengths)
    network = check(proto, {"h0": floats(4, 3), "xs": floats(4, 5, 3)})
    assert sum(n for _, n in times(network, "exp")) == runs
    assert {shape for shape, _ in times(network, "exp")} == {(3,)}


def test_version_8_with_lengths_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match=r"its sequence lengths do not fit \[4, 5\]"):
        inferred(scan_8(4, 5, [1, 2, 3, 6]))


@pytest.mark.parametrize(
    ("attributes", "inputs", "message"),
    [
        ("num_scan_inputs = 3", "h0, x", "3 of its 2 inputs are to be scanned"),
        ("num_scan_inputs = 0", "h0, x", "0 of its 2 inputs are to be scanned"),
        ("num_scan_inputs = 1", 'h0, ""', "inputs are to be scanned"),
        ("num_scan_inputs = 1, scan_input_axes = [3]", "h0, x", "axis 3 of a tensor with 3"),
        ("num_scan_inputs = 1, scan_input_axes = [0, 1]", "h0, x", "2 axes for 1 scanned inputs"),
        ("num_scan_inputs = 1, scan_output_axes = [0, 1]", "h0, x", "2 output axes for 1 outputs"),
        ("num_scan_inputs = 1, scan_output_axes = [7]", "h0, x", "output axis 7 of a tensor"),
        ("num_scan_inputs = 2", "x, h0", "have different lengths"),
    ],
)
def test_scans_that_contradict_themselves(attributes: str, inputs: str, message: str) -> None:
    proto = parsed(
        f"""g (float[5,2,4] x, float[2,3] h0) => (float[a,b] h, float[c,d,e] y) {{
            h, y = Scan<{attributes}, {CELL}>({inputs}) }}"""
    )
    with pytest.raises(ModelError, match=message.replace("[", r"\[")):
        inferred(proto)


def sequence_map(lengths: list[int], inputs: list[str]) -> onnx.ModelProto:
    """A matrix product for each element of a sequence that is cut from one tensor."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["left", "right"], ["o"], "product")],
        "body",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in ("left", "right")
        ],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)],
    )
    node = helper.make_node("SequenceMap", inputs, ["mapped"], "map")
    node.attribute.append(helper.make_attribute("body", body))
    nodes = [
        helper.make_node("SplitToSequence", ["x", "parts"], ["cut"], axis=0),
        helper.make_node("SplitToSequence", ["w", "three"], ["others"], axis=0),
        node,
        helper.make_node("ConcatFromSequence", ["mapped"], ["y"], axis=0),
    ]
    rows = sum(lengths)
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [3 * len(lengths), 4]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("parts", TensorProto.INT64, [len(lengths)], lengths),
            helper.make_tensor("three", TensorProto.INT64, [], [3]),
        ],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("second", ["z", "others"])
def test_a_map_runs_for_each_element(second: str) -> None:
    lengths = [5, 2, 5, 5, 2, 1]
    proto = sequence_map(lengths, ["cut", second])
    feeds = {"x": floats(20, 3), "w": floats(18, 4), "z": floats(3, 4)}
    network = check(proto, feeds)
    # elements that look alike share one pass
    assert times(network, "product") == [((5, 4), 3), ((2, 4), 2), ((1, 4), 1)]


def test_a_map_over_no_sequence() -> None:
    with pytest.raises(ModelError, match="input 0 must be a sequence"):
        inferred(sequence_map([1, 2], ["x", "z"]))


def test_a_map_over_sequences_of_different_lengths() -> None:
    proto = sequence_map([1, 2], ["cut", "others"])
    proto.graph.node[1].input[0] = "z"  # three rows: one element
    with pytest.raises(ModelError, match="its sequences have 2 and 1 elements"):
        inferred(proto)


def test_values_of_slices_are_not_invented() -> None:
    # the scanned lengths are data, so the shape has to be told
    text = """g (float[5,3] x, int64[3] ends) => (float[a,b] y) {
        y = Scan<num_scan_inputs = 1, body = b (int64 e) => (float[3] o) {
            zero = Constant<value = int64[1] {0}>()
            end = Unsqueeze(e, zero)
            p = Slice(x, zero, end)
            o = ReduceSum<keepdims = 0>(p, zero)
        }>(ends) }"""
    assert str(inferred(parsed(text)).tensors["y"].unknown) == (
        "node 'p' (Slice): dimension 'p[0]' of what it writes depends on data: "
        "pass --dim 'p[0]=N', or --upper-bounds to count at most 5"
    )
    network = inferred(parsed(text), Given(dims={"p[0]": 4}))
    assert times(network, "p") == [((4, 3), 3)]
    told = Given(values={"ends": (1, 5, 2)})
    network = check(parsed(text), {"x": floats(5, 3), "ends": np.asarray([1, 5, 2])}, told)
    assert times(network, "p") == [((1, 3), 1), ((5, 3), 1), ((2, 3), 1)]
