"""Work and parameters of the zoo against hand arithmetic, published figures and torch's counters.

The counter here is independent of the scorer: a few lines over onnx's own shape inference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import ModelProto, NodeProto, numpy_helper, shape_inference

from mansard.estimator import zoo
from tools.zoo import llama
from tools.zoo.serialise import to_model

_SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "onnx"
_WORK = {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU"}
_Shapes = Mapping[str, tuple[int, ...]]


def _fix(model: ModelProto, dims: Mapping[str, int]) -> ModelProto:
    """A copy with the free dimensions fixed and every intermediate shape inferred."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in (*fixed.graph.input, *fixed.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
            elif dim.dim_param:  # a sum, of past and new tokens, that inference finds
                dim.Clear()
    return shape_inference.infer_shapes(fixed, check_type=True, strict_mode=True, data_prop=True)


def _shapes(model: ModelProto) -> _Shapes:
    graph = model.graph
    known = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            known[value.name] = tuple(dim.dim_value for dim in dims)
    return known


def _macs(node: NodeProto, shapes: _Shapes) -> int:
    first, second = (shapes[name] for name in node.input[:2])
    match node.op_type:
        case "Conv":
            return prod(shapes[node.output[0]]) * prod(second[1:])
        case "ConvTranspose":
            return prod(first) * prod(second[1:])
        case "Gemm" | "MatMul":
            return prod(shapes[node.output[0]]) * first[-1]
        case "LSTM" | "GRU":
            # Every step multiplies [inputs + hidden] by all gates, in each direction.
            steps, batch, inputs = first
            directions, gates, _ = second
            hidden = gates // (4 if node.op_type == "LSTM" else 3)
            return steps * batch * directions * gates * (inputs + hidden)
    raise AssertionError(node.op_type)


def _count_macs(name: str, **dims: int) -> tuple[int, int]:
    """MACs with weights, and MACs of two activations (attention)."""
    return _count(onnx.load_from_string(zoo.read(name)), dict(zoo.entry(name).dims) | dims)


def _count(free: ModelProto, dims: Mapping[str, int]) -> tuple[int, int]:
    model = _fix(free, dims)
    shapes = _shapes(model)
    kept = {tensor.name for tensor in model.graph.initializer}
    kept |= {n.output[0] for n in model.graph.node if n.op_type == "ConstantOfShape"}
    kept |= {n.output[0] for n in model.graph.node if n.input and n.input[0] in kept}
    work = [n for n in model.graph.node if n.op_type in _WORK]
    counts = [(_macs(node, shapes), node.input[1] in kept) for node in work]
    return sum(n for n, weighted in counts if weighted), sum(n for n, w in counts if not w)


def _n_parameters(model: ModelProto) -> int:
    """What training changes: weights without the running means and variances."""
    graph = model.graph
    integers = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    running = {i for n in graph.node if n.op_type == "BatchNormalization" for i in n.input[3:]}
    weights = [n for n in graph.node if n.op_type == "ConstantOfShape"]
    drawn = sum(prod(integers[n.input[0]].tolist()) for n in weights if n.output[0] not in running)
    floats = (values for values in integers.values() if values.dtype.kind == "f")
    return int(drawn + sum(values.size for values in floats))


def _n_parameters_of(name: str) -> int:
    return _n_parameters(onnx.load_from_string(zoo.read(name)))


