"""Kernels of integers: where quantisers run, stems, residuals, average pools."""

from __future__ import annotations

import onnx
import pytest
from recorded.qdq import quantize_modules, quantize_tensors

from mansard.core.precision import PRECISIONS
from mansard.estimator import zoo
from mansard.estimator.fusion.accounting import FusedGroup
from tests.estimator.fusing import Fused, fuse_model, fuse_text
from tests.estimator.models import layers, model
from tests.estimator.zoo_sessions import with_random_weights

FEATURES = "float[1,8,4,4] x"  # 128 elements
IMAGE = "float[1,3,8,8] x"  # 192 elements
STORED = "int8[8,8,1,1] w, int8[8,3,1,1] u, float s, float t, int8 z"
POOL = "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>"
PRODUCT = (  # an int8 convolution with an activation, of 1 × 1, so that the size stays
    "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear({}, s, z) "
    "c = Conv(d, v) r = Relu(c) "
)
LAST = "o = QuantizeLinear({0}, t, z) e = DequantizeLinear(o, t, z) y = {1}(e)"


def fuse_integers(body: str, signature: str = FEATURES) -> Fused:
    return fuse_text(body, signature, STORED)


def test_a_quantiser_behind_a_max_pool_runs_in_front_of_it() -> None:
    fused = fuse_integers(PRODUCT.format("w") + f"m = {POOL}(r) " + LAST.format("m", "Neg"))
    assert fused.kernels() == ["QuantizeLinear", "Conv+Relu+QuantizeLinear", "MaxPool", "Neg"]
    # 64 weights, their scale of 4 bytes and zero point of 1; a quarter of 128 is left
    assert fused.moved() == [(512, 128), (128 + 69, 128), (128, 32), (32, 128)]


@pytest.mark.parametrize("op_type", ["Flatten", "Identity"])
def test_it_does_so_behind_a_view_and_behind_two_pools(op_type: str) -> None:
    body = f"m = {POOL}(r) n = {POOL}(m) f = {op_type}(n) "
    fused = fuse_integers(PRODUCT.format("w") + body + LAST.format("f", "Neg"))
    assert fused.moved()[1:] == [(128 + 69, 128), (128, 32), (32, 8), (8, 32)]


def test_a_file_that_has_it_in_front_moves_the_same() -> None:
    behind = fuse_integers(PRODUCT.format("w") + f"m = {POOL}(r) " + LAST.format("m", "Neg"))
    front = fuse_integers(
        PRODUCT.format("w") + LAST.replace("y = {1}(e)", f"m = {POOL}(e) y = Neg(m)").format("r")
    )
    assert behind.moved() == front.moved()


def test_copies_of_a_quantiser_run_in_front_of_a_concatenation() -> None:
    average = POOL.replace("Max", "Average")
    fused = fuse_integers(
        PRODUCT.format("w")
        + f"m = {POOL}(r) n = {average}(d) k = Concat<axis = 1>(m, n) "
        + LAST.format("k", "Neg")
    )
    # Both pools write their 32 integers where the concatenation stands.
    assert fused.kernels()[1:] == [
        "Conv+Relu+QuantizeLinear", "MaxPool", "AveragePool+QuantizeLinear", "Neg",
    ]  # fmt: skip
    assert fused.moved()[2:] == [(128, 32), (128, 32), (64, 256)]


@pytest.mark.parametrize(
    "reader",
    [
        "a = Abs(m)",  # needs the floats
        "p = QuantizeLinear(m, s, z) a = DequantizeLinear(p, s, z)",  # another scale
    ],
)
def test_it_stays_behind_a_pool_that_others_read(reader: str) -> None:
    fused = fuse_integers(
        PRODUCT.format("w")
        + f"m = {POOL}(r) {reader} "
        + LAST.format("m", "Neg").replace("y", "b")
        + " y = Add(a, b)"
    )
    assert "Conv+Relu" in fused.kernels()
    assert (512, 128) in fused.moved()  # the pool


def test_it_stays_where_the_pool_is_an_output_of_the_network() -> None:
    text = PRODUCT.format("w") + f"y = {POOL}(r) o = QuantizeLinear(y, t, z)"
    fused = fuse_integers(text)
    assert fused.kernels() == ["QuantizeLinear", "Conv+Relu", "MaxPool", "QuantizeLinear"]


