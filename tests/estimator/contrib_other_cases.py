"""ONNX Runtime's operators that move, pick, place or measure, and those of old ONNX."""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import MS, X
from tests.estimator.models import Input

I1: Input = np.array(1, np.int64)

POSITIONS = [
    # 24 elements of 3, a factor
    Operator(
        MS + "RotaryEmbedding",
        ("float[1,2,3,4]", "int64[1,3]", "float[8,2]", "float[8,2]"),
        24 * 3,
    ),
    # half of each head of 4
    Operator(
        MS + "RotaryEmbedding",
        ("float[1,3,8]", "int64[1,3]", "float[8,1]", "float[8,1]"),
        12 * 3,
        {"num_heads": 2, "rotary_embedding_dim": 2},
    ),
    Operator(
        MS + "MRotaryEmbedding",
        ("float[1,2,3,4]", "int64[3,1,3]", "float[8,2]", "float[8,2]"),
        24 * 3,
        {"mrope_section": [1, 1, 0]},
    ),
    # sine and cosine of 12; 24 queries and 24 keys of 3
    Operator(
        MS + "GemmaRotaryEmbedding",
        ("float[1,3,4]", *["float16[1,2,3,4]"] * 4),
        24 + 48 * 3,
        check="hand",
        outputs=2,
        shapes=("float16[1,2,3,4]", "float16[1,2,3,4]"),
    ),
    # 9 pairs of 7
    Operator(
        MS + "RelativePositionBias",
        ("float[8,2]", np.array([3]), np.array([3])),
        9 * 7,
        {"max_distance": 8, "is_bidirectional": 1},
        check="hand",
        shapes=("float[1,2,3,3]",),
    ),
    # 3 tokens of 2 heads of 4: a bias each; 4·6 multiply-adds, 6 biases, 4 sums to two
    # halves, two sigmoids, 4; 18 products
    Operator(
        MS + "GatedRelativePositionBias",
        (
            *("float[1,3,8]", "float[8]", "float[1,2,3,3]", "float[4,6]", "float[6]"),
            "float[1,2,1,1]",
        ),
        24 + 6 * (48 + 6 + 4 + 8 + 4) + 18,
        {"num_heads": 2},
        check="infer",
    ),
    Operator(
        MS + "RemovePadding",
        (X, np.array([2, 1], np.int32)),
        0,
        check="hand",
        outputs=4,
        shapes=("float[3,4]", "int32[2,3]", "int32[3]", "int32[1]"),
    ),
    Operator(MS + "RestorePadding", ("float[3,4]", "int32[2,3]"), 0, check="infer"),
    # 3 tokens of 2 heads of 4 normalised and rotated; 9 tokens make 5 blocks: 30 scores of
    # 4 multiply-adds, a comparison and a sum; 3 sorts of 5
    Operator(
        MS + "SparseAttentionIndexer",
        (
            *("bfloat16[1,3,8]", "bfloat16[1,3,4]", "bfloat16[4]", "bfloat16[4]"),
            *("bfloat16[16,2]", "bfloat16[16,2]", "", "bfloat16[1,6,4]"),
        ),
        6 * 18 + 24 * 3 + 30 * (8 + 2) + 3 * 15,
        {"policy_mode": "qsa", "token_budget": 4, "compress_ratio": 2},
        check="infer",
        outputs=2,
    ),
    # 3 tokens close no block of 4 yet: they wait behind the last one; entries of the state
    Operator(
        MS + "SparseAttentionIndexer",
        (
            *("bfloat16[1,3,8]", "bfloat16[1,3,8]", "bfloat16[4]", "bfloat16[4]"),
            *("bfloat16[16,2]", "bfloat16[16,2]", "", "bfloat16[1,6,4]", "bfloat16[1,3,8]"),
            *("bfloat16[4,8]", "bfloat16[1,3,2]", "int64[1,3]", "", "bfloat16[2,1,4,8]"),
        ),
        6 * 18 + 24 * 3 + 36 * (8 + 3) + 3 * 18,
        {"policy_mode": "csa", "index_topk": 2, "compress_ratio": 4},
        check="infer",
        outputs=3,
    ),
    # 8 entries of the state: 3·2·8 scores, 3 sorts of 8
    Operator(
        MS + "PackedSparseAttentionIndexer",
        (
            *("bfloat16[3,8]", "bfloat16[3,4]", "bfloat16[4]", "bfloat16[4]"),
            *("bfloat16[16,2]", "bfloat16[16,2]", "int32[2]", "int32[1]", "", "", "", ""),
            *("bfloat16[1,8,4]", "bfloat16[1,3,4]", "", "int32[1,2]"),
        ),
        6 * 18 + 24 * 3 + 48 * (8 + 2) + 3 * 24,
        {"policy_mode": "qsa", "token_budget": 4, "compress_ratio": 2, "state_capacity": 8},
        check="infer",
        outputs=6,
        left_out=(4,),
    ),
]