# FLOP (two a multiply-add) at batch 1 and the default sequence: with weights, and between
# two activations (attention). Where a comment counts, it counts multiply-adds; where there
# is none, the number is torch's (torch.utils.flop_counter on the network of torchvision).
_FLOP = {
    # 55²·64·3·11² + 27²·192·64·5² + 13²·(384·192 + 256·384 + 256·256)·3²
    #   + 9216·4096 + 4096² + 4096·1000 = 714,188,480
    "alexnet": (1_428_376_960, 0),
    # A layer has 4·768² + 2·768·3072 = 7,077,888 a token; 12 layers, 128 tokens, and the
    # pooler's 768²: 10,872,225,792. Attention: 12 · 2 · 128²·768 = 301,989,888.
    "bert_base": (21_744_451_584, 603_979_776),
    # The same with 24 layers of 4·1024² + 2·1024·4096 = 12,582,912.
    "bert_large": (77_311_508_480, 1_610_612_736),
    "densenet121": (5_668_323_328, 0),
    "efficientnet_b0": (771_629_504, 0),
    "efficientnet_b1": (1_373_605_664, 0),
    "efficientnet_b2": (2_175_058_912, 0),
    "googlenet": (2_996_752_384, 0),
    # BERT's layers, then 50,257 scores a token: 128 · (12 · 7,077,888 + 768 · 50,257)
    "gpt2": (31_624_200_192, 603_979_776),
    # A step: 3·256 gates · ((128 + 256) + (256 + 256)) = 688,128; 50 steps of it, and 256·10.
    "gru": (68_817_920, 0),
    # torch's counter on timm's inception_resnet_v2.
    "inception_resnet_v2": (26_311_588_032, 0),
    "inception_v3": (11_426_432_192, 0),
    # torch's counter on timm's inception_v4.
    "inception_v4": (24_507_949_248, 0),
    # A step: 2 directions · 4·256 gates · ((128 + 256) + (512 + 256)) = 2,359,296; 50 steps
    # of it, and 512·10.
    "lstm": (235_939_840, 0),
    "mnasnet0_5": (208_911_936, 0),
    "mnasnet1_0": (628_831_744, 0),
    # 112²·32·27 = 10,838,016; 1 × 1: v = 14²·256·512 = 25,690,112, in the order of the blocks
    # (1 + 1 + 2 + 1 + 2 + 1 + 5·2 + 1 + 2) v; 3 × 3, by channel: 9 · 1,931,776; 1024·1000.
    "mobilenet_v1": (1_137_480_704, 0),
    "mobilenet_v2": (601_548_544, 0),
    "mobilenet_v3_large": (433_179_520, 0),
    "mobilenet_v3_small": (113_020_800, 0),
    # As RegNetX-400MF, with 9·48·n for n = 2, 6, 15, 2; 1008·1000.
    "regnet_x_3_2gf": (6_353_243_904, 0),
    # Stem 112²·32·27; a stage of n blocks of w channels after v, at side s: its first block
    # s²·w·(4v + v + w + 9·16), another s²·w·(2w + 9·16); together s²·w·(5v + (2n - 1)·w + 9·16·n):
    # 56²·32·336 + 28²·64·640 + 14²·160·3408 + 7²·400·11,728; 400·1000.
    "regnet_x_400mf": (827_625_216, 0),
    "regnet_x_800mf": (1_599_399_424, 0),
    "regnet_y_1_6gf": (3_224_152_320, 0),
    "regnet_y_400mf": (803_685_696, 0),
    "regnet_y_800mf": (1_667_712_512, 0),
    # As ResNet-50 below, with n = 4, 23, 3: (52 + 80 + 403 + 63) u.
    "resnet101": (15_602_810_880, 0),
    # n = 8, 36, 3: (52 + 148 + 624 + 63) u.
    "resnet152": (23_027_253_248, 0),
    # u = 56²·64·64·3² = 115,605,504. Stem 112²·64·3·7²; stage 1: 4u; each later stage, at half
    # the side and twice the width: 3.5u and a 1 × 1 shortcut of u/18; 512·1000.
    "resnet18": (3_628_146_688, 0),
    # The same u and shortcuts; stage 1: 6u; a later stage of n blocks: (2n - 1/2) u, n = 4, 6, 3.
    "resnet34": (7_327_522_816, 0),
    # u = 56²·64² = 12,845,056. Stem as above; stage 1: (1 + 9 + 4 + 4) + 2 · (4 + 9 + 4) = 52u;
    # a later stage of n blocks: (8 + 9 + 4 + 8) + (n - 1) · 17, n = 4, 6, 3: 257u; 2048·1000.
    "resnet50": (8_178_368_512, 0),
    "shufflenet_v2_x0_5": (80_952_896, 0),
    "shufflenet_v2_x1_0": (289_815_984, 0),
    "squeezenet1_0": (1_637_849_152, 0),
    "squeezenet1_1": (698_303_872, 0),
    # torch's counter on the backbone and the heads.
    "ssdlite320_mobilenet_v3_large": (1_166_343_808, 0),
    # Attention: 2 · 49 · 3136 · 96 · (2 + 2/2 + 6/4 + 2/8), since at half the side there are a
    # quarter of the cells and twice the features. All together 8,981,133,312 by torch.
    "swin_t": (8_700_850_176, 280_283_136),
    # A layer has 2·2048² + 2·2048·256 + 3·2048·5632 = 44,040,192 a token; 22 layers, and
    # 2048·32,000 scores: 128 · 1,034,420,224. Attention: 22 · 2 · 128²·2048.
    "tinyllama_1_1b": (264_811_577_344, 2_952_790_016),
    # u = 256²·64²·3² = 2,415,919,104. Down: (3/64 + 1) + 4 · (1/2 + 1); up: 4 · (2/9 + 2 + 1);
    # 256²·64·2.
    "unet": (96_343_162_880, 0),
    # u = 224²·64²·3² = 1,849,688,064: (3/64 + 1) + (1/2 + 1) + 2 · (1/2 + 1 + 1) + 3/4 = 8.296875u;
    # 25,088·4096 + 4096² + 4096·1000.
    "vgg16": (30_940_528_640, 0),
    # One convolution more of u, u and u/4: 10.546875u.
    "vgg19": (39_264_124_928, 0),
    # 196 patches of 768·768, 12 · 7,077,888 for each of 197 tokens, 768·1000; 12 · 2 · 197²·768
    "vit_b_16": (33_697_001_472, 1_430_654_976),
    "yolov8n": (8_743_987_200, 0),
    "yolov8s": (28_602_624_000, 0),
}

