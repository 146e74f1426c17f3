"""ONNX Runtime's convolutions, recurrent layers and layers with a state, and their work."""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import MS, S, Z

C = "float[1,2,4,4]"  # an image of 2 channels
W = "float[3,2,3,3]"  # to 3 channels of 2 x 2: 12 outputs of 18 multiply-adds
L = "float[1,4,4,2]"  # the same image, channels last
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}  # 8 windows of 4

CONVOLUTIONS = [
    # a bias, a sum, max(0, x)
    Operator(
        MS + "FusedConv", (C, W, "float[3]", "float[1,3,2,2]"), 12 * 39, {"activation": "Relu"}
    ),
    # clamped twice
    Operator(
        MS + "FusedConv",
        (C, W),
        12 * 38,
        {"activation": "Clip", "activation_params": [0.0, 6.0]},
    ),
    Operator(MS + "NhwcConv", (L, W, "float[3]"), 12 * 37, check="infer"),
    Operator(
        MS + "NhwcFusedConv",
        (L, W, "float[3]", "float[1,2,2,3]"),
        12 * 39,
        {"activation": "Relu"},
        check="infer",
    ),
    # 5 to quantise
    Operator(
        MS + "QLinearConv",
        ("uint8[1,2,4,4]", S, Z, "uint8[3,2,3,3]", S, Z, S, Z),
        12 * (36 + 5),
    ),
    Operator(
        MS + "QLinearConv",
        ("uint8[1,4,4,2]", S, Z, "uint8[3,2,3,3]", S, Z, S, Z, "int32[3]"),
        12 * (36 + 6),
        {"channels_last": 1},
    ),
    Operator(MS + "NhwcMaxPool", ("uint8[1,4,4,2]",), 8 * 3, POOL),
    # and a comparison with the mask
    Operator(MS + "MaxpoolWithMask", (C, "int32[1,2,4,4]"), 8 * 7, POOL),
    # 32 inputs into 3·4 products; a padding of 1 all around
    Operator(
        MS + "ConvTransposeWithDynamicPads",
        (C, "float[2,3,2,2]", np.array([1, 1, 1, 1])),
        32 * 24,
        {"strides": [2, 2]},
    ),
]

_LSTM = {"hidden_size": 2}

STATES = [
    # 4 cells: 20 multiply-adds, 4 sums, 4 biases, 3 sigmoids, 2 tanh, 4 to update, 8 factors;
    # 6 inputs and 4 states quantised
    Operator(
        MS + "DynamicQuantizeLSTM",
        (
            *("float[2,1,3]", np.zeros((1, 3, 8), np.int8), np.zeros((1, 2, 8), np.int8)),
            *("float[1,16]", "", "", "", "", "float[1]", np.zeros(1, np.int8)),
            *("float[1]", np.zeros(1, np.int8)),
        ),
        4 * (40 + 12 + 12 + 2 + 8) + 10 * 7,
        _LSTM,
        outputs=3,
    ),
    # inputs of 3 joined by 4 that were attended: 4 cells of 4·(7 + 2) multiply-adds and 26;
    # keys of 5 slots: 5·4·6 multiply-adds; 2 steps: 2·6 for the query, 5·6 for the scores,
    # 5·4 for the sum, 30 sums and tanh, softmax of 5 (23)
    Operator(
        MS + "AttnLSTM",
        (
            *("float[2,1,3]", "float[1,8,7]", "float[1,8,2]", "float[1,16]", "", "", "", ""),
            *("float[1,2,6]", "float[1,4,6]", "float[1,6]", "float[1,5,4]"),
        ),
        4 * (72 + 26) + 2 * 120 + 2 * (2 * (12 + 30 + 20) + 60 + 23),
        _LSTM,
        outputs=3,
    ),
    # 6 tokens, 2 heads with states of 4 x 3: k ⊗ v and q·S 12 multiply-adds each, the
    # delta rule 12, and 6; 12 decayed by one exp; 3 factors
    Operator(
        MS + "LinearAttention",
        (
            *("float[2,3,8]", "float[2,3,8]", "float[2,3,6]", "float[2,2,4,3]"),
            *("float[2,3,2]", "float[2,3,2]"),
        ),
        6 * 2 * (2 * 36 + 6 + 12 + 1 + 3),
        {"q_num_heads": 2, "kv_num_heads": 2},
        outputs=2,
    ),
    # 4 heads of queries share 2 states
    Operator(
        MS + "LinearAttention",
        ("float[1,3,16]", "float[1,3,8]", "float[1,3,6]"),
        3 * (2 * 24 + 4 * (24 + 3)),
        {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"},
        outputs=2,
    ),
    # a bias, softplus of 3, a factor; a sigmoid
    Operator(
        MS + "LinearAttentionGate",
        ("float[2,3,4]", "float[4]", "float[4]", "float[2,3,4]"),
        24 * (5 + 4),
        outputs=2,
    ),
    # 3 tokens, states of 4 x 4 for 2 heads; 6 vectors of 4 twice: 4 squares, 3 sums, a
    # root, 4 quotients
    Operator(
        MS + "GatedDeltaNet",
        (
            *("bfloat16[3,2,4]", "bfloat16[3,2,4]", "bfloat16[3,2,4]", "int32[2]"),
            *("float[3,2]", "float[3,2]", "float[1,2,4,4]"),
        ),
        3 * 2 * (2 * 48 + 8 + 16 + 1 + 4) + 12 * 12,
        {"qk_l2_norm": 1},
        check="infer",
        outputs=2,
    ),
    # 4 taps, a bias, a silu
    Operator(
        MS + "CausalConvWithState",
        ("float[2,3,8]", "float[3,1,4]", "float[3]", "float[2,3,3]"),
        48 * (8 + 1 + 5),
        {"activation": "silu"},
        outputs=2,
    ),
    Operator(
        MS + "CausalConvWithState",
        ("float[2,8,3]", "float[3,1,4]"),
        48 * 8,
        {"channels_last": 1, "dilation": 2},
        outputs=2,
    ),
    Operator(
        MS + "VarlenCausalConvWithState",
        ("float[8,3]", "float[3,1,4]", "int32[3]", "float[3]", "float[2,3,3]"),
        24 * 9,
        check="infer",
        outputs=2,
    ),
]