def test_it_stays_where_its_own_result_is_an_output_of_the_network() -> None:
    text = PRODUCT.format("w") + f"m = {POOL}(r) y = QuantizeLinear(m, t, z)"
    kernels = fuse_integers(text).kernels()
    assert kernels == ["QuantizeLinear", "Conv+Relu", "MaxPool", "QuantizeLinear"]


def test_it_stays_where_its_scale_depends_on_data() -> None:
    fused = fuse_text(
        f"m = {POOL}(x) g = ReduceMax<keepdims = 0>(m) o = QuantizeLinear(m, g, z) "
        "y = DequantizeLinear(o, g, z)",
        FEATURES,
        "int8 z",
    )
    assert fused.kernels()[0] == "MaxPool"


def test_a_convolution_of_an_image_pools_in_the_same_kernel() -> None:
    fused = fuse_integers(PRODUCT.format("u") + f"m = {POOL}(r) " + LAST.format("m", "Neg"), IMAGE)
    assert fused.kernels() == ["QuantizeLinear", "Conv+Relu+QuantizeLinear+MaxPool", "Neg"]
    # 192 elements of the image; 24 weights with scale and zero point; 8 channels of 4 × 4
    assert fused.moved() == [(768, 192), (192 + 29, 128), (128, 512)]


def test_it_does_not_in_floats_nor_with_other_activations() -> None:
    floats = fuse_text(f"c = Conv(x, k) r = Relu(c) y = {POOL}(r)", IMAGE, "float[8,3,1,1] k")
    assert floats.kernels() == ["Conv+Relu", "MaxPool"]
    text = PRODUCT.format("u").replace("Relu", "LeakyRelu")
    leaky = fuse_integers(text + f"m = {POOL}(r) " + LAST.format("m", "Neg"), IMAGE)
    assert leaky.kernels()[1:3] == ["Conv+LeakyRelu+QuantizeLinear", "MaxPool"]


def test_it_does_not_where_its_own_result_is_needed() -> None:
    fused = fuse_integers(
        PRODUCT.format("u")
        + LAST.replace("y = {1}(e)", f"m = {POOL}(e) y = Neg(m)").format("r")
        + " b = Neg(e)",
        IMAGE,
    )
    assert fused.kernels()[1:3] == ["Conv+Relu+QuantizeLinear", "MaxPool"]


def test_an_int8_convolution_of_an_image_writes_integers_or_single_precision() -> None:
    body = PRODUCT.format("u") + f"m = {POOL}(r) y = Neg(m)"
    fused = fuse_model(model(body, IMAGE, STORED), PRECISIONS["fp16"])
    # The network's input keeps its type for its quantiser; 8 × 8 × 8 elements of 4 bytes are
    # written, and a quarter of them in half precision.
    assert fused.kernels() == ["QuantizeLinear", "Conv+Relu", "MaxPool", "Neg"]
    assert fused.moved()[:3] == [(768, 192), (192 + 29 - 2, 2048), (2048, 256)]


RESIDUAL = PRODUCT.format("w") + "a = Add(r, {}) "


def test_a_sum_with_floats_is_floats_and_quantised_by_a_kernel_of_its_own() -> None:
    fused = fuse_integers(RESIDUAL.format("x") + LAST.format("a", "Neg"))
    assert fused.kernels() == [
        "QuantizeLinear", "Conv+Relu+Add", "QuantizeLinear", "Neg",
    ]  # fmt: skip
    assert fused.moved()[1:3] == [(128 + 69 + 512, 512), (512, 128)]


def test_a_sum_with_integers_is_written_as_integers() -> None:
    fused = fuse_integers(RESIDUAL.format("d") + LAST.format("a", "Neg"))
    assert fused.kernels() == ["QuantizeLinear", "Conv+Relu+Add+QuantizeLinear", "Neg"]
    assert fused.moved()[1] == (128 + 69, 128)