_PARAMETERS_BY_HAND = {
    # 3 · 256 · ((128 + 256 + 2) + (256 + 256 + 2)) + 256·10 + 10
    "gru": 693_770,
    # 2 · 1024 · ((128 + 256 + 2) + (512 + 256 + 2)) + 512·10 + 10
    "lstm": 2_372_618,
    # 3 × 3 without bias, w·w·9 = 36,864 at width 64: down 3·64·9 + 36,864 + 1.5 · 36,864 ·
    # (4 + 16 + 64 + 256); up (2 + 1) · 36,864 · (1 + 4 + 16 + 64); 2 × 2: 8 · 64² · 85 + 960;
    # scales and biases: 4 · (64 + … + 1024) + 4 · (64 + … + 512); 64·2 + 2.
    "unet": 31_037_698,
}

# As torch and torchvision name the same networks in the recorded counts.
_TORCH_NAMES = {
    "alexnet": "tv_alexnet",
    "bert_base": "hf_bert_base",
    "bert_large": "hf_bert_large",
    "densenet121": "tv_densenet121",
    "efficientnet_b0": "tv_efficientnet_b0",
    "googlenet": "tv_googlenet",
    "gpt2": "hf_gpt2",
    "gru": "gru",
    "inception_v3": "tv_inception_v3",
    "lstm": "lstm_bi",
    "mnasnet1_0": "tv_mnasnet1_0",
    "mobilenet_v2": "tv_mobilenet_v2",
    "mobilenet_v3_large": "tv_mobilenet_v3_large",
    "regnet_y_400mf": "tv_regnet_y_400mf",
    "resnet50": "tv_resnet50",
    "shufflenet_v2_x1_0": "tv_shufflenet_v2_x1_0",
    "squeezenet1_0": "tv_squeezenet1_0",
    "swin_t": "tv_swin_t",
    "vgg19": "tv_vgg19",
    "vit_b_16": "tv_vit_b_16",
    "yolov8n": "yolov8n_like",
}
# torch's counter leaves attention out where it runs as one fused operator.
_WITHOUT_ATTENTION = {"bert_base", "bert_large", "gpt2"}
# The box decoder's 16 fixed numbers are no parameter there.
_FIXED_NUMBERS = {"yolov8n": 16}


