"""Operators over windows, groups and matrices: node, inputs, settings and their work."""

from __future__ import annotations

from tests.estimator.elementwise_cases import S3, C, Case, U, X, axes

POOLING: list[Case] = [
    # 2 channels of 2 x 2 windows of 4: 8 outputs
    ("MaxPool", (C,), {"kernel_shape": [2, 2], "strides": [2, 2]}, 8 * 3),
    ("AveragePool", (C,), {"kernel_shape": [2, 2], "strides": [2, 2]}, 8 * 4),
    # 4 squares, 3 additions, a root
    ("LpPool", (C,), {"kernel_shape": [2, 2], "strides": [2, 2]}, 8 * 8),
    ("LpPool", (C,), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 1}, 8 * 7),  # no root
    # |x|·x·x 3 for each of 4, 3 additions, a root
    ("LpPool", (C,), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 3}, 8 * 16),
    # |x| and a function for each of 4, 3 additions, a root
    ("LpPool", (C,), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 4}, 8 * 12),
    ("GlobalMaxPool", (C,), {}, 2 * 15),
    ("GlobalAveragePool", (C,), {}, 2 * 16),
    ("GlobalLpPool", (C,), {}, 2 * (16 + 15 + 1)),
    ("GlobalLpPool", (C,), {"p": 1}, 2 * (16 + 15)),
]


NORMALISATIONS: list[Case] = [
    ("BatchNormalization", (X, S3, S3, S3, S3), {}, 24 * 2),
    # sum, deviation, square, sum, factor, summand; a root for each of 3 channels
    ("BatchNormalization", (X, S3, S3, S3, S3), {"training_mode": 1}, 24 * 6 + 3),
    # mean 4, squares 4, their mean 4, deviations 4, quotients 4, scale; 6 rows of the
    # mean's square, a difference, epsilon, a root
    ("LayerNormalization", (X, "float[4]"), {}, 24 * 6 + 6 * 4),
    # the reciprocal of the deviation is an output
    ("LayerNormalization", (X, "float[4]"), {"outputs": ("y", "m", "s")}, 24 * 6 + 6 * 5),
    ("LayerNormalization", (X, "float[3,4]", "float[3,4]"), {"axis": 1}, 24 * 7 + 2 * 4),
    ("InstanceNormalization", (X, S3, S3), {}, 24 * 7 + 6 * 4),
    # 2 images of 2 groups of 2 channels
    (
        "GroupNormalization",
        ("float[2,4,3]", "float[4]", "float[4]"),
        {"num_groups": 2},
        24 * 7 + 4 * 4,
    ),
    # squares 4, their mean 4, quotients 4, scale; 6 rows of epsilon and a root
    ("RMSNormalization", (X, "float[4]"), {"opset": 23}, 24 * 4 + 6 * 2),
    # addition, 5, scale, shift, bias
    (
        "com.microsoft.SkipLayerNormalization",
        (X, X, "float[4]", "float[4]", "float[4]"),
        {},
        24 * 9 + 6 * 4,
    ),
    # axes 0, 2, 3 of an image: 2 groups of 2 divisions, an addition, a root
    ("MeanVarianceNormalization", (C,), {}, 32 * 5 + 2 * 4),
    ("MeanVarianceNormalization", (C,), {"axes": [2, 3]}, 32 * 5 + 2 * 4),
    ("MeanVarianceNormalization", (C,), {"axes": [1, 2, 3]}, 32 * 5 + 4),
    # rows of 4: squares, 3 additions, quotients, a root
    ("LpNormalization", (X,), {}, 6 * (4 + 3 + 4 + 1)),
    ("LpNormalization", (X,), {"axis": 1, "p": 1}, 8 * (3 + 2 + 3)),  # no root
    ("LpNormalization", (X,), {"axis": 0, "p": 2}, 12 * (2 + 1 + 2 + 1)),
    # rows of 4: 3 comparisons, 4 differences, 4 exp, 3 additions, 4 quotients
    ("Softmax", (X,), {}, 6 * 18),
    ("Softmax", (X,), {"opset": 11}, 2 * (11 + 12 + 12 + 11 + 12)),  # axes 1 and 2 are one row
    ("Softmax", (X,), {"opset": 11, "axis": -1}, 6 * 18),
    ("LogSoftmax", (X,), {}, 6 * (18 + 1)),  # a logarithm more
    ("LogSoftmax", (X,), {"axis": 0}, 12 * (1 + 2 + 2 + 1 + 2 + 1)),
    ("LogSoftmax", (X,), {"opset": 11}, 2 * (58 + 1)),
    ("Hardmax", (X,), {}, 6 * 3),
    ("Hardmax", (X,), {"opset": 11}, 2 * 11),
    # square, 2 additions of 3 channels, factor, summand, power, quotient
    ("LRN", (C,), {"size": 3}, 32 * 7),
]

_SCALE, _ZERO = "float", "uint8"
_QUANTISED = (_SCALE, _ZERO)

