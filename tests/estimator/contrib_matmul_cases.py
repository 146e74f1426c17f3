"""ONNX Runtime's matrix products, experts and quantised operators, and their work."""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import MS, ZI, S, U, Z
from tests.estimator.models import Input

A, B = "float[2,3]", "float[3,5]"  # 10 outputs of 3 multiply-adds
P = 10 * 6
ROW = "float[1,32]"
BITS = "uint8[4,1,16]"  # 4 x 32 numbers of 4 bits in blocks of 32

PRODUCTS = [
    Operator(MS + "FusedMatMul", (A, B), P),
    # 5 rows of 2 matrices: 40 outputs, and a factor
    Operator(
        MS + "FusedMatMul",
        ("float[5,2,3]", "float[2,4,3]"),
        40 * 7,
        {"transBatchA": 1, "transB": 1, "alpha": 0.5},
    ),
    Operator(MS + "TransposeMatMul", ("float[3,2]", B), P, {"transA": 1}),
    Operator(
        MS + "FusedMatMulActivation", (A, B), P + 10 * 4, {"activation": "Sigmoid"}, check="infer"
    ),
    Operator(MS + "SparseToDenseMatMul", (A, B), P, check="hand", shapes=("float[2,5]",)),
    # a bias, max(0, x)
    Operator(MS + "FusedGemm", (A, B, "float[5]"), P + 10 * 2, {"activation": "Relu"}),
    Operator(
        MS + "FusedGemm", (A, B), P + 10 * 2, {"activation": "LeakyRelu", "activation_alpha": 0.1}
    ),
    # C, max(0, x)
    Operator(
        MS + "GemmFloat8",
        (A, "float[5,3]", "float[2,5]"),
        P + 10 * 2,
        {"transB": 1, "beta": 1.0, "activation": "RELU"},
        check="infer",
    ),
    Operator(MS + "GemmFastGelu", (A, B, "float[5]"), P + 10 * 10, check="infer"),
    Operator(MS + "MatMulInteger16", ("int16[2,3]", "int16[3,5]"), P),
    # a factor, a bias
    Operator(
        MS + "MatMulIntegerToFloat",
        ("uint8[2,3]", "uint8[3,5]", S, S, Z, Z, "float[5]"),
        P + 10 * 2,
    ),
    # 6 inputs of 7, 7 for scale and zero point; a factor, a bias
    Operator(
        MS + "DynamicQuantizeMatMul", (A, "int8[3,5]", S, ZI, "float[5]"), 6 * 7 + 7 + P + 10 * 2
    ),
    # a bias, 5 to quantise
    Operator(MS + "QGemm", ("uint8[2,3]", S, Z, "uint8[3,5]", S, Z, "int32[5]", S, Z), P + 10 * 6),
    # a factor
    Operator(MS + "QGemm", ("uint8[2,3]", S, Z, "uint8[5,3]", S, Z), P + 10, {"transB": 1}),
    Operator(
        MS + "QOrderedMatMul",
        ("int8[1,2,3]", S, "int8[3,5]", S, S, "float[5]"),
        P + 10 * 6,
        {"order_A": 1, "order_B": 0, "order_Y": 1},
        check="infer",
    ),
]

_SIZES = {"K": 32, "N": 4, "block_size": 32, "bits": 4}
# 2 rows of 128 multiply-adds; 128 weights, each a difference and a product
_TWO_ROWS = 2 * 256 + 128 * 2

PACKED = [
    Operator(MS + "MatMulNBits", ("float[2,32]", BITS, "float[4,1]"), _TWO_ROWS, _SIZES),
    # a bias
    Operator(
        MS + "MatMulNBits",
        ("float[2,32]", BITS, "float[4,1]", "uint8[4,1]", "", "float[4]"),
        _TWO_ROWS + 8,
        _SIZES,
    ),
    Operator(
        MS + "MatMulNBits",
        ("float[2,32]", "uint8[4,1,32]", "float[4,1]"),
        _TWO_ROWS,
        {**_SIZES, "bits": 8},
    ),
    Operator(
        MS + "MatMulBnb4",
        ("float[2,32]", "uint8[64]", "float[8]"),
        _TWO_ROWS,
        {"K": 32, "N": 4, "block_size": 16, "quant_type": 0},
    ),
    Operator(
        MS + "MatMulFpQ4",
        ("float[2,32]", "uint8[84]", np.array([32, 4])),
        _TWO_ROWS,
        {"blk_quant_type": 1},
    ),
    Operator(
        MS + "MatMulBlockQuantizedFp4Weight",
        ("bfloat16[2,32]", "uint8[4,16]", "uint8[4,2]", "float"),
        _TWO_ROWS,
        check="infer",
    ),
    # 2 rows of 512 multiply-adds, 512 weights, a bias of 8
    Operator(
        MS + "MatMulBlockQuantizedFp8Weight",
        ("bfloat16[2,128]", "float8e4m3fn[4,128]", "float[4,1]", "", "bfloat16[4]"),
        2 * 1024 + 512 * 2 + 8,
        check="infer",
    ),
    # a row of 32 normalised: 4·32 + 1 and a root; two products of 128 multiply-adds and
    # weights; 4 silu of 5, and products
    Operator(
        MS + "MatMulNBitsMlp",
        (ROW, "", "float[32]", BITS, "float[4]", "", BITS, "float[4]", ""),
        130 + 2 * (256 + 256) + 4 * 6,
        {**_SIZES, "activation": "silu"},
        check="infer",
    ),
    # the sum with a skip; products of 128, 64 and 64
    Operator(
        MS + "MatMulNBitsQkv",
        (
            *(ROW, ROW, "float[32]", BITS, "float[4]", "", "uint8[2,1,16]", "float[2]", ""),
            *("uint8[2,1,16]", "float[2]", ""),
        ),
        32 + 130 + 2 * 256 + 2 * 256,
        {"K": 32, "Nq": 4, "Nkv": 2, "block_size": 32, "bits": 4},
        check="infer",
        outputs=4,
    ),
]

