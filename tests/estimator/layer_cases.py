"""Operators over windows, groups and matrices: node, inputs, settings and their work."""

from __future__ import annotations

from tests.estimator.elementwise_cases import S3, C, Case, U, X, axes, floats

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
    # sum, deviation, square, sum, factor; 6 rows of 2 divisions, an addition, a root
    ("LayerNormalization", (X, "float[4]"), {}, 24 * 6 + 6 * 4),
    ("LayerNormalization", (X, "float[3,4]", "float[3,4]"), {"axis": 1}, 24 * 7 + 2 * 4),
    ("InstanceNormalization", (X, S3, S3), {}, 24 * 7 + 6 * 4),
    # 2 images of 2 groups of 2 channels
    (
        "GroupNormalization",
        ("float[2,4,3]", "float[4]", "float[4]"),
        {"num_groups": 2},
        24 * 7 + 4 * 4,
    ),
    # square, sum, factor, scale; 6 rows of a division, an addition, a root
    ("RMSNormalization", (X, "float[4]"), {"opset": 23}, 24 * 4 + 6 * 3),
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
    ("LpNormalization", (X,), {}, 24 * 3 + 6),  # square, sum, quotient; 6 roots
    ("LpNormalization", (X,), {"axis": 1, "p": 1}, 24 * 3),  # |x|, sum, quotient
    ("LpNormalization", (X,), {"axis": 0, "p": 2}, 24 * 3 + 12),
    ("Softmax", (X,), {}, 24 * 5),  # maximum, difference, exp, sum, quotient
    ("LogSoftmax", (X,), {}, 24 * 5 + 6),  # 6 logarithms
    ("LogSoftmax", (X,), {"axis": 0}, 24 * 5 + 12),
    ("LogSoftmax", (X,), {"opset": 11}, 24 * 5 + 2),  # axes 1 and 2 are one row
    ("Hardmax", (X,), {}, 24),
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
    ("Gemm", ("float[2,3]", "float[3,5]", "float[5]"), {}, 10 * 7),
    ("Einsum", ("float[2,3]", "float[3,5]"), {"equation": "ij,jk->ik"}, 10 * 6),
    # 4 queries, 5 keys: 20 scores of 2·(3 + 2), scale, softmax of 5
    (
        "Attention",
        ("float[1,1,4,3]", "float[1,1,5,3]", "float[1,1,5,2]"),
        {"opset": 23},
        20 * (10 + 6),
    ),
    # a causal mask adds once; a cap divides, takes tanh, multiplies
    (
        "Attention",
        ("float[1,1,4,3]", "float[1,1,5,3]", "float[1,1,5,2]"),
        {"opset": 23, "is_causal": 1, "softcap": 30.0},
        20 * (10 + 6 + 1 + 3),
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
    ("RNN", ("float[2,1,3]", "float[1,2,3]", "float[1,2,2]"), {"hidden_size": 2}, 4 * (10 + 2)),
]

QUANTISATION: list[Case] = [
    ("QuantizeLinear", (X, _SCALE, _ZERO), {}, 24 * 5),  # quotient, round, zero, clamp twice
    ("QuantizeLinear", (X, _SCALE), {}, 24 * 4),
    ("DequantizeLinear", (U, _SCALE, _ZERO), {}, 24 * 2),  # zero, product
    ("DequantizeLinear", (U, _SCALE), {}, 24),
    # both extremes with 0 among them; 7 for scale and zero point; 5 as above
    ("DynamicQuantizeLinear", (X,), {"outputs": ("y", "s", "z")}, 24 * 2 + 7 + 24 * 5),
]

_DOUBLE = floats(1, 1, 2, 2)  # 4 x 4 to 8 x 8: 128 outputs
_GRID = "float[1,3,3,2]"  # 9 places of 2 coordinates, 18 outputs in 2 channels

PLACING: list[Case] = [
    ("Resize", (C, "", _DOUBLE), {"mode": "nearest"}, 0),
    ("Resize", (C, "", _DOUBLE), {"mode": "linear"}, 128 * 7),  # 4 products, 3 sums
    ("Resize", (C, "", _DOUBLE), {"mode": "cubic"}, 128 * 31),  # 16 products, 15 sums
    # one axis: 64 outputs of 2 products and a sum
    ("Resize", (C, "", floats(1, 1, 1, 2)), {"mode": "linear"}, 64 * 3),
    ("Upsample", (C, _DOUBLE), {"opset": 9, "mode": "linear"}, 128 * 7),
    # 4 for each coordinate, then as Resize
    ("GridSample", (C, _GRID), {"mode": "linear"}, 18 * 7 + 18 * 4),
    ("GridSample", (C, _GRID), {"mode": "nearest"}, 18 * 4),
    # 2 x 2 blocks at 9 places of a 4 x 4 image: 36 elements are added into it
    ("Col2Im", ("float[1,4,9]", axes(4, 4), axes(2, 2)), {}, 36),
    ("ScatterElements", (X, "int64[1,3,4]", "float[1,3,4]"), {}, 0),
    ("ScatterElements", (X, "int64[1,3,4]", "float[1,3,4]"), {"reduction": "add"}, 12),
    ("ScatterND", (X, "int64[1,1]", "float[1,3,4]"), {"reduction": "max"}, 12),
    ("Scatter", (X, "int64[1,3,4]", "float[1,3,4]"), {"opset": 9}, 0),
]
