"""ONNX Runtime's attention, and the work it must have.

A row of n scores: n factors, and a softmax of 4·n - 2 operations and n exp.
"""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import MS, S, Z
from tests.estimator.models import Input


def ints(*values: int) -> Input:
    """Stored lengths."""
    return np.array(values, np.int32)


# 3 tokens of 4 to queries, keys and values of 4: 3·4·12 multiply-adds, 36 biases
_PROJECTED = 2 * 144 + 36
_ONE: tuple[Input, ...] = ("float[1,3,4]", "float[4,12]", "float[12]")


def scores(n_rows: int, n_keys: int, widths: int, summands: int = 0) -> int:
    """Rows of scores: 2·widths for the products, 1 + summands, and softmax."""
    return n_rows * (n_keys * (2 * widths + 1 + summands) + 5 * n_keys - 2)


PROJECTED = [
    # 2 heads of 3 queries and keys of 2, values of 2
    Operator(MS + "Attention", _ONE, _PROJECTED + scores(6, 3, 4), {"num_heads": 2}),
    # 5 keys in the cache; a mask
    Operator(
        MS + "Attention",
        (*_ONE, "int32[1,8]", "float[2,1,2,5,2]"),
        _PROJECTED + scores(6, 8, 4, 1),
        {"num_heads": 2, "unidirectional": 1},
        outputs=2,
    ),
    # values of 4 in 2 heads, queries and keys of 2: 3·4·8 multiply-adds, 24 biases
    Operator(
        MS + "Attention",
        ("float[1,3,4]", "float[4,8]", "float[8]"),
        2 * 96 + 24 + scores(6, 3, 1 + 2),
        {"num_heads": 2, "qkv_hidden_sizes": [2, 2, 4]},
    ),
    # a buffer of 8, of which 5 are valid; queries and keys rotated: 2·3·2·2 elements
    Operator(
        MS + "Attention",
        (*_ONE, "", "float[2,1,2,8,2]", "", ints(5)),
        _PROJECTED + 3 * 24 + scores(6, 8, 4),
        {"num_heads": 2, "past_present_share_buffer": 1, "do_rotary": 1},
        check="infer",
        outputs=2,
        shapes=("float[1,3,4]", "float[2,1,2,8,2]"),
    ),
    # each of 36 projected elements also takes a factor
    Operator(
        MS + "QAttention",
        ("uint8[1,3,4]", "int8[4,12]", "float[12]", S, S, "", Z),
        _PROJECTED + 36 + scores(6, 3, 4),
        {"num_heads": 2},
    ),
    Operator(
        MS + "QAttention",
        (
            *("uint8[1,3,4]", "int8[4,12]", "float[12]", S, S, "", Z),
            *(np.array(0, np.int8), "float[2,1,2,5,2]"),
        ),
        _PROJECTED + 36 + scores(6, 8, 4, 1),
        {"num_heads": 2, "unidirectional": 1},
        outputs=2,
    ),
    # one query, 5 keys of a buffer of 8 before it: 4·12 multiply-adds
    Operator(
        MS + "DecoderMaskedSelfAttention",
        ("float[1,1,4]", "float[4,12]", "float[12]", "", "float[2,1,2,8,2]", "", ints(5)),
        2 * 48 + 12 + scores(2, 6, 4),
        {"num_heads": 2, "past_present_share_buffer": 1},
        check="infer",
        outputs=2,
        shapes=("float[1,1,4]", "float[2,1,2,8,2]"),
    ),
    # sequences of 1 and 2 tokens
    Operator(
        MS + "PackedAttention",
        ("float[3,4]", "float[4,12]", "float[12]", "int32[2,4]", ints(0, 1, 3)),
        _PROJECTED + scores(2, 1, 4) + scores(4, 2, 4),
        {"num_heads": 2},
        check="infer",
    ),
    # lengths depend on data: each of 3 tokens with up to 3 keys
    Operator(
        MS + "PackedAttention",
        ("float[3,4]", "float[4,12]", "float[12]", "int32[2,4]", "int32[3]"),
        _PROJECTED + scores(6, 3, 4),
        {"num_heads": 2},
        check="infer",
    ),
    # quantised: 36 projected, 18 scores, 12 results
    Operator(
        MS + "QOrderedAttention",
        (
            *("int8[1,3,4]", S, S, S, S, "int8[4,4]", "int8[4,4]", "int8[4,4]", S, S, S),
            *("float[4]", "float[4]", "float[4]", S, S, S),
        ),
        _PROJECTED + 5 * (36 + 18 + 12) + scores(6, 3, 4),
        {"num_heads": 2, "order_input": 1, "order_weight": 1, "order_output": 1},
        check="infer",
    ),
    # 4 tokens, two projections to 12; a window of 3 keys and a mask
    Operator(
        MS + "LongformerAttention",
        (
            *("float[1,4,4]", "float[4,12]", "float[12]", "float[1,4]"),
            *("float[4,12]", "float[12]", "int32[1,4]"),
        ),
        2 * (2 * 192 + 48) + scores(8, 3, 4, 1),
        {"num_heads": 2, "window": 1},
        check="infer",
    ),
    Operator(
        MS + "QOrderedLongformerAttention",
        (
            *("int8[1,4,4]", S, "int8[4,12]", S, "float[12]", S, S, "float16[1,4]"),
            *("int8[4,12]", S, "float[12]", S, "int32[1,4]", S),
        ),
        2 * (2 * 192 + 48) + scores(8, 3, 4, 1),
        {
            "num_heads": 2,
            "window": 1,
            **{f"order_{name}": 1 for name in ("input", "weight", "global_weight", "output")},
        },
        check="hand",
        shapes=("int8[1,4,4]",),
    ),
    # self attention of 2 steps behind 3 cached: 3 projections of 8 by 4
    Operator(
        MS + "DecoderAttention",
        (
            *("float[2,1,4]", "float[2,1,4]", "float[4,4]", "float[4,8]", "float[12]", ""),
            *("float[1,2,3,2]", "float[1,2,3,2]"),
            *(np.array([flag]) for flag in (False, True, True, False)),
        ),
        3 * (2 * 32 + 8) + scores(4, 5, 4),
        {"num_heads": 2},
        check="hand",
        outputs=3,
        shapes=("float[2,1,4]", "float[1,2,5,2]", "float[1,2,5,2]"),
    ),
]

