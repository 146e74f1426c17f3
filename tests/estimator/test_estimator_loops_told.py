"""What a score says about loops and branches beside their rows."""

from __future__ import annotations

import onnx
from onnx import parser

from mansard.estimator import score
from tests.estimator.models import store

LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,4] x, int64 n) => (float[4,4] y)
<float[4,4] w, bool go = {1}>
{
    y = Loop(n, go, x) <body = b (int64 i, bool c, float[4,4] a) => (bool d, float[4,4] e) {
        d = Identity(c)
        e = MatMul(a, w)
    }>
}
"""


def model(text: str) -> bytes:
    proto: onnx.ModelProto = store(parser.parse_model(text))
    for node in proto.graph.node:
        node.name = node.name or "steps"
    data: bytes = proto.SerializeToString()
    return data


def test_trips_are_told_and_multiply_the_rows() -> None:
    found = score(model(LOOP), trips={"steps": 5})
    assert found.trips == {"steps": 5}
    (product,) = (layer for layer in found.layers if layer.op_type == "MatMul")
    assert (product.runs, product.macs) == (5, 5 * 4 * 4 * 4)
    assert product.scope == "steps:body"


def test_a_value_of_the_bound_gives_the_trips() -> None:
    assert score(model(LOOP), values={"n": 3}).trips == {"steps": 3}


def test_a_choice_between_branches_is_noted() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,4] x, bool c) => (float[4,4] y)
    <float[4,4] w>
    {
        y = If(c) <
            then_branch = a () => (float[4,4] p) { p = MatMul(x, w) },
            else_branch = b () => (float[4,4] q) { q = Relu(x) }
        >
    }
    """
    found = score(model(text))
    assert "steps" in found.notes[0]
    assert [layer.op_type for layer in found.alternatives] == ["Relu"]
    assert sum(layer.macs or 0 for layer in found.layers) == 64
