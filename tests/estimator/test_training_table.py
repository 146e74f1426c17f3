"""The backward pass of every operator whose derivative is listed, against a literal.

``h`` and ``k`` need a gradient (they are computed from a weight), ``x`` and ``z`` do not.
The backward work is what training counts more than inference; no weight is updated by
the last node. ``h`` and ``k`` have 24 elements unless said otherwise.
"""

from __future__ import annotations

import pytest

from mansard.core.records import LayerScore
from mansard.estimator.training.backward import _BY_NODE, PASSING, PER_OPERAND
from tests.estimator.models import layers

SIGNATURE = (
    "float[2,3,4] x, float[2,3,4] z, bool[2,3,4] c, float[4] narrow, int64[5] i, "
    "float[1,2,4,4] image, float[1,4,9] columns, float[3,4] wide"
)
STORED = (
    "float[4] w, float[4] v, float[9] nine, int64[1] last = {2}, int64[2] four = {4, 4}, "
    "int64[2] two = {2, 2}, float lo = {0.0}, float hi = {6.0}, float p1 = {1.0}, "
    "float p2 = {2.0}, float p3 = {3.0}, float p4 = {4.0}, float half = {0.5}"
)
BEFORE = (
    "h = Mul(x, w) k = Mul(z, w) few = Mul(narrow, w) pixels = Mul(image, w) "
    "patches = Mul(columns, nine) row = Mul(narrow, v) table = Mul(wide, v)"
)

# node, operations and functions of its backward pass
CASES = [
    ("Add(h, k)", 0),
    ("Add(h, few)", 20),  # 24 gradients become 4
    ("Sub(h, k)", 24),  # the subtrahend's is negated
    ("Sub(h, z)", 0),
    ("Sub(h, few)", 20 + 4),
    ("Sum(h, k, z)", 0),
    ("Div(h, k)", 24 * (1 + 3)),  # dy / b; dy·y / b and its sign
    ("Div(h, z)", 24),
    ("Div(x, k)", 24 * 3),
    ("Div(h, few)", 24 * 4 + 20),
    ("Mul(h, k)", 24 * 2),
    ("Mul(h, z)", 24),
    ("Mul(h, h)", 24 * 2),
    ("Mul(h, few)", 24 * 2 + 20),
    ("Relu(h)", 24),  # y > 0
    ("Clip(h, lo, hi)", 24 * 2),  # y > lo, y < hi
    ("Clip(h, lo)", 24),
    ("LeakyRelu(h)", 24 * 2),  # y < 0, ·a
    ("HardSigmoid(h)", 24 * 3),  # y > 0, y < 1, ·a
    ("HardSwish(h)", 24 * 5),  # x > -3, x < 3, x / 3, + 1/2, ·dy
    ("Where(c, h, k)", 24 * 2),
    ("Where(c, h, z)", 24),
    ("Sigmoid(h)", 24 * 3),  # 1 - y, ·y, ·dy
    ("Tanh(h)", 24 * 3),  # y², 1 -, ·dy
    ("Exp(h)", 24),  # ·y
    ("Log(h)", 24),  # / x
    ("Sqrt(h)", 24 * 2),  # 2·y, dy /
    ("Reciprocal(h)", 24 * 3),  # y², ·dy, sign
    ("Pow(h, p1)", 0),
    ("Pow(h, p2)", 24 * 2),  # 2·x, ·dy
    ("Pow(h, p3)", 24 * 3),  # x², ·3, ·dy
    ("Pow(h, p4)", 24 * 4),  # x³ by 2, ·4, ·dy
    ("Pow(h, half)", 24 * 3),  # a function, ·p, ·dy
    ("Pow(x, k)", 24 * 3),  # log, ·y, ·dy
    ("Erf(h)", 24 * 5),  # x², sign, exp, ·2/√π, ·dy
    ("Gelu(h)", 24 * 11),  # /√2, erf, +1, ·0.5; x², ·-0.5, exp, ·c; ·x, +, ·dy
    # u: x², ·d, +c, ·x; t = tanh u; h: +1, ·0.5; du: ·3, +c; 1 - t, ·y, ·du, +h, ·dy
    ('Gelu<approximate="tanh">(h)', 24 * 14),
    ("Softmax(h)", 24 * 4),  # dy·y, sum, difference, ·y
    ("LogSoftmax(h)", 24 * 4),  # sum, exp, product, difference
    ("MaxPool<kernel_shape=[2,2], strides=[2,2]>(pixels)", 8),  # each of 8 is added in
    ("Gather(h, i)", 5 * 12),  # 5 slices of 12 are added in
    ("Cast<to=10>(h)", 0),
    ("ReduceSum(h, last)", 0),
    ("ReduceMean(h, last)", 24),  # / 4
    ("Col2Im(patches, four, two)", 0),
    ("Neg(h)", 24),  # not listed: as forwards
    ("Sin(h)", 24),
    ("Transpose(h)", 0),
    ("Flatten(h)", 0),
    ('Einsum<equation="bij,kj->bik">(h, table)', 2 * 2 * 72),  # 2·3·3·4 multiply-adds each
    # 4 x 3·4 products: the row's gradient sums over 12, the table's over 4
    ('Einsum<equation="i,jk->ijk">(row, table)', 2 * 2 * 48),
    # the table has all labels: its gradient is 12 products, the row's 12 multiply-adds
    ('Einsum<equation="i,ji->ji">(row, table)', 2 * 12 + 12),
    # two multiply-adds each for 3·4 combinations and three operands
    ('Einsum<equation="i,ji,i->j">(row, table, few)', 3 * 2 * 2 * 12),
    ('Einsum<equation="ji->j">(table)', 0),
]