Q, K = "float[1,3,4]", "float[1,5,4]"
CACHE = "float[1,2,6,2]"

MULTIHEAD = [
    # 2 heads, 3 queries, 5 keys; values of 3
    Operator(
        MS + "MultiHeadAttention",
        (Q, K, "float[1,5,6]"),
        scores(6, 5, 2 + 3),
        {"num_heads": 2},
    ),
    # biases for 12 queries, 20 keys, 20 values; a mask, a bias of scores
    Operator(
        MS + "MultiHeadAttention",
        (Q, K, K, "float[12]", "int32[1,5]", "float[1,2,3,5]"),
        52 + scores(6, 5, 4, 2),
        {"num_heads": 2},
    ),
    # all in one tensor
    Operator(
        MS + "MultiHeadAttention",
        ("float[1,3,2,3,2]",),
        scores(6, 3, 4),
        {"num_heads": 2},
        check="infer",
    ),
    Operator(
        MS + "MultiHeadAttention",
        (Q, "float[1,5,2,2,2]"),
        scores(6, 5, 4),
        {"num_heads": 2},
        check="infer",
    ),
    # 6 keys in the cache, 3 new ones
    Operator(
        MS + "MultiHeadAttention",
        (Q, Q, Q, "", "", "", CACHE, CACHE),
        scores(6, 9, 4, 1),
        {"num_heads": 2, "unidirectional": 1},
        outputs=3,
    ),
    # a cache of 5 keys that is only read
    Operator(
        MS + "MultiHeadAttention",
        (Q, "float[1,2,5,2]", "float[1,2,5,2]"),
        scores(6, 5, 4),
        {"num_heads": 2},
    ),
    # one query behind 4 keys in a buffer of 6; the scores come out
    Operator(
        MS + "DecoderMaskedMultiHeadAttention",
        ("float[1,1,4]", "float[1,1,4]", "float[1,1,4]", "", "", CACHE, CACHE, ints(4)),
        scores(2, 5, 4),
        {"num_heads": 2, "past_present_share_buffer": 1},
        outputs=3,
    ),
    # cross attention over 5 keys
    Operator(
        MS + "DecoderMaskedMultiHeadAttention",
        ("float[1,1,4]", "float[1,2,5,2]", "float[1,2,5,2]"),
        scores(2, 5, 4),
        {"num_heads": 2},
    ),
    # one token of 1, two of 2 keys; 12 biases each
    Operator(
        MS + "PackedMultiHeadAttention",
        ("float[3,4]", "float[3,4]", "float[3,4]", "float[12]", "int32[2,4]", ints(0, 1, 3)),
        36 + scores(2, 1, 4) + scores(4, 2, 4),
        {"num_heads": 2},
        check="infer",
    ),
    Operator(
        MS + "PackedMultiHeadAttention",
        ("float[3,2,3,2]", "", "", "", "int32[2,4]", ints(0, 1, 3)),
        scores(2, 1, 4) + scores(4, 2, 4),
        {"num_heads": 2},
        check="infer",
    ),
]
