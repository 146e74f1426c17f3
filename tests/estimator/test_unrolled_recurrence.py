"""A recurrence that is written out costs what it costs in a Loop, its first step too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from mansard.estimator import score, totals
from tests.estimator.models import store

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
HIDDEN = 4
STORED = "float[4,4] u, float[4] g, float[4] k, float[8,4] v"
# One step of each cell from the state s and the input x to t; {i} tells its tensors apart.
CELLS = {
    "tanh": "a{i} = MatMul({s}, u) b{i} = Add(a{i}, x) {t} = Tanh(b{i})",
    "bias": "a{i} = Gemm({s}, u, g) b{i} = Add(a{i}, x) {t} = Tanh(b{i})",
    "transposed": "m{i} = Transpose<perm=[1,0]>(u) a{i} = MatMul({s}, m{i}) b{i} = Add(a{i}, x) "
    "{t} = Tanh(b{i})",
    "normalised": "n{i} = LayerNormalization({s}, g, k) a{i} = MatMul(n{i}, u) "
    "b{i} = Add(a{i}, x) {t} = Tanh(b{i})",
    "gates": "a{i} = Gemm<transB=1>({s}, v) p{i}, q{i} = Split<axis=1>(a{i}) r{i} = Add(p{i}, x) "
    "z{i} = Sigmoid(r{i}) c{i} = Tanh(q{i}) {t} = Mul(z{i}, c{i})",
}
ZEROS = {
    "stored": ("h = Identity(zeros)", ", float[2,4] zeros"),
    "filled": ("n = Shape(x) h = ConstantOfShape(n)", ""),
    "expanded": ("n = Shape(x) o = Constant<value = float[1] {0}>() h = Expand(o, n)", ""),
}
COUNTS = ("macs", "work_flop", "traffic_bytes", "parameters", "weight_bytes")


def counts(text: str, stored: str) -> dict[str, int | None]:
    body = f"g (float[2,4] x) => (float[2,4] y) <{STORED}{stored}> {{ {text} }}"
    data = store(parser.parse_model(f"{HEAD} {body}")).SerializeToString()
    found = totals(score(data))
    return {name: getattr(found, name) for name in COUNTS}


def unrolled(cell: str, n: int, state: str) -> dict[str, int | None]:
    start, stored = ZEROS[state]
    names = ["h", *(f"h{i}" for i in range(1, n)), "y"]
    steps = [CELLS[cell].format(i=i, s=names[i], t=names[i + 1]) for i in range(n)]
    return counts(f"{start} {' '.join(steps)}", stored)


def looped(cell: str, n: int, state: str) -> dict[str, int | None]:
    start, stored = ZEROS[state]
    step = CELLS[cell].format(i=0, s="s", t="t")
    body = (
        f"b (int64 i, bool c, float[2,4] s) => (bool d, float[2,4] t) {{ d = Identity(c) {step} }}"
    )
    return counts(
        f'{start} y = Loop(n_steps, "", h) <body = {body}>', f"{stored}, int64 n_steps = {{{n}}}"
    )


@pytest.mark.parametrize("state", ZEROS)
@pytest.mark.parametrize("cell", CELLS)
@given(n=st.integers(2, 6))
def test_each_step_costs_what_it_costs_in_a_loop(cell: str, state: str, n: int) -> None:
    ours, expected = unrolled(cell, n, state), looped(cell, n, state)
    assert ours == expected
    # 2 rows of 4 hidden elements by 4 (or 8, with two gates) outputs
    assert ours["macs"] == n * 2 * 4 * (8 if cell == "gates" else 4)


def test_positions_beside_data_stay_constant() -> None:
    # as in DeBERTa: one matrix projects the data and, once for all, the positions
    text = """p = MatMul(zeros, u) q = MatMul(x, u) r = Transpose<perm=[1,0]>(p)
        w = MatMul(q, r) y = MatMul(w, x)"""
    found = counts(text, ", float[2,4] zeros")
    # q: 2·4·4, w: 2·4·2, y: 2·2·4
    assert found["macs"] == 32 + 16 + 16


def test_weights_that_are_multiplied_stay_constant() -> None:
    # a low-rank update that was not merged
    text = "m = MatMul(a, b) w = Add(u, m) h = MatMul(x, w) y = MatMul(h, w)"
    assert counts(text, ", float[4,1] a, float[1,4] b")["macs"] == 2 * 2 * 4 * 4
