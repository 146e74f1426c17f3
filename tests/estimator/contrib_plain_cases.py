"""ONNX Runtime's elementwise operators and normalisations, and the work they must have.

One for each addition, multiplication, division, comparison or rounding, one for each
function. A gelu: 5, with tanh 9; a sigmoid: 4; dequantise: 2, quantise: 5.
"""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_models import Operator
from tests.estimator.models import Input

X = "float[2,3,4]"  # 24 elements, 6 rows of 4
V = "float[4]"
S: Input = np.array(0.5, np.float32)  # a scale
Z: Input = np.array(3, np.uint8)  # a zero point
ZI: Input = np.array(0, np.int8)
U = "uint8[2,3]"  # 6 elements
MS = "com.microsoft."

ELEMENTWISE = [
    Operator(MS + "Gelu", (X,), 24 * 5),
    Operator(MS + "QuickGelu", (X,), 24 * 6),  # ·a, a sigmoid, ·x
    Operator(MS + "ScaledSiLU", (X,), 24 * 6),
    Operator(MS + "BiasGelu", (X, V), 24 * 6),
    Operator(MS + "FastGelu", (X,), 24 * 9),
    Operator(MS + "FastGelu", (X, V), 24 * 10),
    Operator(MS + "BiasAdd", (X, V, X), 24 * 2, check="infer"),
    # a bias each; 12 gelus, 12 products
    Operator(MS + "BiasSplitGelu", (X, V), 24 + 12 * 6, check="infer"),
    # a sum each; 6 rows: 3 comparisons, 4 differences, 4 exp, 3 sums, 4 quotients
    Operator(
        MS + "BiasSoftmax",
        (X, X),
        24 + 6 * 18,
        {"axis": 2, "is_inner_broadcast": 0},
        check="infer",
    ),
    Operator(MS + "BiasDropout", (X, V, X), 24 * 2, check="infer", outputs=2),
    Operator(
        MS + "BitmaskDropout",
        (X,),
        0,
        check="infer",
        outputs=2,
        shapes=("float[2,3,4]", "uint32[1]"),
    ),
    Operator(
        MS + "BitmaskBiasDropout",
        (X, V),
        24,
        check="infer",
        outputs=2,
        shapes=("float[2,3,4]", "uint32[1]"),
    ),
    Operator(MS + "GatedAdd", (X, X, "float[2,3,1]"), 24 * 2),
    # 3 complex products of 4 products and 2 sums
    Operator(
        MS + "ComplexMul",
        ("float[3,2]", "float[3,2]"),
        3 * 6,
        check="infer",
        shapes=("float[3,2]",),
    ),
    Operator(
        MS + "ComplexMulConj",
        ("float[3,2]", "float[3,2]"),
        3 * 6,
        check="infer",
        shapes=("float[3,2]",),
    ),
    # zero points off 6 and 3 elements, 6 products
    Operator(MS + "MulInteger", (U, Z, "uint8[3]", Z), 6 + 3 + 6, check="infer"),
    # 12 dequantised, 6 sums or products, 6 quantised
    Operator(MS + "QLinearAdd", (U, S, Z, U, S, Z, S, Z), 12 * 2 + 6 * 6),
    Operator(MS + "QLinearMul", (U, S, Z, U, S, Z, S, Z), 12 * 2 + 6 * 6),
    # chosen, dequantised, quantised
    Operator(MS + "QLinearWhere", ("bool[2,3]", U, S, Z, U, S, Z, S, Z), 6 * 8),
    Operator(MS + "QLinearLeakyRelu", (U, S, Z, S, Z), 6 * (2 + 2 + 5)),
    Operator(MS + "QLinearSigmoid", (U, S, Z, S, Z), 6 * (2 + 4 + 5)),
    # ·scale, gelu, quantised
    Operator(
        MS + "QOrderedGelu",
        ("int8[2,4]", S, S),
        8 * (1 + 5 + 5),
        {"order_X": 1, "order_Y": 1},
        check="infer",
    ),
    # 2 rows of 4: 18 each
    Operator(MS + "QLinearSoftmax", ("uint8[2,4]", S, Z, S, Z), 8 * 7 + 2 * 18, {"opset": 13}),
    # one row of 8: 7 comparisons, 8 differences, 8 exp, 7 sums, 8 quotients
    Operator(
        MS + "QLinearSoftmax",
        ("uint8[2,4]", S, Z, S, Z),
        8 * 7 + 38,
        {"opset": 12, "axis": 0},
    ),
    # one word of 11, the end of 9
    Operator(MS + "MurmurHash3", ("int32[3]",), 3 * 20),
    Operator(MS + "MurmurHash3", ("int64[3]",), 3 * 31, {"positive": 0}),
    # 5 tests, 4 ands
    Operator(MS + "IsAllFinite", ("float[3]", "float[2]"), 9, check="infer"),
    # 2·27 for each of 2 matrices
    Operator(MS + "Inverse", ("float[2,3,3]",), 2 * 54),
    Operator(MS + "SampleOp", (X,), 0),
    # 9 places: 8 for two coordinates, 10 for weights; 18 outputs of 4 products, 3 sums
    Operator(MS + "GridSample", ("float[1,2,4,4]", "float[1,3,3,2]"), 9 * 18 + 18 * 7),
]