@pytest.mark.parametrize(
    ("addend", "reads"),
    [
        ("d", 128 + 69 + 512),  # what it multiplies, too
        ("h", 128 + 69 + 512),
    ],
)
def test_integers_that_are_added_to_floats_are_dequantised_by_a_kernel(
    addend: str, reads: int
) -> None:
    other = "p = QuantizeLinear(x, t, z) h = DequantizeLinear(p, t, z) "
    text = PRODUCT.format("w") + other + f"a = Add(r, {addend}) y = GlobalMaxPool(a)"
    fused = fuse_integers(text)
    assert fused.kernels()[2:] == ["DequantizeLinear", "Conv+Relu+Add", "GlobalMaxPool"]
    assert fused.moved()[2:] == [(128, 512), (reads, 512), (512, 32)]
    indexes = [index for group in fused.fusion.groups for index in group.indexes]
    assert sorted([*indexes, *fused.fusion.idle]) == [node.index for node in fused.nodes]


def test_readers_with_equal_quantisers_get_what_the_product_wrote() -> None:
    fused = fuse_integers(
        PRODUCT.format("w")
        + LAST.format("r", "GlobalMaxPool").replace("y", "i")
        + " p = QuantizeLinear(r, t, z) f = DequantizeLinear(p, t, z) j = GlobalAveragePool(f)"
        + " y = Add(i, j)"
    )
    assert fused.kernels()[:2] == ["QuantizeLinear", "Conv+Relu+QuantizeLinear"]
    assert fused.moved()[1:4] == [(128 + 69, 128), (128, 32), (128, 32)]


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "AveragePool<kernel_shape = [4, 4]>"])
def test_an_average_pool_of_integers_writes_integers(op_type: str) -> None:
    name = op_type.partition("<")[0]
    body = f"q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) g = {op_type}(d) "
    fused = fuse_integers(body + LAST.format("g", "Neg"))
    assert fused.kernels() == ["QuantizeLinear", f"{name}+QuantizeLinear", "Neg"]
    assert fused.moved()[1] == (128, 8)
    of_floats = fuse_integers(f"g = {op_type}(x) " + LAST.format("g", "Neg"))
    assert of_floats.moved()[:2] == [(512, 32), (32, 8)]


@pytest.mark.parametrize(
    "body",
    [
        PRODUCT.format("w") + f"m = {POOL}(r) " + LAST.format("m", "Neg"),
        # The copy in front of x is the quantiser that is there, the other one is a kernel.
        "p = QuantizeLinear(x, t, z) n = AveragePool<kernel_shape = [1, 1]>(x) "
        "k = Concat<axis = 1>(x, n) " + LAST.format("k", "Neg"),
    ],
)
def test_each_node_is_in_one_group_or_shows_one(body: str) -> None:
    fused = fuse_integers(body)
    groups: tuple[FusedGroup, ...] = fused.fusion.groups
    indexes = [index for group in groups for index in group.indexes]
    assert sorted([*indexes, *fused.fusion.idle]) == [node.index for node in fused.nodes]


def test_the_rows_of_a_score_add_up() -> None:
    text = PRODUCT.format("w") + f"m = {POOL}(r) " + LAST.format("m", "Neg")
    rows = layers(text, FEATURES, STORED)
    moved = {name: row.fused_traffic_bytes for name, row in rows.items() if row.fused_traffic_bytes}
    assert moved == {"q": 640, "c": 325, "m": 160, "y": 160}
    # The quantiser behind the pool is a part of the product that feeds the pool.
    assert rows["o"].fused_group == rows["c"].fused_group != rows["m"].fused_group


def test_two_quantisers_of_networks_lead_to_the_same_kernels() -> None:
    pytest.importorskip("onnxruntime")
    network = zoo.read("squeezenet1_1")
    weighted = with_random_weights(onnx.load_from_string(network), seed=1)
    by_runtime = fuse_model(quantize_tensors(weighted, ["Conv"]), batch=1)
    by_module = fuse_model(quantize_modules(network), batch=1)
    assert sorted(by_runtime.kernels()) == sorted(by_module.kernels())
    assert by_runtime.kernels()[1] == "Conv+Relu+QuantizeLinear+MaxPool"
    # They store scales and zero points of weights differently.
    assert by_runtime.total_bytes() == pytest.approx(by_module.total_bytes(), rel=0.01)