def rows(body: str) -> tuple[LayerScore, LayerScore]:
    """The last node in inference and in training."""
    inference = layers(body, SIGNATURE, STORED, opset=20)
    training = layers(body, SIGNATURE, STORED, opset=20, phase="training")
    return inference["y"], training["y"]


@pytest.mark.parametrize(("node", "flop"), CASES)
def test_backward_work_is_the_literal(node: str, flop: int) -> None:
    inference, training = rows(f"{BEFORE} y = {node}")
    assert training.work_flop is not None
    assert inference.work_flop is not None
    assert training.work_flop - inference.work_flop == flop


def test_no_derivative_is_without_a_literal() -> None:
    covered = {node.partition("(")[0].partition("<")[0] for node, _ in CASES}
    assert covered >= set(PER_OPERAND) | set(_BY_NODE) | PASSING - {"Identity"}


@pytest.mark.parametrize(
    ("node", "n_bytes"),
    [
        ("Add(h, k)", 0),
        ("Add(h, few)", 96 + 16),  # reads the gradient, writes 4 sums
        ("Sub(h, z)", 0),
        ("Sub(h, k)", 96 + 96),  # reads the gradient, writes its negative
    ],
)
def test_what_adds_passes_its_gradient_on(node: str, n_bytes: int) -> None:
    inference, training = rows(f"{BEFORE} y = {node}")
    assert training.traffic_bytes is not None
    assert inference.traffic_bytes is not None
    assert training.traffic_bytes - inference.traffic_bytes == n_bytes


@pytest.mark.parametrize(
    ("node", "reads", "writes"),
    [
        # two parts of 24 bytes have a gradient each
        ("Split<axis=1, num_outputs=2>(table)", 2 * 24, 48),
        # h has 96 bytes: the mean's 24 are read, nothing of h itself
        ("ReduceMean(h, last)", 24, 96),
        ("GlobalAveragePool(pixels)", 8, 128),
        # 8 gradients and as many positions of 8 bytes, which the forward pass writes
        ("MaxPool<kernel_shape=[2,2], strides=[2,2]>(pixels)", 32 + 64, 128 + 64),
        ("Dropout(h)", 96 + 24 + 96, 96 + 24 + 96),  # and a mask; forwards h is read and written
        ("ReduceL2(h, last)", 24 + 96, 96),  # its axes are no factor: h is needed
        ("Div(h, z)", 96 + 96, 96),  # the divisor alone
        ("Div(x, k)", 96 + 2 * 96, 96),  # both
        ("Relu(h)", 96 + 96, 96),  # the output
        ("LayerNormalization(h, v)", 96 + 96 + 16, 96 + 16),  # h and the scale
    ],
)
def test_the_backward_pass_reads_what_was_saved(node: str, reads: int, writes: int) -> None:
    outputs = "y, rest" if node.startswith("Split") else "y"
    body = f"{BEFORE} {outputs} = {node}"
    inference = layers(body, SIGNATURE, STORED, opset=18)["y"]
    training = layers(body, SIGNATURE, STORED, opset=18, phase="training")["y"]
    assert (training.read_bytes or 0) - (inference.read_bytes or 0) == reads
    assert (training.write_bytes or 0) - (inference.write_bytes or 0) == writes