# a row of 4: mean 4, squares 4, their mean 4, its square, difference, epsilon, root,
# deviations 4, quotients 4, scale 4, shift 4
_LAYER = 32
# a row of 4: squares 4, their mean 4, epsilon, root, quotients 4, scale 4
_RMS = 18
_IDS = "int32[2,3]"
_TABLES: tuple[Input, ...] = ("float[10,4]", "float[8,4]", "float[2,4]", V, V)
_BYTES: tuple[Input, ...] = ("uint8[10,4]", "uint8[8,4]", "uint8[2,4]", "uint8[4]", "uint8[4]")

NORMALISATIONS = [
    # the sum, a bias
    Operator(MS + "SkipLayerNormalization", (X, X, V, V, V), 24 * 2 + 6 * _LAYER, outputs=4),
    # no shift, no bias
    Operator(MS + "SkipLayerNormalization", (X, X, V), 24 + 6 * (_LAYER - 4)),
    Operator(MS + "SkipSimplifiedLayerNormalization", (X, X, V, V), 24 * 2 + 6 * _RMS, outputs=4),
    Operator("SimplifiedLayerNormalization", (X, V), 6 * _RMS, opset=17),
    Operator(
        MS + "SimplifiedLayerNormalization",
        (X, V),
        6 * _RMS,
        check="hand",
        shapes=("float[2,3,4]",),
    ),
    # 8 elements: ·scale, 5 to quantise; 2 rows
    Operator(
        MS + "QOrderedLayerNormalization",
        ("int8[2,4]", S, V, V, S),
        8 * 6 + 2 * _LAYER,
        check="infer",
    ),
    # 2 groups of 8: 7·8 + 3 and a root; 16 silu of 5
    Operator(
        MS + "GroupNorm",
        ("float[1,2,2,4]", V, V),
        2 * 60 + 16 * 5,
        {"groups": 2, "activation": 1},
        check="infer",
    ),
    # and two sums
    Operator(
        MS + "SkipGroupNorm",
        ("float[1,2,2,4]", V, V, "float[1,2,2,4]", V),
        2 * 60 + 16 * 2,
        {"groups": 2, "activation": 0},
        check="infer",
        outputs=2,
    ),
    Operator(MS + "BranchwiseRMSNorm", (X, V), 6 * _RMS),
    # flattened: each row of 12 is 3 branches of 4; no scale
    Operator(MS + "BranchwiseRMSNorm", ("float[2,12]",), 6 * (_RMS - 4), {"num_branches": 3}),
    # a silu and a product
    Operator(MS + "GatedRMSNorm", (X, V, X), 6 * _RMS + 24 * 6),
    Operator(MS + "GatedRMSNorm", (X, V, X), 6 * _RMS + 24 * 5, {"activation": "sigmoid"}),
    # 4 rows twice; 16 products, 12 sums; a factor, magnitude, maximum, root, sign, product
    # and sigmoid for each row; 16 products
    Operator(
        MS + "EngramGate",
        ("float[1,2,2,4]", "float[1,2,2,4]", "float[1,2,4]", "float[2,4]", "float[2,4]"),
        8 * _RMS + 28 + 4 * (6 + 4) + 16,
    ),
    # 24 products, 16 sums of three
    Operator(MS + "HyperConnectionPreMix", (X, "float[2,3]"), 24 + 16),
    # 3 multiply-adds, a product and a sum each
    Operator(
        MS + "HyperConnectionPostMix",
        (X, "float[2,4]", "float[2,3]", "float[2,3,3]"),
        24 * (6 + 2),
    ),
    # two sums of 24
    Operator(
        MS + "EmbedLayerNormalization", (_IDS, _IDS, *_TABLES), 24 * 2 + 6 * _LAYER, outputs=2
    ),
    # one sum, a mask of 6
    Operator(
        MS + "EmbedLayerNormalization",
        (_IDS, "", *_TABLES[:2], "", *_TABLES[3:], _IDS),
        24 + 6 + 6 * _LAYER,
        outputs=3,
    ),
    # and three tables, scale and shift dequantised
    Operator(
        MS + "QEmbedLayerNormalization",
        (_IDS, _IDS, *_BYTES, "", *(S,) * 5, *(Z,) * 5),
        24 * 2 + 6 * _LAYER + 2 * (3 * 24 + 8),
        outputs=2,
    ),
]