PRODUCTS: list[Case] = [
    # image of 32 to 3 channels of 2 x 2: 12 outputs of 2·9 multiply-adds
    ("Conv", (C, "float[3,2,3,3]"), {}, 12 * 36),
    ("Conv", (C, "float[3,2,3,3]", S3), {}, 12 * 37),
    ("ConvInteger", ("uint8[1,2,4,4]", "uint8[3,2,3,3]"), {}, 12 * 36),
    # and scale, round, zero point, two comparisons
    (
        "QLinearConv",
        ("uint8[1,2,4,4]", *_QUANTISED, "uint8[3,2,3,3]", *_QUANTISED, *_QUANTISED),
        {},
        12 * (36 + 5),
    ),
    (
        "QLinearConv",
        ("uint8[1,2,4,4]", *_QUANTISED, "uint8[3,2,3,3]", *_QUANTISED, *_QUANTISED, "int32[3]"),
        {},
        12 * (36 + 6),
    ),
    # 36 samples of 2 channels by 9 taps at 4 places: 2 sums for its place, 10 for its weights
    # (floor, t, 1 - t of 2 axes, 4 products), 4 products and 3 sums for each channel
    (
        "DeformConv",
        (C, "float[3,2,3,3]", "float[1,18,2,2]"),
        {},
        12 * 36 + 36 * (2 + 10 + 2 * 7),
    ),
    # and a bias, and a factor for each sample
    (
        "DeformConv",
        (C, "float[3,2,3,3]", "float[1,18,2,2]", S3, "float[1,9,2,2]"),
        {},
        12 * 37 + 36 * (2 + 10 + 2 * 8),
    ),
    ("CausalConvWithState", ("float[1,2,5]", "float[2,1,3]"), {"opset": 27}, 10 * 6),
    # a bias; x · sigmoid(x)
    (
        "CausalConvWithState",
        ("float[1,2,5]", "float[2,1,3]", "float[2]"),
        {"opset": 27, "activation": "silu"},
        10 * (6 + 1 + 5),
    ),
    # each of 32 inputs into 3·4 products; the output is 3 channels of 5 x 5
    ("ConvTranspose", (C, "float[2,3,2,2]"), {}, 32 * 12 * 2),
    ("ConvTranspose", (C, "float[2,3,2,2]", S3), {}, 32 * 12 * 2 + 75),
    ("MatMul", ("float[2,3]", "float[3,5]"), {}, 10 * 6),
    ("MatMulInteger", ("uint8[2,3]", "uint8[3,5]"), {}, 10 * 6),
    (
        "QLinearMatMul",
        ("uint8[2,3]", *_QUANTISED, "uint8[3,5]", *_QUANTISED, *_QUANTISED),
        {},
        10 * (6 + 5),
    ),
    # of each of 2 matrices: 3 quotients, 5 products and 5 differences, 2 products of the diagonal
    ("Det", ("float[2,3,3]",), {}, 2 * 15),
    ("Gemm", ("float[2,3]", "float[3,5]", "float[5]"), {}, 10 * 7),
    ("Einsum", ("float[2,3]", "float[3,5]"), {"equation": "ij,jk->ik"}, 10 * 6),
    # 4 queries, 5 keys: 20 scores of 2·(3 + 2) and a factor; 4 rows of 5: 4 comparisons,
    # 5 differences, 5 exp, 4 additions, 5 quotients
    (
        "Attention",
        ("float[1,1,4,3]", "float[1,1,5,3]", "float[1,1,5,2]"),
        {"opset": 23},
        20 * 11 + 4 * 23,
    ),
    # a causal mask adds once; a cap divides, takes tanh, multiplies
    (
        "Attention",
        ("float[1,1,4,3]", "float[1,1,5,3]", "float[1,1,5,2]"),
        {"opset": 23, "is_causal": 1, "softcap": 30.0},
        20 * (11 + 1 + 3) + 4 * 23,
    ),
    (
        "ai.onnx.preview.FlexAttention",
        ("float[1,1,4,3]", "float[1,1,5,3]", "float[1,1,5,2]"),
        {},
        20 * 11 + 4 * 23,
    ),
    # 2 steps, a state of 2 x 3: k ⊗ v 6 multiply-adds; 2 query heads of 6 and 3 factors
    (
        "LinearAttention",
        ("float[1,2,4]", "float[1,2,2]", "float[1,2,3]"),
        {"opset": 27, "q_num_heads": 2, "kv_num_heads": 1, "update_rule": "linear"},
        2 * (12 + 2 * (12 + 3)),
    ),
    # and a decay of 6 factors and an exp; the state read by 6 multiply-adds, 3 differences,
    # 3 factors
    (
        "LinearAttention",
        ("float[1,2,4]", "float[1,2,2]", "float[1,2,3]", "", "float[1,2,1]", "float[1,2,1]"),
        {"opset": 27, "q_num_heads": 2, "kv_num_heads": 1, "update_rule": "gated_delta"},
        2 * (12 + 7 + 12 + 6 + 2 * (12 + 3)),
    ),
    # two products and an addition
    ("RotaryEmbedding", ("float[1,2,3,4]", "float[1,3,2]", "float[1,3,2]"), {"opset": 23}, 24 * 3),
    # of each head of 4 only 2 turn
    (
        "RotaryEmbedding",
        ("float[1,2,3,4]", "float[1,3,1]", "float[1,3,1]"),
        {"opset": 23, "rotary_embedding_dim": 2},
        12 * 3,
    ),
    # 2 steps of 1 sequence, 3 inputs, 2 hidden: 4 cells of 4·5 multiply-adds;
    # 4 sums, 3 sigmoids of 4, 2 tanh, 4 to update
    (
        "LSTM",
        ("float[2,1,3]", "float[1,8,3]", "float[1,8,2]"),
        {"hidden_size": 2},
        4 * (40 + 22),
    ),
    # 4 biases, and peepholes of 2 at 3 gates
    (
        "LSTM",
        (
            *("float[2,1,3]", "float[1,8,3]", "float[1,8,2]", "float[1,16]"),
            *("", "", "", "float[1,6]"),
        ),
        {"hidden_size": 2},
        4 * (40 + 22 + 4 + 6),
    ),
    # 3·5 multiply-adds; 3 sums, 2 sigmoids of 4, tanh, r·, 4 to update
    ("GRU", ("float[2,1,3]", "float[1,6,3]", "float[1,6,2]"), {"hidden_size": 2}, 4 * (30 + 17)),
    # 3 biases
    (
        "GRU",
        ("float[2,1,3]", "float[1,6,3]", "float[1,6,2]", "float[1,12]"),
        {"hidden_size": 2},
        4 * (30 + 20),
    ),
    # tanh(W·x + b + r·(R·h + c)): one bias more
    (
        "GRU",
        ("float[2,1,3]", "float[1,6,3]", "float[1,6,2]", "float[1,12]"),
        {"hidden_size": 2, "linear_before_reset": 1},
        4 * (30 + 21),
    ),
    # a clamp of two comparisons before each of 5 activations
    (
        "LSTM",
        ("float[2,1,3]", "float[1,8,3]", "float[1,8,2]"),
        {"hidden_size": 2, "clip": 3.0},
        4 * (40 + 22 + 10),
    ),
    # 1 - i in place of a sum and a sigmoid
    (
        "LSTM",
        ("float[2,1,3]", "float[1,8,3]", "float[1,8,2]"),
        {"hidden_size": 2, "input_forget": 1},
        4 * (40 + 22 - 5 + 1),
    ),
    # 3 hard sigmoids of 4, ReLU, a·x + b in place of 3 sigmoids and 2 tanh
    (
        "LSTM",
        ("float[2,1,3]", "float[1,8,3]", "float[1,8,2]"),
        {"hidden_size": 2, "activations": ["HardSigmoid", "Relu", "Affine"]},
        4 * (40 + 4 + 12 + 1 + 2 + 4),
    ),
    # forwards a tanh, backwards a ReLU: 4 elements of each
    (
        "RNN",
        ("float[2,1,3]", "float[2,2,3]", "float[2,2,2]"),
        {"hidden_size": 2, "activations": ["Tanh", "Relu"], "direction": "bidirectional"},
        8 * (10 + 2),
    ),
    ("RNN", ("float[2,1,3]", "float[1,2,3]", "float[1,2,2]"), {"hidden_size": 2}, 4 * (10 + 2)),
]

