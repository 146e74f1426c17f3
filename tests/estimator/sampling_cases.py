"""Operators that sample, transform, draw and choose: node, inputs, settings and their work."""

from __future__ import annotations

import numpy as np

from tests.estimator.elementwise_cases import C, Case, X, axes, floats

_DOUBLE = floats(1, 1, 2, 2)  # 4 x 4 to 8 x 8: 128 outputs
_HALF = floats(1, 1, 0.5, 0.5)
_GRID = "float[1,3,3,2]"  # 9 places of 2 coordinates, 18 outputs in 2 channels
_REGIONS = ("float[3,4]", "int64[3]")

SAMPLING: list[Case] = [
    ("Resize", (C, "", _DOUBLE), {"mode": "nearest"}, 0),
    ("Resize", (C, "", _DOUBLE), {"mode": "linear"}, 128 * 7),  # 4 products, 3 sums
    ("Resize", (C, "", _DOUBLE), {"mode": "cubic"}, 128 * 31),  # 16 products, 15 sums
    # one axis: 64 outputs of 2 products and a sum
    ("Resize", (C, "", floats(1, 1, 1, 2)), {"mode": "linear"}, 64 * 3),
    # windows of 4 of the width, 16 outputs, then of the height, 8 outputs
    ("Resize", (C, "", _HALF), {"mode": "linear", "antialias": 1}, 16 * 7 + 8 * 7),
    # growing needs no wider window: 64 and 128 outputs of 2 products and a sum
    ("Resize", (C, "", _DOUBLE), {"mode": "linear", "antialias": 1}, 64 * 3 + 128 * 3),
    ("Upsample", (C, _DOUBLE), {"opset": 9, "mode": "linear"}, 128 * 7),
    ("Upsample", (C,), {"opset": 7, "mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}, 128 * 7),
    # 4 for each of 2 coordinates; floor, t, 1 - t of each, 4 products; then as Resize
    ("GridSample", (C, _GRID), {"mode": "linear"}, 9 * (8 + 6 + 4) + 18 * 7),
    ("GridSample", (C, _GRID), {"mode": "nearest"}, 9 * (8 + 2)),  # two roundings
    # floor, difference, polynomials of 5, 5, 6 and 6, three distances: 27 an axis; 16 products
    ("GridSample", (C, _GRID), {"mode": "cubic"}, 9 * (8 + 54 + 16) + 18 * 31),
    # 2 places of 3 coordinates: 12, 9, 4 + 8 products; 2 outputs of 8 products and 7 sums
    (
        "GridSample",
        ("float[1,1,2,2,2]", "float[1,1,1,2,3]"),
        {"mode": "linear"},
        2 * (12 + 9 + 12) + 2 * 15,
    ),
    # 12 places of 2 coordinates: 2 multiply-adds and a summand each
    ("AffineGrid", ("float[1,2,3]", axes(1, 1, 3, 4)), {}, 24 * (4 + 1)),
    # 3 regions are at most the whole image: 2 channels of 16
    ("MaxRoiPool", (C, "float[3,5]"), {"pooled_shape": [2, 2]}, 3 * 32),
    # 24 bins of 4 samples: 7 each, 3 sums, a quotient; 48 places of 4 and weights of 10
    (
        "RoiAlign",
        (C, *_REGIONS),
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
        24 * (28 + 3 + 1) + 48 * 14,
    ),
    # 2 samples an axis where a region's size would decide; a maximum divides nothing
    (
        "RoiAlign",
        (C, *_REGIONS),
        {"output_height": 2, "output_width": 2, "mode": "max"},
        24 * (28 + 3) + 48 * 14,
    ),
]

TRANSFORMS: list[Case] = [
    # 5·8·log2 8 = 120; half with a real side
    ("DFT", ("float[2,8,2]",), {"opset": 17}, 2 * 120),
    ("DFT", ("float[2,8,1]",), {}, 2 * 60),
    ("DFT", ("float[2,8,1]",), {"onesided": 1}, 2 * 60),
    # each of 2·8·2 results over 8
    ("DFT", ("float[2,8,2]",), {"opset": 17, "inverse": 1}, 2 * 120 + 32),
    # 2·(5 - 1) points, all real
    ("DFT", ("float[1,5,2]",), {"inverse": 1, "onesided": 1}, 60 + 8),
    ("DFT", ("float[1,8,2]", np.array(16)), {}, 5 * 16 * 4),
    ("DFT", ("float[8,3,2]", "", np.array(0)), {}, 3 * 120),
    # 5·6·log2 6 = 77.55
    ("DFT", ("float[1,6,2]",), {}, 78),
    # 3 frames of 8 of 16 points: 60, and 8 products with the window
    ("STFT", ("float[1,16,1]", np.array(4), "float[8]"), {}, 3 * 68),
    ("STFT", ("float[1,16,1]", np.array(4), "", np.array(8)), {}, 3 * 60),
    ("STFT", ("float[1,16,2]", np.array(4), "float[8]"), {"onesided": 0}, 3 * (120 + 16)),
    # how far frames are apart is not known, how many there are was given
    ("STFT", ("float[1,16,1]", "int64", "float[8]"), {"dims": {"y[1]": 3}}, 3 * 68),
    # angle, cosine, product, difference
    ("HannWindow", ("int64",), {"dims": {"y[0]": 10}}, 10 * 4),
    ("HammingWindow", ("int64",), {"dims": {"y[0]": 10}}, 10 * 4),
    ("BlackmanWindow", ("int64",), {"dims": {"y[0]": 10}}, 10 * 8),
    # 15 elements of 2; 5 edges of 6 and a power; two logarithms
    (
        "MelWeightMatrix",
        ("int64", "int64", "int64", "float", "float"),
        {"dims": {"y[0]": 5, "y[1]": 3}},
        15 * 2 + 5 * 7 + 2,
    ),
]

DRAWING: list[Case] = [
    ("RandomNormal", (), {"shape": [2, 3]}, 6 * 3),  # a number, ·scale, +mean
    ("RandomUniform", (), {"shape": [2, 3]}, 6 * 3),
    ("RandomNormalLike", (X,), {}, 24 * 3),
    ("RandomUniformLike", (X,), {}, 24 * 3),
    ("Bernoulli", (X,), {}, 24 * 2),  # a number, a comparison
    # rows of 8: 7 comparisons, 8 differences, 8 exp, 7 sums; 10 numbers of a factor and
    # 3 comparisons
    ("Multinomial", ("float[2,8]",), {"sample_size": 5}, 2 * 30 + 10 * (1 + 1 + 3)),
]

_LABELLED = ("float[3,5]", "int64[3]")

CHOOSING: list[Case] = [
    ("NonZero", (X,), {"dims": {"y[1]": 7}}, 24),
    ("OneHot", ("int64[3]", np.array(4), floats(0, 1)), {}, 12),
    # 24·⌈log2 24⌉ comparisons to sort, 23 of neighbours
    ("Unique", ("float[24]",), {"dims": {"y[0]": 9}}, 24 * 5 + 23),
    # 3 slices of 8: 3·2 + 2 comparisons of 8 elements
    ("Unique", (X,), {"axis": 1, "dims": {"y[1]": 2}}, 8 * 8),
    # areas of 6 boxes, 12 scores, two sorts of 6·3, 4 boxes overlapped with 6
    (
        "NonMaxSuppression",
        ("float[1,6,4]", "float[1,2,6]", np.array([9])),
        {"dims": {"y[0]": 4}},
        6 * 3 + 12 + 2 * 18 + 4 * 6 * 13,
    ),
    ("NegativeLogLikelihoodLoss", _LABELLED, {}, 3 + 2 + 1),  # negate, add, divide
    ("NegativeLogLikelihoodLoss", _LABELLED, {"reduction": "none"}, 3),
    # a factor each; the mean divides by the sum of 3 weights
    ("NegativeLogLikelihoodLoss", (*_LABELLED, "float[5]"), {}, 6 + 2 + 2 + 1),
    ("NegativeLogLikelihoodLoss", ("float[2,5,3]", "int64[2,3]"), {"reduction": "sum"}, 6 + 5),
    # rows of 5: 4, 5, 5 exp, 4, 5 and a logarithm
    ("SoftmaxCrossEntropyLoss", _LABELLED, {}, 3 * (23 + 1) + 6),
    # pairs of 12 words with 0 to 5 between: 11 + 10 + 9 + 8 + 7 + 6
    (
        "TfIdfVectorizer",
        ("int64[12]",),
        {
            "min_gram_length": 2,
            "max_gram_length": 2,
            "max_skip_count": 5,
            "mode": "TF",
            "ngram_counts": [0, 0],
            "ngram_indexes": [0, 1],
            "pool_int64s": [2, 3, 5, 4],
        },
        51,
    ),
    # and a factor for each of 2 outputs, of 2 sentences
    (
        "TfIdfVectorizer",
        ("int64[2,6]",),
        {
            "min_gram_length": 1,
            "max_gram_length": 1,
            "max_skip_count": 0,
            "mode": "TFIDF",
            "ngram_counts": [0],
            "ngram_indexes": [0, 1],
            "pool_int64s": [2, 3],
        },
        2 * 6 + 4,
    ),
]

_STEP = ("float", "int64", *["float[4]"] * 3)
_TRAINING = "ai.onnx.preview.training."

STEPS: list[Case] = [
    # g² added 2, root, epsilon, product, quotient, difference; 3 for the rate
    (_TRAINING + "Adagrad", _STEP, {"outputs": ("y", "h")}, 4 * 7 + 3),
    (_TRAINING + "Adagrad", _STEP, {"outputs": ("y", "h"), "norm_coefficient": 0.1}, 4 * 9 + 3),
    (_TRAINING + "Momentum", _STEP, {"outputs": ("y", "v"), "mode": "standard"}, 4 * 5),
    (_TRAINING + "Momentum", _STEP, {"outputs": ("y", "v"), "mode": "nesterov"}, 4 * 7),
    # V 3, H 4, root, epsilon, product, quotient, difference; for the rate root, powers and 5
    (
        _TRAINING + "Adam",
        (*_STEP, "float[4]"),
        {"outputs": ("y", "v", "h")},
        4 * 12 + 3 + 5,
    ),
    (
        _TRAINING + "Adam",
        (*_STEP, "float[4]"),
        {"outputs": ("y", "v", "h"), "norm_coefficient": 0.1, "norm_coefficient_post": 0.1},
        4 * 15 + 3 + 5,
    ),
]
