"""What a loop hands from iteration to iteration, and what only looks as if it were data."""

from __future__ import annotations

from pathlib import Path

import onnx

from mansard.estimator import score, totals
from tests.estimator.networks import parsed, stored

# As Keras writes a SimpleRNN: a state that starts as stored zeros, weights handed on.
RECURRENT = stored(
    """g (float[5,4] x) => (float[1,4] y, float[4,4] r)
        <int64 n = {5}, float[4,4] w, float[1,4] zeros> {
        y, r = Loop(n, "", zeros, w) <body = b (int64 i, bool c, float[1,4] h, float[4,4] u)
            => (bool d, float[1,4] h2, float[4,4] u2) {
            d = Identity(c)
            p = MatMul(h, u)
            row = Gather(x, i)
            h2 = Add(p, row)
            u2 = Identity(u)
        }> }""",
    w=(4, 4),
    zeros=(1, 4),
)


def recurrent() -> onnx.ModelProto:
    return parsed(RECURRENT)


def test_the_first_iteration_computes_with_a_stored_state_as_all_others_do() -> None:
    # 1 x 4 meets 4 x 4 in each of 5 iterations
    assert totals(score(recurrent().SerializeToString())).macs == 5 * 4 * 4


def test_weights_that_are_handed_on_are_weights_but_a_state_that_changes_is_none() -> None:
    found = totals(score(recurrent().SerializeToString()))
    assert found.parameters == 4 * 4
    assert found.weight_bytes == 4 * 4 * 4


def test_a_counter_is_computed_in_every_iteration() -> None:
    text = """g (float[3] x, int64 m) => (float[3] y, int64 k) <int64 one = {1}> {
        y, k = Loop(m, "", x, one) <body = b (int64 i, bool c, float[3] h, int64 j)
            => (bool d, float[3] h2, int64 j2) {
            d = Identity(c) h2 = Neg(h) j2 = Add(j, one)
        }> }"""
    source = parsed(text).SerializeToString()
    rows = {row.op_type: row for row in score(source, values={"m": 4}).layers}
    # 4 times: two numbers of 8 bytes are read, one is written
    assert rows["Add"].work_flop == 4
    assert rows["Add"].traffic_bytes == 4 * 3 * 8


def test_of_what_a_constant_is_cast_like_only_the_type_is_of_interest() -> None:
    # sizes [2, 3], cast like an input whose data nobody knows, still tell the shape
    text = """g (float[1,3] x, int64[1] like) => (float[a,b] y) <int32[2] sizes = {2, 3}> {
        known = CastLike(sizes, like)
        y = Expand(x, known) }"""
    rows = score(parsed(text).SerializeToString()).layers
    assert rows[0].traffic_bytes == 0
    assert rows[1].output_bytes == 2 * 3 * 4


def test_a_path_may_be_text(tmp_path: Path) -> None:
    path = tmp_path / "loop.onnx"
    onnx.save(recurrent(), path)
    assert score(str(path)) == score(path)
