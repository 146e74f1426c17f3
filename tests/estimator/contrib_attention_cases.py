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


def _scores(n_rows: int, n_keys: int, widths: int, summands: int = 0) -> int:
    """Rows of scores: 2·widths for the products, 1 + summands, and softmax."""
    return n_rows * (n_keys * (2 * widths + 1 + summands) + 5 * n_keys - 2)


PROJECTED = [
    # 2 heads of 3 queries and keys of 2, values of 2
    Operator(MS + "Attention", _ONE, _PROJECTED + _scores(6, 3, 4), {"num_heads": 2}),
    # 5 keys in the cache; a mask
    Operator(
        MS + "Attention",
        (*_ONE, "int32[1,8]", "float[2,1,2,5,2]"),
        _PROJECTED + _scores(6, 8, 4, 1),
        {"num_heads": 2, "unidirectional": 1},
        outputs=2,
    ),
    # values of 4 in 2 heads, queries and keys of 2: 3·4·8 multiply-adds, 24 biases
    Operator(
        MS + "Attention",
        ("float[1,3,4]", "float[4,8]", "float[8]"),
        2 * 96 + 24 + _scores(6, 3, 1 + 2),
        {"num_heads": 2, "qkv_hidden_sizes": [2, 2, 4]},
    ),
    # a buffer of 8, of which 5 are valid; queries and keys rotated: 2·3·2·2 elements
    Operator(
        MS + "Attention",
        (*_ONE, "", "float[2,1,2,8,2]", "", ints(5)),
        _PROJECTED + 3 * 24 + _scores(6, 8, 4),
        {"num_heads": 2, "past_present_share_buffer": 1, "do_rotary": 1},
        check="infer",
        outputs=2,
        shapes=("float[1,3,4]", "float[2,1,2,8,2]"),
    ),
    # each of 36 projected elements also takes a factor
    Operator(
        MS + "QAttention",
        ("uint8[1,3,4]", "int8[4,12]", "float[12]", S, S, "", Z),
        _PROJECTED + 36 + _scores(6, 3, 4),
        {"num_heads": 2},
    ),
    Operator(
        MS + "QAttention",
        (
            *("uint8[1,3,4]", "int8[4,12]", "float[12]", S, S, "", Z),
            *(np.array(0, np.int8), "float[2,1,2,5,2]"),
        ),
        _PROJECTED + 36 + _scores(6, 8, 4, 1),
        {"num_heads": 2, "unidirectional": 1},
        outputs=2,
    ),
    # one query, 5 keys of a buffer of 8 before it: 4·12 multiply-adds
    Operator(
        MS + "DecoderMaskedSelfAttention",
        ("float[1,1,4]", "float[4,12]", "float[12]", "", "float[2,1,2,8,2]", "", ints(5)),
        2 * 48 + 12 + _scores(2, 6, 4),
        {"num_heads": 2, "past_present_share_buffer": 1},
        check="infer",
        outputs=2,
        shapes=("float[1,1,4]", "float[2,1,2,8,2]"),
    ),
    # sequences of 1 and 2 tokens
    Operator(
        MS + "PackedAttention",
        ("float[3,4]", "float[4,12]", "float[12]", "int32[2,4]", ints(0, 1, 3)),
        _PROJECTED + _scores(2, 1, 4) + _scores(4, 2, 4),
        {"num_heads": 2},
        check="infer",
    ),
    # lengths depend on data: each of 3 tokens with up to 3 keys
    Operator(
        MS + "PackedAttention",
        ("float[3,4]", "float[4,12]", "float[12]", "int32[2,4]", "int32[3]"),
        _PROJECTED + _scores(6, 3, 4),
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
        _PROJECTED + 5 * (36 + 18 + 12) + _scores(6, 3, 4),
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
        2 * (2 * 192 + 48) + _scores(8, 3, 4, 1),
        {"num_heads": 2, "window": 1},
        check="infer",
    ),
    Operator(
        MS + "QOrderedLongformerAttention",
        (
            *("int8[1,4,4]", S, "int8[4,12]", S, "float[12]", S, S, "float16[1,4]"),
            *("int8[4,12]", S, "float[12]", S, "int32[1,4]", S),
        ),
        2 * (2 * 192 + 48) + _scores(8, 3, 4, 1),
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
        3 * (2 * 32 + 8) + _scores(4, 5, 4),
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
        _scores(6, 5, 2 + 3),
        {"num_heads": 2},
    ),
    # biases for 12 queries, 20 keys, 20 values; a mask, a bias of scores
    Operator(
        MS + "MultiHeadAttention",
        (Q, K, K, "float[12]", "int32[1,5]", "float[1,2,3,5]"),
        52 + _scores(6, 5, 4, 2),
        {"num_heads": 2},
    ),
    # all in one tensor
    Operator(
        MS + "MultiHeadAttention",
        ("float[1,3,2,3,2]",),
        _scores(6, 3, 4),
        {"num_heads": 2},
        check="infer",
    ),
    Operator(
        MS + "MultiHeadAttention",
        (Q, "float[1,5,2,2,2]"),
        _scores(6, 5, 4),
        {"num_heads": 2},
        check="infer",
    ),
    # 6 keys in the cache, 3 new ones
    Operator(
        MS + "MultiHeadAttention",
        (Q, Q, Q, "", "", "", CACHE, CACHE),
        _scores(6, 9, 4, 1),
        {"num_heads": 2, "unidirectional": 1},
        outputs=3,
    ),
    # a cache of 5 keys that is only read
    Operator(
        MS + "MultiHeadAttention",
        (Q, "float[1,2,5,2]", "float[1,2,5,2]"),
        _scores(6, 5, 4),
        {"num_heads": 2},
    ),
    # one query behind 4 keys in a buffer of 6; the scores come out
    Operator(
        MS + "DecoderMaskedMultiHeadAttention",
        ("float[1,1,4]", "float[1,1,4]", "float[1,1,4]", "", "", CACHE, CACHE, ints(4)),
        _scores(2, 5, 4),
        {"num_heads": 2, "past_present_share_buffer": 1},
        outputs=3,
    ),
    # cross attention over 5 keys
    Operator(
        MS + "DecoderMaskedMultiHeadAttention",
        ("float[1,1,4]", "float[1,2,5,2]", "float[1,2,5,2]"),
        _scores(2, 5, 4),
        {"num_heads": 2},
    ),
    # one token of 1, two of 2 keys; 12 biases each
    Operator(
        MS + "PackedMultiHeadAttention",
        ("float[3,4]", "float[3,4]", "float[3,4]", "float[12]", "int32[2,4]", ints(0, 1, 3)),
        36 + _scores(2, 1, 4) + _scores(4, 2, 4),
        {"num_heads": 2},
        check="infer",
    ),
    Operator(
        MS + "PackedMultiHeadAttention",
        ("float[3,2,3,2]", "", "", "", "int32[2,4]", ints(0, 1, 3)),
        _scores(2, 1, 4) + _scores(4, 2, 4),
        {"num_heads": 2},
        check="infer",
    ),
]

