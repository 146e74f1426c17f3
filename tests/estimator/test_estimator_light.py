"""The nine light models inside the onnx package, whose weights are ConstantOfShape nodes."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from mansard.core.errors import ModelError
from mansard.estimator import score, totals

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
SHARED = Path(__file__).resolve().parents[3] / "shared/data/onnx/torch_flop_counter.json"

PRODUCT_FLOP = {
    "bvlc_alexnet": 1_309_120_768,
    "densenet121": 5_668_323_328,
    "inception_v1": 2_863_112_704,
    "inception_v2": 4_037_703_680,
    "resnet50": 8_178_368_512,
    "shufflenet": 249_329_056,
    "squeezenet": 698_303_872,
    "vgg19": 39_264_124_928,
    "zfnet512": 2_963_454_016,
}


def light(name: str) -> Path:
    return LIGHT / f"light_{name}.onnx"


@pytest.mark.parametrize("name", PRODUCT_FLOP)
def test_flop_of_convolutions_and_matrix_products(name: str) -> None:
    layers = score(light(name)).layers
    macs = sum(layer.macs or 0 for layer in layers if layer.op_type in ("Conv", "Gemm", "MatMul"))
    assert 2 * macs == PRODUCT_FLOP[name]


@pytest.mark.parametrize("name", PRODUCT_FLOP)
def test_nothing_else_counts_as_multiply_adds(name: str) -> None:
    total = totals(score(light(name)))
    assert total.macs == PRODUCT_FLOP[name] // 2
    assert total.work_flop is not None
    assert total.work_flop > PRODUCT_FLOP[name]
    assert total.n_unknown_layers == 0


def test_learned_parameters_hidden_in_filled_tensors() -> None:
    # torchvision's figures; ResNet-50 keeps 53,120 running means and variances beside them.
    total = totals(score(light("resnet50")))
    assert total.parameters == 25_557_032
    assert total.weight_bytes == 4 * (25_557_032 + 53_120)
    assert totals(score(light("vgg19"))).parameters == 143_667_240
    assert totals(score(light("squeezenet"))).parameters == 1_235_496


def test_constants_cost_nothing() -> None:
    filled = [layer for layer in score(light("vgg19")).layers if layer.op_type == "ConstantOfShape"]
    assert len(filled) == 36
    assert {(layer.work_flop, layer.traffic_bytes, layer.parameters) for layer in filled} == {
        (0, 0, 0)
    }


def test_a_fixed_batch_can_be_changed_where_no_reshape_forbids_it() -> None:
    one, five = score(light("squeezenet")), score(light("squeezenet"), batch=5)
    assert (one.batch, five.batch) == (1, 5)
    assert totals(five).macs == 5 * (totals(one).macs or 0)
    assert totals(five).parameters == totals(one).parameters


def test_a_batch_baked_into_a_reshape_is_said() -> None:
    # shufflenet reshapes to [1, groups, …] with the batch written out.
    with pytest.raises(ModelError, match=r"Reshape.*cannot reshape.*batch") as caught:
        score(light("shufflenet"), batch=2)
    assert "export the model" in str(caught.value)


def test_half_precision_halves_all_bytes_of_floats() -> None:
    full, half = totals(score(light("vgg19"))), totals(score(light("vgg19"), precision="fp16"))
    assert half.weight_bytes == 2 * 143_667_240
    assert half.work_flop == full.work_flop
    assert full.traffic_bytes is not None
    assert half.traffic_bytes == full.traffic_bytes // 2


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["vgg19", "resnet50", "densenet121"])
def test_torch_counts_the_same_forward_and_in_training(name: str) -> None:
    if not SHARED.is_file():
        pytest.skip("shared/data/onnx/torch_flop_counter.json is not here")
    recorded = json.loads(SHARED.read_text())[f"tv_{name}"]
    forward = totals(score(light(name))).macs
    training = totals(score(light(name), phase="training")).macs
    assert forward is not None
    assert training is not None
    assert 2 * forward == recorded["fwd_fixed_b1"]
    assert 2 * training == pytest.approx(recorded["train_fixed_b1"], rel=0.005)
