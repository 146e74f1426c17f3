"""Operators that only ONNX Runtime's optimiser writes: channels in blocks, or last."""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_layer_cases import POOL, L, W
from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import S, Z

NCHWC = "com.microsoft.nchwc."
NHWC = "com.ms.internal.nhwc."
BLOCK = "float[1,16,4,4]"

INTERNAL = [
    # 4 outputs of 16 channels, 144 multiply-adds; max(0, x)
    Operator(
        NCHWC + "Conv",
        (BLOCK, "float[16,16,3,3]"),
        64 * 289,
        {"kernel_shape": [3, 3], "activation": "Relu"},
    ),
    Operator(NCHWC + "MaxPool", (BLOCK,), 64 * 3, POOL),
    Operator(NCHWC + "AveragePool", (BLOCK,), 64 * 4, POOL),
    Operator(NCHWC + "GlobalAveragePool", (BLOCK,), 16 * 16),
    Operator(NCHWC + "GlobalMaxPool", (BLOCK,), 16 * 15),
    Operator(NCHWC + "Upsample", (BLOCK,), 0, {"scales": [1, 1, 2, 2]}),
    # 4 products and 3 sums for each of 16·8·8
    Operator(
        NCHWC + "Upsample",
        (BLOCK,),
        1024 * 7,
        {"scales": [1, 1, 2, 2], "mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    ),
    Operator(NCHWC + "ReorderInput", (BLOCK,), 0),
    Operator(NCHWC + "ReorderOutput", (BLOCK,), 0, {"channels": 12}),
    Operator(
        NHWC + "Conv",
        (L, W),
        12 * 36,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "QLinearConv",
        ("uint8[1,4,4,2]", S, Z, "uint8[3,2,3,3]", S, Z, S, Z),
        12 * 41,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "ConvTranspose",
        (L, "float[2,3,2,2]"),
        32 * 24,
        check="infer",
        version=20,
    ),
    # and 5 to quantise each of 75
    Operator(
        NHWC + "QLinearConvTranspose",
        ("uint8[1,4,4,2]", S, Z, "uint8[2,3,2,2]", S, Z, S, Z),
        32 * 24 + 75 * 5,
        shapes=("uint8[1,5,5,3]",),
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "MaxPool",
        (L,),
        8 * 3,
        POOL,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "AveragePool",
        (L,),
        8 * 4,
        POOL,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "QLinearAveragePool",
        ("uint8[1,4,4,2]", S, Z, S, Z),
        8 * 9,
        POOL,
        check="infer",
        version=20,
    ),
    # 4 squares, 3 sums, a root
    Operator(
        NHWC + "LpPool",
        (L,),
        8 * 8,
        POOL,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "GlobalAveragePool",
        (L,),
        32,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "GlobalMaxPool",
        (L,),
        30,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "GlobalLpPool",
        (L,),
        64,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "MaxUnpool",
        ("float[1,2,2,2]", "int64[1,2,2,2]"),
        0,
        POOL,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "BatchNormalization",
        (L, *["float[2]"] * 4),
        32 * 2,
        check="infer",
        version=20,
    ),
    # 2 rows of 16: 7·16 + 3 and a root
    Operator(
        NHWC + "InstanceNormalization",
        (L, "float[2]", "float[2]"),
        2 * 116,
        check="infer",
        version=20,
    ),
    # square, 2 sums, factor, summand, power, quotient
    Operator(
        NHWC + "LRN",
        (L,),
        32 * 7,
        {"size": 3},
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "SpaceToDepth",
        (L,),
        0,
        {"blocksize": 2},
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "DepthToSpace",
        ("float[1,2,2,8]",),
        0,
        {"blocksize": 2},
        check="infer",
        version=20,
    ),
    # 9 places of 18, 18 outputs of 7
    Operator(
        NHWC + "GridSample",
        (L, "float[1,3,3,2]"),
        9 * 18 + 18 * 7,
        check="infer",
        version=20,
    ),
    Operator(
        NHWC + "Resize",
        (L, "", np.array([1, 2, 2, 1], np.float32)),
        0,
        check="infer",
        version=20,
    ),
]
