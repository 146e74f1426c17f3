"""Networks with a loop, for the tests of this folder."""

from __future__ import annotations

from onnx import TensorProto, helper

from tests.estimator.fusing import Fused, fuse_model

_VALUE = helper.make_tensor_value_info


def softmax_loop(n_trips: int) -> Fused:
    """A softmax of 100 floats, ``n_trips`` times over."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Softmax", ["s"], ["t"], "softmax"),
        ],
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
        [loop],
        "g",
        [_VALUE("x", TensorProto.FLOAT, [1, 100])],
        [_VALUE("y", TensorProto.FLOAT, [1, 100])],
        [trips, go_on],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return fuse_model(proto.SerializeToString())