QUANTISATION: list[Case] = [
    ("QuantizeLinear", (X, _SCALE, _ZERO), {}, 24 * 5),  # quotient, round, zero, clamp twice
    ("QuantizeLinear", (X, _SCALE), {}, 24 * 4),
    ("QuantizeLinear", (X, _SCALE, "float8e4m3fn"), {}, 24 * 3),  # quotient, clamp twice
    ("DequantizeLinear", (U, _SCALE, _ZERO), {}, 24 * 2),  # zero, product
    ("DequantizeLinear", (U, _SCALE), {}, 24),
    # both extremes with 0 among them; 7 for scale and zero point; 5 as above
    ("DynamicQuantizeLinear", (X,), {"outputs": ("y", "s", "z")}, 24 * 2 + 7 + 24 * 5),
]

PLACING: list[Case] = [
    # 2 x 2 blocks at 9 places of a 4 x 4 image: 36 elements are added into it
    ("Col2Im", ("float[1,4,9]", axes(4, 4), axes(2, 2)), {}, 36),
    ("ScatterElements", (X, "int64[1,3,4]", "float[1,3,4]"), {}, 0),
    ("ScatterElements", (X, "int64[1,3,4]", "float[1,3,4]"), {"reduction": "add"}, 12),
    ("ScatterND", (X, "int64[1,1]", "float[1,3,4]"), {"reduction": "max"}, 12),
    ("Scatter", (X, "int64[1,3,4]", "float[1,3,4]"), {"opset": 9}, 0),
]