# 2 tokens of 4 choose 1 of 3 experts: softmax of 3 (10 and 3 exp), 3 comparisons
_CHOICE = 2 * (13 + 3)
_EXPERTS: tuple[Input, ...] = ("float[2,4]", "float[2,3]", "float[3,8,4]", "", "float[3,4,8]")
_QUANTISED: tuple[Input, ...] = (
    *("float[2,32]", "float[2,3]", "uint8[3,64,16]", "float[3,64]", ""),
    *("uint8[3,32,32]", "float[3,32]", ""),
)

EXPERTS = [
    # each: 32 + 32 multiply-adds, 8 relu, 4 outputs weighed and added
    Operator(MS + "MoE", _EXPERTS, _CHOICE + 2 * (128 + 8 + 8), {"k": 1}),
    # both of 2 choices: 6 more comparisons, 4 weights added and divided, less one sum each;
    # gates of 4 out of 8 rows: ·alpha, sigmoid, ·gate, + beta, ·value
    Operator(
        MS + "MoE",
        ("float[2,4]", "float[2,3]", "float[3,8,4]", "float[3,8]", "float[3,4,4]", "float[3,4]"),
        _CHOICE + 6 + 8 - 2 + 4 * (2 * (32 + 16) + 8 + 4 + 4 * 8 + 8),
        {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "normalize_routing_weights": 1},
    ),
    # each: 2·2048 multiply-adds, 64 relu, 2·32; 4096 weights of 2 experts
    Operator(
        MS + "QMoE",
        _QUANTISED,
        _CHOICE + 2 * (2 * 4096 + 64 + 64) + 2 * 2 * 4096,
        {"k": 1, "expert_weight_bits": 4},
    ),
]

QUANTISATION = [
    Operator(MS + "QuantizeLinear", (A, S, Z), 6 * 5),
    Operator(MS + "DequantizeLinear", (U, S, Z), 6 * 2),
    Operator(
        MS + "QuantizeWithOrder",
        (A, S),
        6 * 4,
        {"order_input": 1, "order_output": 1},
        check="infer",
    ),
    Operator(
        MS + "DequantizeWithOrder",
        ("int8[2,3]", S),
        6,
        {"order_input": 1, "order_output": 1, "to": 1},
        check="infer",
    ),
    Operator(
        MS + "QuantizeBFP",
        (A,),
        6 * 6,
        {"bfp_type": 0},
        check="hand",
        outputs=3,
        shapes=("uint8[?]", "int64[2]", "int64[2]"),
        dims={"y0[0]": 16},
    ),
    Operator(
        MS + "DequantizeBFP",
        ("uint8[16]", np.array([2, 3]), "int64[2]"),
        6,
        {"bfp_type": 0},
        check="hand",
        shapes=("float[2,3]",),
    ),
    # 12 elements dequantised and quantised
    Operator(MS + "QLinearConcat", (S, Z, U, S, Z, U, S, Z), 12 * 7, {"axis": 1}),
    # 6 dequantised, 4 sums and 2 quotients, 2 quantised
    Operator(
        MS + "QLinearReduceMean",
        (U, S, Z, S, Z),
        6 * 2 + 6 + 2 * 5,
        {"axes": [1], "keepdims": 1},
        check="infer",
    ),
    Operator(
        MS + "ReduceSumInteger",
        (U,),
        4,
        {"axes": [1], "keepdims": 0},
        check="hand",
        shapes=("uint32[2]",),
    ),
    # 8 windows of 3 sums and a quotient; 32 dequantised, 8 quantised
    Operator(
        MS + "QLinearAveragePool",
        ("uint8[1,2,4,4]", S, Z, S, Z),
        8 * 4 + 32 * 2 + 8 * 5,
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Operator(
        MS + "QLinearAveragePool",
        ("uint8[1,4,4,2]", S, Z, S, Z),
        8 * 4 + 32 * 2 + 8 * 5,
        {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1},
    ),
    Operator(MS + "QLinearGlobalAveragePool", ("uint8[1,2,4,4]", S, Z, S, Z), 32 + 2 * 5),
    Operator(
        MS + "QLinearGlobalAveragePool",
        ("uint8[1,4,4,2]", S, Z, S, Z),
        32 + 2 * 5,
        {"channels_last": 1},
    ),
    # 2 rows of 32 dequantised
    Operator(
        MS + "GatherBlockQuantized",
        ("uint8[8,16]", np.array([1, 5]), "float[8,1]"),
        64 * 2,
        {"block_size": 32, "bits": 4},
    ),
]