@pytest.mark.parametrize("name", zoo.names())
def test_flop_equals_the_hand_count(name: str) -> None:
    with_weights, between = _count_macs(name)
    assert (2 * with_weights, 2 * between) == _FLOP[name]


@pytest.mark.parametrize("name", zoo.names())
def test_work_is_proportional_to_the_batch(name: str) -> None:
    once, thrice = _count_macs(name), _count_macs(name, batch=3)
    assert thrice == (3 * once[0], 3 * once[1])


def test_work_grows_with_the_sequence() -> None:
    # 64 tokens of 84,934,656 and the pooler; a quarter of the attention of 128 tokens.
    assert _count_macs("bert_base", sequence=64) == (5_436_407_808, 75_497_472)
    # 100 steps in place of 50: 235,929,600 + 5,120.
    assert _count_macs("lstm", sequence=100) == (235_934_720, 0)


# Half the last digit of what is published, where that is not three of a giga-multiply-add;
# the detectors' source rounds to 0.1 GFLOP.
_ROUNDING = {
    "inception_resnet_v2": 0.05e9,
    "inception_v4": 0.05e9,
    "yolov8n": 0.025e9,
    "yolov8s": 0.025e9,
}


@pytest.mark.parametrize("name", [e.name for e in zoo.CATALOG if e.published_macs is not None])
def test_macs_equal_the_published_figure_within_its_rounding(name: str) -> None:
    published = zoo.entry(name).published_macs
    assert published is not None
    assert abs(sum(_count_macs(name)) - published) <= _ROUNDING.get(name, 0.0005e9)


@pytest.mark.parametrize("name", zoo.names())
def test_parameters_equal_the_published_number(name: str) -> None:
    known = zoo.entry(name).published_parameters or _PARAMETERS_BY_HAND[name]
    assert _n_parameters_of(name) == known


def _recorded(file: str) -> Any:
    path = _SHARED / file
    if not path.is_file():
        pytest.skip(f"../shared/data/onnx/{file} is not here")
    return json.loads(path.read_text())


@pytest.mark.shared_data
@pytest.mark.parametrize("name", sorted(_TORCH_NAMES))
def test_work_and_parameters_equal_torchs_counter(name: str) -> None:
    recorded = _recorded("torch_flop_counter.json")[_TORCH_NAMES[name]]
    with_weights, between = _count_macs(name)
    counted = with_weights if name in _WITHOUT_ATTENTION else with_weights + between
    assert 2 * counted == recorded["fwd_fixed_b1"]
    assert _n_parameters_of(name) == recorded["params"] + _FIXED_NUMBERS.get(name, 0)


# Its documentation counts the classifier that only training uses.
_ONLY_IN_TRAINING = {"inception_v3": 3_326_696}
_CLASSIFIERS = [
    e.name for e in zoo.CATALOG if e.source.startswith("torchvision") and "1000" in e.task
]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", _CLASSIFIERS)
def test_work_and_parameters_equal_torchvisions(name: str) -> None:
    recorded = _recorded("torchvision_gmacs.json")[name]
    assert 2 * sum(_count_macs(name)) == recorded["flops"]
    assert _n_parameters_of(name) == recorded["params"] - _ONLY_IN_TRAINING.get(name, 0)
    assert zoo.entry(name).published_macs == pytest.approx(1e9 * recorded["published_gmacs"])


@pytest.mark.shared_data
def test_work_of_a_small_llama_equals_torchs_counter() -> None:
    sizes = llama.Sizes(
        n_layers=8, n_heads=8, n_groups=4, features=512, hidden=1376, n_tokens=32_000
    )
    model = to_model(llama.draw("small", sizes))
    recorded = _recorded("torch_flop_counter.json")["hf_llama_small"]
    with_weights, _ = _count(model, {"batch": 1, "sequence": 128, "past_sequence": 0})
    assert 2 * with_weights == recorded["fwd_fixed_b1"]
    assert _n_parameters(model) == recorded["params"]
