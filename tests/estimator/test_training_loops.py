"""Training of weights inside a loop."""

from __future__ import annotations

import pytest

from mansard.estimator import score, totals
from tests.estimator.networks import parsed, stored

# The state grows by its first row, so that no two iterations have the same shapes.
GROWING = """g (float[2,16] x) => (float[a,b] y) <int64 n = {3}, bool yes = {1}, float[16,16] w> {
    y = Loop(n, yes, x) <body = b (int64 i, bool c, float[p,q] h) => (bool d, float[p2,q2] e)
        <int64[1] first = {0}> {
            d = Identity(c) r = MatMul(h, w) s = Gather <axis = 0> (r, first) e = OTHER
        }> }"""


@pytest.mark.parametrize("other", ["Concat <axis = 0> (r, s)", "Add(r, s)"])
def test_a_weight_in_a_loop_is_updated_once(other: str) -> None:
    model = parsed(stored(GROWING.replace("OTHER", other), w=(16, 16)))
    found = totals(score(model.SerializeToString(), phase="training", optimizer="sgd"))
    # w -= rate · gradient: two operations for each of the 16 · 16 parameters.
    assert found.parameters == 256
    assert found.update_flop == 512
