"""Backward and optimizer work by hand."""

from __future__ import annotations

from pathlib import Path

from mansard.core.records import LayerScore
from tests.estimator.models import layers


def steps(body: str, signature: str, stored: str = "") -> dict[str, LayerScore]:
    return layers(body, signature, stored, phase="training")


TWO = (
    "h = MatMul(x, w1) r = Relu(h) y = MatMul(r, w2)",
    "float[2,4] x",
    "float[4,3] w1, float[3,5] w2",
)


def test_the_first_layer_has_no_data_gradient() -> None:
    rows = steps(*TWO)
    assert rows["h"].macs == 2 * 24  # forward, weights
    assert rows["y"].macs == 3 * 30  # forward, data, weights


def test_the_optimizer_is_two_operations_for_each_weight() -> None:
    rows = steps(*TWO)
    assert rows["h"].work_flop == 2 * 48 + 2 * 12
    assert rows["y"].work_flop == 2 * 90 + 2 * 15
    assert rows["r"].work_flop == 6 + 6  # compare, mask


def test_traffic_of_a_training_step() -> None:
    # forward 32 + 48 + 24; weight gradient reads dy 24 and x 32, writes 48; SGD 2 reads, 1 write
    assert steps(*TWO)["h"].traffic_bytes == 104 + 104 + 3 * 48


def test_without_weights_there_is_no_backward_pass() -> None:
    rows = steps("h = MatMul(x, z) y = Relu(h)", "float[2,4] x, float[4,3] z")
    assert (rows["h"].macs, rows["y"].work_flop) == (24, 6)


def test_attention_products_have_two_data_gradients() -> None:
    rows = steps(
        "q = MatMul(x, w) t = Transpose<perm=[0,2,1]>(q) y = MatMul(q, t)",
        "float[1,6,4] x",
        "float[4,4] w",
    )
    assert rows["y"].macs == 3 * 6 * 6 * 4


def test_a_bias_sums_the_gradient() -> None:
    # forward 2·24 + 6; weights 2·24, two rows into one is 3 additions; 15 weights updated
    rows = steps("y = Gemm(x, w, b)", "float[2,4] x", "float[4,3] w, float[3] b")
    assert rows["y"].work_flop == 48 + 6 + 48 + 3 + 2 * 15


def test_running_statistics_are_not_updated_by_the_optimizer() -> None:
    # 24 elements: 2 + 4 forward, 11 backward, 3 roots, 2 for each of 6 weights
    rows = steps(
        "y = BatchNormalization(x, s, b, m, v)",
        "float[2,3,4] x",
        "float[3] s, float[3] b, float[3] m, float[3] v",
    )
    assert rows["y"].work_flop == 24 * 17 + 3 + 12


def test_a_recurrent_layer_runs_back_through_its_steps() -> None:
    # 5 steps of 3: inputs 15·32·10 = 4800, recurrence 15·32·8 = 3840; backward weights of both,
    # and the state's gradient over 4 of 5 steps; the data needs none
    rows = steps(
        "y = LSTM<hidden_size=8>(x, w, r)", "float[5,3,10] x", "float[1,32,10] w, float[1,32,8] r"
    )
    assert rows["y"].macs == 2 * (4800 + 3840) + 3840 * 4 // 5


def test_dropout_works_in_training_only() -> None:
    rows = steps("h = MatMul(x, w) y = Dropout(h)", "float[2,4] x", "float[4,3] w")
    assert rows["y"].work_flop == 6 + 6


def test_an_embedding_adds_its_gradient_into_the_table() -> None:
    # 3 rows of 8 are added into the table; the optimizer goes over the whole of it
    rows = steps("y = Gather(t, i)", "int64[3] i", "float[100,8] t")
    assert rows["y"].work_flop == 24 + 2 * 800


def test_the_bytes_of_a_training_step_are_those_of_the_page() -> None:
    rows = steps(
        "h = Conv<pads=[1,1,1,1]>(x, w1, b1) y = Conv<pads=[1,1,1,1]>(h, w2, b2)",
        "float[1,16,32,32] x",
        "float[16,16,3,3] w1, float[16] b1, float[16,16,3,3] w2, float[16] b2",
    )
    # X, Y, dX and dY: 16·32·32·4 = 65,536 B; W: 16·16·9·4 = 9,216 B; the bias: 64 B.
    # Read: X + W + b, dY + W, dY + X, dY, and by the update 2·(W + b).
    assert rows["y"].read_bytes == 74_816 + 74_752 + 131_072 + 65_536 + 18_560 == 364_736
    # Written: Y, dX, dW, db, and by the update W + b.
    assert rows["y"].write_bytes == 65_536 + 65_536 + 9_216 + 64 + 9_280 == 149_632
    # The first layer has no data gradient.
    assert rows["h"].read_bytes == 364_736 - 74_752
    assert rows["h"].write_bytes == 149_632 - 65_536
    page = Path(__file__).parents[2] / "docs" / "understand" / "scoring.md"
    text = page.read_text("utf-8")
    assert "| sum | `read_bytes` | 364,736 | `write_bytes` | 149,632 |" in text
    assert "`traffic_bytes` is 514,368" in text
