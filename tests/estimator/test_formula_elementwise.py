"""Elementwise operators, normalisations, reductions and movement by hand."""

from __future__ import annotations

import pytest

from tests.estimator.models import layer

DATA = "float[2,3,4] x"  # 24 elements


@pytest.mark.parametrize(
    ("body", "flop"),
    [
        ("y = Relu(x)", 24),
        ("y = Neg(x)", 24),
        ("y = Exp(x)", 24),
        ("y = Sigmoid(x)", 24 * 4),
        ("y = Tanh(x)", 24),
        ("y = Erf(x)", 24),
        ("y = HardSigmoid(x)", 24 * 4),
        ("y = HardSwish(x)", 24 * 5),
        ("y = LeakyRelu(x)", 24 * 2),
        ("y = Softmax(x)", 6 * 18),  # rows of 4: 3 + 4 + 4 + 3 + 4
        ("y = LRN<size=5>(x)", 24 * 9),  # 5 + 3 operations and a power
        ("y = ReduceMean<axes=[2], keepdims=0>(x)", 24 - 6 + 6),
        ("y = ReduceSum(x)", 23),
        ("y = ReduceMax<axes=[0]>(x)", 12),
        ("y = ReduceL2<axes=[2]>(x)", 24 + 18 + 6),
        ("y = ArgMax<axis=1>(x)", 24 - 8),
        ("y = Cast<to=10>(x)", 0),
        ("y = Transpose(x)", 0),
    ],
)
def test_work_of_24_elements(body: str, flop: int) -> None:
    row = layer(body, DATA)
    assert (row.macs, row.work_flop) == (0, flop)


def test_broadcasting_counts_the_result() -> None:
    row = layer("y = Add(x, z)", "float[2,1,4] x, float[3,1] z")
    assert row.work_flop == 24
    assert row.input_bytes == 4 * (8 + 3)


def test_sums_and_means_of_several() -> None:
    three = "float[24] a, float[24] b, float[24] c"
    assert layer("y = Sum(a, b, c)", three).work_flop == 48
    assert layer("y = Mean(a, b, c)", three).work_flop == 72


def test_a_power_depends_on_its_exponent() -> None:
    assert layer("y = Pow(x, p)", DATA, stored="float p = {2.0}").work_flop == 24
    assert layer("y = Pow(x, p)", DATA, stored="float p = {3.0}").work_flop == 48
    assert layer("y = Pow(x, p)", DATA, stored="float p = {0.5}").work_flop == 24  # one function


def test_clip_counts_its_bounds() -> None:
    assert (
        layer("y = Clip(x, a, b)", DATA, stored="float a = {0.0}, float b = {6.0}").work_flop == 48
    )
    assert layer("y = Clip(x, a)", DATA, stored="float a = {0.0}").work_flop == 24


def test_gelu() -> None:
    assert layer("y = Gelu(x)", DATA, opset=20).work_flop == 24 * 5
    assert layer('y = Gelu<approximate="tanh">(x)', DATA, opset=20).work_flop == 24 * 9


def test_batch_normalization_is_a_factor_and_a_summand() -> None:
    row = layer(
        "y = BatchNormalization(x, s, b, m, v)",
        "float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v",
    )
    assert row.work_flop == 48


def test_layer_normalization() -> None:
    # 7 for each of 24 elements; 6 rows of 3 operations and a root
    row = layer("y = LayerNormalization(x, s, b)", "float[2,3,4] x, float[4] s, float[4] b")
    assert row.work_flop == 24 * 7 + 6 * 4


@pytest.mark.parametrize("body", ["y = Identity(x)", "y = Flatten(x)", "y = Dropout(x)"])
def test_views_move_nothing(body: str) -> None:
    row = layer(body, DATA)
    assert (row.work_flop, row.traffic_bytes) == (0, 0)
    assert (row.input_bytes, row.output_bytes) == (96, 96)


def test_everything_else_reads_and_writes() -> None:
    assert layer("y = Transpose(x)", DATA).traffic_bytes == 192
    assert layer("y = Relu(x)", DATA).traffic_bytes == 192
    assert layer("y = Cast<to=10>(x)", DATA).traffic_bytes == 96 + 48


def test_a_tensor_read_twice_by_one_node_counts_once() -> None:
    assert layer("y = Mul(x, x)", DATA).traffic_bytes == 192


def test_gather_reads_only_its_rows() -> None:
    # 3 rows of 8 floats read and written, 3 indices of 8 bytes; the table has 1000 rows
    row = layer("y = Gather(t, i)", "float[1000,8] t, int64[3] i")
    assert row.traffic_bytes == 96 + 96 + 24
    assert row.input_bytes == 32_000 + 24


def test_resize() -> None:
    nearest = layer("y = Resize(x, , s)", "float[1,1,4,4] x", "float[4] s = {1.0, 1.0, 2.0, 2.0}")
    assert (nearest.work_flop, nearest.output_bytes) == (0, 4 * 64)
    linear = layer(
        'y = Resize<mode="linear">(x, , s)', "float[1,1,4,4] x", "float[4] s = {1.0, 1.0, 2.0, 2.0}"
    )
    assert linear.work_flop == 64 * 7  # 4 neighbours: 4 products, 3 sums


def test_quantization() -> None:
    row = layer("y = QuantizeLinear(x, s, z)", "float[2,3,4] x, float s, uint8 z")
    assert (row.work_flop, row.output_bytes) == (24 * 5, 24)
    assert layer("y = DequantizeLinear(x, s)", "int8[24] x, float s").work_flop == 24