_HEADS = {"num_heads": 4, "kv_num_heads": 2}
G = "float[1,3,32]"  # 3 queries of 4 heads of 8
KV = "float[1,3,16]"  # 3 keys of 2 heads
PAST = "float[1,2,5,8]"

GROUPED = [
    # 4 heads of 3 queries and keys of 8, and the causal mask
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, "", "", ints(2), ints(3)),
        _scores(12, 3, 16, 1),
        _HEADS,
        outputs=3,
    ),
    # 5 keys in the cache
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, PAST, PAST, ints(7), ints(8)),
        _scores(12, 8, 16, 1),
        _HEADS,
        outputs=3,
    ),
    # rows that hold queries, keys and values; 3·(4 + 2) vectors of 16 rotated
    Operator(
        MS + "GroupQueryAttention",
        (
            *("float[1,3,128]", "", "", "float[1,2,5,16]", "float[1,2,5,16]"),
            *(ints(7), ints(8), "float[16,8]", "float[16,8]"),
        ),
        _scores(12, 8, 32, 1) + 3 * 18 * 16,
        {**_HEADS, "do_rotary": 1},
        outputs=3,
    ),
    # a buffer of 16 holds 7 keys; one query behind them, a window of 4, a cap
    Operator(
        MS + "GroupQueryAttention",
        (
            *("float[1,1,32]", "float[1,1,16]", "float[1,1,16]"),
            *("float[1,2,16,8]", "float[1,2,16,8]", ints(7), ints(8)),
        ),
        _scores(4, 4, 16, 1) + 3 * 16,
        {**_HEADS, "local_window_size": 4, "softcap": 20.0},
        outputs=3,
    ),
    # lengths depend on data: the cache of 5 and 3 new keys; a sink: exp, difference, sum
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, PAST, PAST, "int32[1]", "int32", "", "", "", "", "float[4]"),
        _scores(12, 8, 16, 1) + 12 * 3,
        _HEADS,
        check="hand",
        outputs=3,
        shapes=("float[1,3,32]", "float[1,2,8,8]", "float[1,2,8,8]"),
    ),
    # heads of 8 normalised: squares and mean 16, epsilon, root, quotients and scale 16
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, "", "", ints(2), ints(3), *[""] * 7, "float[8]", "float[8]"),
        _scores(12, 3, 16, 1) + 18 * 34,
        _HEADS,
        check="infer",
        outputs=3,
    ),
    # 8-bit keys of 16: 6 rows of them quantised, 16 rows scaled, and so for values
    Operator(
        MS + "GroupQueryAttention",
        (
            *("float[1,3,64]", "float[1,3,32]", "float[1,3,32]"),
            *("int8[1,2,5,16]", "int8[1,2,5,16]", ints(7), ints(8), "", "", "", "", ""),
            *("float[1]", "float[1]"),
        ),
        _scores(12, 8, 32, 1) + 2 * (5 * 6 * 16 + 16 * 16),
        {
            **_HEADS,
            "k_quant_type": "PER_TENSOR",
            "v_quant_type": "PER_TENSOR",
            "kv_cache_bit_width": 8,
        },
        outputs=3,
    ),
    # 16 positions in 1 block of 16: all keys so far, and the mask
    Operator(
        MS + "SparseAttention",
        (
            *("float[1,3,32]", KV, KV, "float[1,2,16,8]", "float[1,2,16,8]"),
            *(np.array([[0, 1]], np.int32), np.array([[0]], np.int32), ints(3), ints(3)),
        ),
        _scores(12, 3, 16, 1),
        {**_HEADS, "sparse_block_size": 16},
        check="infer",
        outputs=3,
    ),
    # sequences of 1 and 2 tokens behind 3 and 0 cached: 1·4 + 2·2 pairs a head
    Operator(
        MS + "PagedAttention",
        (
            *("bfloat16[3,32]", "bfloat16[3,16]", "bfloat16[3,16]"),
            *("bfloat16[4,16,2,8]", "bfloat16[4,16,2,8]"),
            *(ints(0, 1, 3), ints(3, 0), "int32[2,2]"),
        ),
        _scores(4, 4, 16, 1) + _scores(8, 2, 16, 1),
        _HEADS,
        check="infer",
        outputs=3,
    ),
    # 5 selected keys for each of 3 tokens
    Operator(
        MS + "SparsePagedAttention",
        (
            *("bfloat16[3,32]", "bfloat16[3,16]", "bfloat16[3,16]"),
            *("bfloat16[4,16,2,8]", "bfloat16[4,16,2,8]"),
            *(ints(0, 1, 3), ints(3, 0), "int32[2,2]", "", "int32[3,5]", "int32[3]"),
        ),
        _scores(12, 5, 16, 1),
        _HEADS,
        check="infer",
        outputs=3,
    ),
    Operator(
        MS + "DynamicSparseAttention",
        (
            *("float[1,3,32]", KV, KV, PAST, PAST, "", "", "int32[3,4]", "int32[3]"),
            *(ints(7), ints(8)),
        ),
        _scores(12, 4, 16, 1),
        _HEADS,
        check="infer",
        outputs=3,
    ),
]