MOVEMENT = [
    Operator(MS + "ExpandDims", (X, np.array(1, np.int32)), 0),
    Operator(MS + "ExpandDims", (X, np.array(-1, np.int32)), 0),
    Operator(MS + "GatherND", (X, "int64[2,1]"), 0),
    Operator(MS + "Pad", (X, np.array([[0, 0, 1, 0, 0, 1]])), 0),
    Operator(MS + "Range", (np.array(1.0, np.float32), np.array(6.0, np.float32)), 0),
    Operator(MS + "Trilu", ("float[3,3]",), 0),
    Operator(MS + "UnfoldTensor", ("float[2,9]",), 0, {"size": 3, "step": 2}),
    Operator(MS + "TorchEmbedding", ("float[9,4]", "int64[2,3]"), 0, check="infer"),
    # sort 24 in 5 rounds, 23 neighbours
    Operator(
        MS + "Unique",
        ("float[24]",),
        24 * 5 + 23,
        outputs=3,
        dims={"y0[0]": 20, "y2[0]": 20},
    ),
    # 3 regions of 4 places: 2·2 for coordinates, 10 for weights; 24 outputs of 7
    Operator(
        MS + "CropAndResize",
        ("float[1,2,4,4]", "float[3,4]", np.zeros(3, np.int32), np.array([2, 2], np.int32)),
        12 * 14 + 24 * 7,
    ),
    # 6 pairs of vectors of 4: 4 differences, 4 squares, 3 sums
    Operator(MS + "CDist", ("float[2,4]", "float[3,4]"), 6 * 11),
    Operator(MS + "CDist", ("float[2,4]", "float[3,4]"), 6 * 12, {"metric": "euclidean"}),
    # 2 transforms of 8: 2.5·8·3
    Operator(
        MS + "Rfft",
        ("float[2,8]",),
        2 * 60,
        {"signal_ndim": 1},
        check="infer",
        shapes=("float[2,5,2]",),
    ),
    # and 16 quotients
    Operator(
        MS + "Irfft",
        ("float[2,5,2]",),
        2 * 60 + 16,
        {"signal_ndim": 1},
        check="infer",
        shapes=("float[2,8]",),
    ),
    # two comparisons and a sum
    Operator(MS + "DynamicTimeWarping", ("float[3,4]",), 12 * 3, dims={"y0[1]": 5}),
    # 5 places of 2 tokens for 2 sequences
    Operator(MS + "NGramRepeatBlock", ("int64[2,7]", "float[2,9]"), 2 * 5 * 2, {"ngram_size": 3}),
    # pairs: 2 products and an xor, triples: 3 and 2; 4 remainders
    Operator(
        MS + "NGramHashMapping",
        ("int64[2,5]", "int64[3]", "int64[4]"),
        10 * (3 + 5 + 4),
        {"pad_id": 0, "n_head_per_ngram": 2, "max_ngram_size": 3},
        outputs=2,
    ),
    Operator(
        MS + "VarlenNGramHashMapping",
        ("int64[6]", "int64[3]", "int64[4]", np.array([0, 2, 6], np.int32)),
        6 * (3 + 5 + 4),
        {"pad_id": 0, "n_head_per_ngram": 2, "max_ngram_size": 3},
        outputs=2,
    ),
    # 5 places of n-grams of 1 to 3, 6 tokens predicted
    Operator(
        MS + "BifurcationDetector",
        ("int64[5]", "int64[4]", np.array(0), "int64[6]"),
        5 * 6 + 6,
        outputs=2,
        dims={"y0[0]": 6},
    ),
    Operator(
        MS + "Tokenizer",
        ("string[2]",),
        0,
        {"mark": 0, "mincharnum": 1, "pad_value": "#", "separators": [" "]},
        dims={"y0[1]": 1},
    ),
    # 2 words of 6 letters: 5 windows of 3 filters over 2 x 4; bias and maximum, tanh
    Operator(
        MS + "WordConvEmbedding",
        ("int32[2,6]", "float[3,1,2,4]", "float[3]", "float[9,4]"),
        30 * (2 * 8 + 2 + 1),
    ),
]

LEGACY = [
    Operator("Affine", (X,), 48, {"alpha": 2.0, "beta": 1.0}, opset=9),
    Operator(
        "ImageScaler", ("float[1,3,2,4]",), 48, {"bias": [1.0, 2.0, 3.0], "scale": 2.0}, opset=9
    ),
    Operator("Scale", (X,), 24, {"scale": 2.0}, opset=9),
    # ·b, exp, + 1, log, ·a
    Operator("ParametricSoftplus", (X,), 24 * 5, {"alpha": 2.0, "beta": 1.0}, opset=9),
    Operator("ScaledTanh", (X,), 24 * 3, {"alpha": 2.0, "beta": 1.0}, opset=9),
    Operator("Crop", ("float[1,2,5,6]",), 0, {"border": [1, 0, 2, 1]}, opset=9),
    Operator("Crop", ("float[1,2,5,6]",), 0, {"border": [1, 1, 1, 1], "scale": [2, 3]}, opset=9),
    Operator("DynamicSlice", (X, np.array([0, 1]), np.array([1, -1])), 0, opset=9),
    # no input: a constant, computed beforehand
    Operator(
        "GivenTensorFill",
        (),
        0,
        {"values": [1.0] * 6, "shape": [2, 3]},
        opset=9,
        check="hand",
        shapes=("float[2,3]",),
    ),
    # 4 elements: two sigmoids, a tanh, 4 to update
    Operator(
        "GRUUnit",
        ("float[1,2,2]", "float[1,2,6]", "float[2]", "float"),
        4 * (8 + 1 + 4),
        opset=9,
        check="hand",
        shapes=("float[1,2,2]",),
    ),
    Operator("MemcpyFromHost", (X,), 0),
    Operator("MemcpyToHost", (X,), 0),
]
