"""ONNX Runtime's attention for decoders: grouped heads, caches, pages, selected keys."""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_attention_cases import ints, scores
from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import MS

_HEADS = {"num_heads": 4, "kv_num_heads": 2}
G = "float[1,3,32]"  # 3 queries of 4 heads of 8
KV = "float[1,3,16]"  # 3 keys of 2 heads
PAST = "float[1,2,5,8]"

GROUPED = [
    # 4 heads of 3 queries and keys of 8, and the causal mask
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, "", "", ints(2), ints(3)),
        scores(12, 3, 16, 1),
        _HEADS,
        outputs=3,
    ),
    # 5 keys in the cache
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, PAST, PAST, ints(7), ints(8)),
        scores(12, 8, 16, 1),
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
        scores(12, 8, 32, 1) + 3 * 18 * 16,
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
        scores(4, 4, 16, 1) + 3 * 16,
        {**_HEADS, "local_window_size": 4, "softcap": 20.0},
        outputs=3,
    ),
    # lengths depend on data: a cache of fixed length is a full buffer, 2 keys and 3 new ones;
    # a sink: exp, difference, sum
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, PAST, PAST, "int32[1]", "int32", "", "", "", "", "float[4]"),
        scores(12, 5, 16, 1) + 12 * 3,
        _HEADS,
        check="hand",
        outputs=3,
        shapes=("float[1,3,32]", "float[1,2,8,8]", "float[1,2,8,8]"),
    ),
    # heads of 8 normalised: squares and mean 16, epsilon, root, quotients and scale 16
    Operator(
        MS + "GroupQueryAttention",
        (G, KV, KV, "", "", ints(2), ints(3), *[""] * 7, "float[8]", "float[8]"),
        scores(12, 3, 16, 1) + 18 * 34,
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
        scores(12, 8, 32, 1) + 2 * (5 * 6 * 16 + 16 * 16),
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
        scores(12, 3, 16, 1),
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
        scores(4, 4, 16, 1) + scores(8, 2, 16, 1),
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
        scores(12, 5, 16, 1),
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
        scores(12, 4, 16, 1),
        _HEADS,
        check="infer",
        outputs=3,
    ),
]
