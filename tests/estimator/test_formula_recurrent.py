"""LSTM, GRU and RNN by hand."""

from __future__ import annotations

import pytest
from onnx import parser

from mansard.core.errors import ModelError
from mansard.estimator import score
from tests.estimator.models import layer


def test_lstm() -> None:
    # 5 steps, batch 3, 1 direction, 10 inputs, 8 hidden: 120 cells of 4·(10 + 8) multiply-adds
    row = layer(
        "y = LSTM<hidden_size=8>(x, w, r)",
        "float[5,3,10] x, float[1,32,10] w, float[1,32,8] r",
    )
    assert row.macs == 5 * 3 * 4 * 8 * (10 + 8)
    # a cell: 4 sums of halves, 3 sigmoids of 4, 2 tanh, 4 to update = 4 + 12 + 2 + 4 = 22
    assert row.work_flop == 2 * 8640 + 120 * 22
    assert row.output_bytes == 4 * 120


def test_bidirectional_lstm_with_bias_and_states() -> None:
    row = layer(
        'y, h, c = LSTM<hidden_size=8, direction="bidirectional">(x, w, r, b, , h0, c0)',
        "float[5,3,10] x, float[2,32,10] w, float[2,32,8] r, float[2,64] b, "
        "float[2,3,8] h0, float[2,3,8] c0",
    )
    assert row.macs == 2 * 8640
    assert row.work_flop == 2 * 2 * 8640 + 240 * 26  # a bias at each of 4 gates
    assert row.output_bytes == 4 * (240 + 48 + 48)


def test_batch_first_layout() -> None:
    row = layer(
        "y = LSTM<hidden_size=8, layout=1>(x, w, r)",
        "float[3,5,10] x, float[1,32,10] w, float[1,32,8] r",
    )
    assert row.macs == 8640


def test_gru() -> None:
    # 120 cells of 3·(10 + 8); each 3 sums, 2 sigmoids of 4, a tanh, 5 to update = 17
    row = layer(
        "y = GRU<hidden_size=8>(x, w, r)", "float[5,3,10] x, float[1,24,10] w, float[1,24,8] r"
    )
    assert row.macs == 120 * 3 * 18
    assert row.work_flop == 2 * 120 * 54 + 120 * 17


def test_rnn() -> None:
    # 120 cells of 10 + 8; each a sum and a tanh
    row = layer(
        "y = RNN<hidden_size=8>(x, w, r)", "float[5,3,10] x, float[1,8,10] w, float[1,8,8] r"
    )
    assert row.macs == 120 * 18
    assert row.work_flop == 2 * 120 * 18 + 120 * 2


def test_work_grows_with_batch_and_sequence() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[seq,batch,10] x, float[1,32,10] w, '
        "float[1,32,8] r) => (float[] y) { y = LSTM<hidden_size=8>(x, w, r) }"
    )
    data = parser.parse_model(text).SerializeToString()
    one = score(data, batch=1, dims={"seq": 1}).layers[0].macs
    many = score(data, batch=6, dims={"seq": 7}).layers[0].macs
    assert (one, many) == (4 * 8 * 18, 42 * 4 * 8 * 18)


def test_a_state_of_another_batch() -> None:
    with pytest.raises(ModelError, match=r"initial state 'h0' is \[1, 2, 8\], not \[1, 3, 8\]"):
        layer(
            "y = LSTM<hidden_size=8>(x, w, r, , , h0)",
            "float[5,3,10] x, float[1,32,10] w, float[1,32,8] r, float[1,2,8] h0",
        )


def test_weights_that_contradict() -> None:
    with pytest.raises(ModelError, match=r"weights W \[1, 32, 11\] do not fit"):
        layer(
            "y = LSTM<hidden_size=8>(x, w, r)",
            "float[5,3,10] x, float[1,32,11] w, float[1,32,8] r",
        )
