"""What a training step keeps, what optimizers move, and recomputation, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.records import LayerScore, Optimizer
from mansard.estimator import score
from tests.estimator.models import model

# x [2, 4] · w1 [4, 3] -> h -> Relu -> r · w2 [3, 5] -> y, all of 4 bytes an element
TWO = model(
    "h = MatMul(x, w1) r = Relu(h) y = MatMul(r, w2)",
    "float[2,4] x",
    "float[4,3] w1, float[3,5] w2",
)


def rows(
    data: bytes, optimizer: Optimizer = "sgd", recompute: bool = False
) -> dict[str, LayerScore]:
    found = score(data, phase="training", optimizer=optimizer, recompute=recompute)
    return {layer.name: layer for layer in found.layers}


def peak_bytes(data: bytes, recompute: bool = False) -> int:
    found = score(data, phase="training", recompute=recompute).peak_activation_bytes
    assert found is not None
    return found


def test_products_keep_their_inputs_and_relu_its_output() -> None:
    kept = {name: row.saved_bytes for name, row in rows(TWO).items()}
    # h: x for the gradient of w1. r: its output, which y's gradient of w2 reads as well.
    assert kept == {"h": 2 * 4 * 4, "r": 2 * 3 * 4, "y": 0}


def test_inference_keeps_nothing() -> None:
    assert [layer.saved_bytes for layer in score(TWO).layers] == [0, 0, 0]


def test_additions_and_views_keep_nothing() -> None:
    found = rows(
        model(
            "h = MatMul(x, w) a = Add(h, h) f = Flatten(a) y = Sigmoid(f)",
            "float[2,4] x",
            "float[4,3] w",
        )
    )
    kept = {name: row.saved_bytes for name, row in found.items()}
    assert kept == {"h": 32, "a": 0, "f": 0, "y": 24}


def test_max_pooling_keeps_positions() -> None:
    found = rows(
        model(
            "c = Conv(x, w) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)",
            "float[1,1,4,4] x",
            "float[1,1,1,1] w",
        )
    )
    assert found["y"].saved_bytes == 2 * 2 * 8


@pytest.mark.parametrize(
    ("optimizer", "flop", "reads", "writes"),
    [
        ("none", 0, 0, 0),
        ("sgd", 2, 2, 1),
        ("momentum", 4, 3, 2),
        ("adam", 12, 4, 3),
    ],
)
def test_an_update_of_each_weight(optimizer: Optimizer, flop: int, reads: int, writes: int) -> None:
    row = rows(TWO, optimizer)["h"]  # 12 weights of 4 bytes
    still = rows(TWO, "none")["h"]
    assert row.update_flop == flop * 12
    assert row.work_flop is not None
    assert still.work_flop is not None
    assert row.work_flop - still.work_flop == flop * 12
    assert row.read_bytes is not None
    assert still.read_bytes is not None
    assert row.read_bytes - still.read_bytes == reads * 48
    assert row.write_bytes is not None
    assert still.write_bytes is not None
    assert row.write_bytes - still.write_bytes == writes * 48


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_an_optimizer_keeps_states(optimizer: Optimizer, states: int) -> None:
    found = score(TWO, phase="training", optimizer=optimizer)
    assert found.optimizer_state_bytes == states * (12 + 15) * 4


def test_recomputation_keeps_what_crosses_a_cut_and_runs_again() -> None:
    plain, again = rows(TWO), rows(TWO, recompute=True)
    # 3 nodes in segments of 2: h and r, then y. Only r crosses; h and r run again.
    assert {name: row.saved_bytes for name, row in again.items()} == {"h": 0, "r": 24, "y": 0}
    more = {name: (again[name].work_flop or 0) - (plain[name].work_flop or 0) for name in plain}
    assert more == {"h": 2 * 24, "r": 6, "y": 0}


def chain(n_layers: int) -> bytes:
    body = " ".join(f"t{i} = MatMul({f't{i - 1}' if i else 'x'}, w{i})" for i in range(n_layers))
    stored = ", ".join(f"float[8,8] w{i}" for i in range(n_layers))
    return model(f"{body} y = Identity(t{n_layers - 1})", "float[4,8] x", stored)


@given(n_layers=st.integers(2, 40))
def test_recomputation_keeps_less_and_works_at_most_once_more(n_layers: int) -> None:
    data = chain(n_layers)
    assert peak_bytes(data, recompute=True) <= peak_bytes(data)
    plain, again = rows(data).values(), rows(data, recompute=True).values()
    assert sum(row.saved_bytes or 0 for row in again) <= sum(row.saved_bytes or 0 for row in plain)
    forward = sum(row.work_flop or 0 for row in score(data).layers)
    extra = sum(r.work_flop or 0 for r in again) - sum(r.work_flop or 0 for r in plain)
    assert 0 <= extra <= forward


def test_the_peak_of_a_recomputed_step() -> None:
    # Five products of [4, 8], 128 bytes each, and a view, in two segments of three. The second
    # one has t2 from before a cut, saves t3 for the fifth product, and has the gradients of t3
    # and t4 at once; the first saves x, t0 and t1, with the gradients of t1 and t2.
    assert peak_bytes(chain(5), recompute=True) == (3 + 2) * 128
    # Without: x and t0 to t3 are saved, with the gradients of t3 and t4.
    assert peak_bytes(chain(5)) == (5 + 2) * 128


def test_a_view_is_kept_once_with_what_it_shows() -> None:
    found = rows(
        model(
            "h = MatMul(x, w) r = Relu(h) f = Flatten(r) y = MatMul(f, v)",
            "float[2,4] x",
            "float[4,3] w, float[3,5] v",
        )
    )
    assert {name: row.saved_bytes for name, row in found.items()} == {
        "h": 32,
        "r": 24,
        "f": 0,
        "y": 0,  # f is r
    }


def test_the_gradient_of_a_bias_reads_no_factor() -> None:
    data = model(
        "h = MatMul(x, w) y = Gemm(h, v, b)",
        "float[2,4] x",
        "float[4,3] w, float[3,5] v, float[5] b",
    )
    row = rows(data, "none")["y"]
    # forwards h 24, v 60, b 20; then the output's gradient 40 with v, with h, and alone
    assert row.read_bytes == 104 + (40 + 60) + (40 + 24) + 40
    assert row.write_bytes == 40 + 24 + 60 + 20


def test_a_view_has_the_gradient_of_its_source() -> None:
    data = model(
        "h = MatMul(x, w1) f = Flatten(h) y = MatMul(f, w2)",
        "float[2,4] x",
        "float[4,16] w1, float[16,1] w2",
    )
    # Saved: x of 32 bytes and h of 128. At y the gradients of y, 8 bytes, and of h; at the
    # view h's alone.
    assert peak_bytes(data) == 32 + 128 + 8 + 128
