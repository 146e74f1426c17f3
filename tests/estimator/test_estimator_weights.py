"""What counts as a parameter, to which layer it belongs, and what it weighs."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper, parser

from mansard.estimator import score, totals
from tests.estimator.models import layers, model, store


def test_initialisers() -> None:
    rows = layers("y = Gemm(x, w, b)", "float[2,4] x", "float[4,3] w, float[3] b")
    assert (rows["y"].parameters, rows["y"].weight_bytes) == (15, 60)
    assert rows["y"].input_bytes == 32
    assert rows["y"].traffic_bytes == 32 + 60 + 24


def test_a_shared_weight_belongs_to_its_first_user_and_is_read_by_both() -> None:
    rows = layers("h = MatMul(x, w) y = MatMul(h, w)", "float[2,4] x", "float[4,4] w")
    assert (rows["h"].parameters, rows["y"].parameters) == (16, 0)
    assert rows["h"].traffic_bytes == rows["y"].traffic_bytes == 32 + 64 + 32


def test_weights_behind_other_nodes() -> None:
    # stored as [3, 4], used through Identity and Transpose; the moves are done once, beforehand
    rows = layers(
        "i = Identity(w) t = Transpose(i) y = MatMul(x, t)", "float[2,4] x", "float[3,4] w"
    )
    assert rows["y"].parameters == 12
    assert (rows["t"].traffic_bytes, rows["t"].parameters) == (0, 0)


def test_a_fill_with_a_stored_shape_is_a_weight_but_an_initial_state_is_not() -> None:
    rows = layers(
        "w = ConstantOfShape(ws) h = ConstantOfShape(hs) "
        "y = LSTM<hidden_size=8>(x, w, r, , , h, h)",
        "float[5,3,10] x",
        "int64[3] ws = {1, 32, 10}, int64[3] hs = {1, 3, 8}, float[1,32,8] r",
    )
    assert rows["y"].parameters == 32 * 10 + 32 * 8


def test_a_fill_with_a_computed_shape_is_no_weight() -> None:
    rows = layers("s = Shape(x) z = ConstantOfShape(s) y = Add(x, z)", "float[2,4] x")
    assert rows["y"].parameters == 0
    assert rows["y"].input_bytes == 64


def test_constants_of_formulas_are_no_weights() -> None:
    rows = layers(
        "half = Constant<value = float {0.5}>() one = Constant<value = float[1] {1.0}>() "
        "a = Mul(x, half) b = Add(a, one) y = Pow(b, two)",
        "float[2,4] x",
        "float two = {2.0}",
    )
    assert sum(row.parameters or 0 for row in rows.values()) == 0


def test_constant_nodes_hold_weights_too() -> None:
    array = np.ones((4, 3), np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(array)),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]))
    rows = score(model.SerializeToString()).layers
    assert [row.parameters for row in rows] == [0, 12]


def test_running_statistics_are_stored_but_not_learned() -> None:
    rows = layers(
        "y = BatchNormalization(x, s, b, m, v)",
        "float[2,3,4] x",
        "float[3] s, float[3] b, float[3] m, float[3] v",
    )
    assert (rows["y"].parameters, rows["y"].weight_bytes) == (6, 48)


def test_integers_are_indices_and_keep_their_width() -> None:
    rows = layers(
        "y = Gather(t, i)", "float[5] unused", "float[100,8] t, int64[3] i", precision="fp16"
    )
    # constant from constants: nothing is left to do at run time
    assert (rows["y"].parameters, rows["y"].traffic_bytes) == (0, 0)
    rows = layers("y = Gather(t, i)", "int64[3] i", "float[100,8] t", precision="fp16")
    assert (rows["y"].parameters, rows["y"].weight_bytes) == (800, 1600)
    assert rows["y"].input_bytes == 24
    assert rows["y"].traffic_bytes == 48 + 48 + 24


def test_quantised_weights_count_through_dequantisation() -> None:
    rows = layers(
        "w = DequantizeLinear<axis=1>(q, s, z) y = MatMul(x, w)",
        "float[2,4] x",
        "int8[4,3] q, float[3] s, int8[3] z",
    )
    assert (rows["y"].parameters, rows["y"].weight_bytes) == (12, 12)


def test_a_size_of_a_resize_is_no_weight() -> None:
    rows = layers("y = Resize(x, , s)", "float[1,1,4,4] x", "float[4] s = {1.0, 1.0, 2.0, 2.0}")
    assert rows["y"].parameters == 0


def test_weights_listed_among_the_inputs_are_still_weights() -> None:
    text = (
        '<ir_version: 3, opset_import: ["" : 9]> g (float[2,4] x, float[4,3] w) => (float[2,3] y) '
        "<float[4,3] w> { y = MatMul(x, w) }"
    )
    total = totals(score(store(parser.parse_model(text)).SerializeToString(), batch=7))
    assert total.parameters == 12
    assert total.macs == 7 * 12


def test_a_network_s_precision_is_that_of_most_of_its_multiply_adds() -> None:
    # Both factors are dequantised, so the product is of int8, whatever floats count as.
    quantised = model(
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) m = DequantizeLinear(w, s, z) "
        "y = MatMul(d, m)",
        "float[5,3] x",
        "float s = {0.5}, int8 z = {0}, int8[3,4] w",
    )
    assert score(quantised, precision="fp16").precision == "int8"
    plain = model("y = MatMul(x, w)", "float[5,3] x", "float[3,4] w")
    assert score(plain, precision="fp16").precision == "fp16"
    without = model("y = Relu(x)", "float[5,3] x")
    assert score(without, precision="fp16").precision == "fp16"
