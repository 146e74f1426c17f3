"""Networks with a loop, for the tests of this folder."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from tests.estimator.fusing import Fused, fuse_model

_VALUE = helper.make_tensor_value_info


def softmax_loop(n_trips: int) -> Fused:
    """A softmax of 100 floats, ``n_trips`` times over."""
    step = helper.make_node("Softmax", ["s"], ["t"], "softmax")
    return _looped([], step, n_trips)


def captured_loop() -> Fused:
    """100 floats to which others, negated before the loop, are added four times."""
    before = helper.make_node("Neg", ["x"], ["z"], "before")
    return _looped([before], helper.make_node("Add", ["s", "z"], ["t"], "added"), 4)


def _looped(before: list[onnx.NodeProto], step: onnx.NodeProto, n_trips: int) -> Fused:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), step],
        "body",
        [
            _VALUE("i", TensorProto.INT64, []),
            _VALUE("c", TensorProto.BOOL, []),
            _VALUE("s", TensorProto.FLOAT, [1, 100]),
        ],
        [_VALUE("d", TensorProto.BOOL, []), _VALUE("t", TensorProto.FLOAT, [1, 100])],
    )
    trips = helper.make_tensor("n", TensorProto.INT64, [], [n_trips])
    go_on = helper.make_tensor("go", TensorProto.BOOL, [], [True])
    loop = helper.make_node("Loop", ["n", "go", "x"], ["y"], "loop", body=body)
    graph = helper.make_graph(
        [*before, loop],
        "g",
        [_VALUE("x", TensorProto.FLOAT, [1, 100])],
        [_VALUE("y", TensorProto.FLOAT, [1, 100])],
        [trips, go_on],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return fuse_model(proto.SerializeToString())
