"""Operators of language models that are drawn: stored matrices, experts, latent attention."""

from __future__ import annotations

import numpy as np

from tests.estimator.contrib_attention_cases import scores
from tests.estimator.contrib_models import Operator
from tests.estimator.models import Input

_OWN = "mansard."


def _stored(n_bytes: int) -> Input:
    return np.zeros(n_bytes, "uint8")


# 2 tokens with the compressed rows of 3 more: 2 heads of 4 + 2 (values of 4), rows of 6 + 2
_ROWS: tuple[Input, ...] = ("float[1,2,12]", "float[1,2,8]", "float[1,3,8]", "float[6]")
_LATENT = {"num_heads": 2, "width": 4, "v_width": 4, "rank": 6, "rotary": 2, "unpack_ops": 3}
# Both forms: the matrix of 6 × 2·(4 + 4) = 96 unpacked with 3 operations each; 3 operations for
# each of 2 rotated numbers of 2 tokens in 2 heads and the key; 2 rows of 6 normalised.
_BOTH = 3 * 96 + 3 * 2 * 2 * 3 + 2 * (3 * 6 + 2 + 6)

LANGUAGE = [
    # 6 rows of 32 multiply-adds; 4·32 weights unpacked once, with 3 operations each
    Operator(
        _OWN + "MatMulStored",
        ("float[2,3,32]", _stored(4 * 18)),
        2 * 6 * 4 * 32 + 3 * 4 * 32,
        {"N": 4, "K": 32, "unpack_ops": 3},
        check="hand",
        shapes=("float[2,3,4]",),
    ),
    # 3 rows of 32, each number unpacked
    Operator(
        _OWN + "GatherStored",
        (_stored(10 * 18), "int64[3]"),
        3 * 3 * 32,
        {"N": 10, "K": 32, "unpack_ops": 3, "dtype": 1},
        check="hand",
        shapes=("float[3,32]",),
    ),
    # 2 tokens in 2 of 5 experts: a softmax of 5 (5·5 - 2) and 2·5 comparisons each; a choice takes
    # 3 matrices of 8·16, 16 silu (5 operations: -x, exp, 1 +, 1 /, ·x) and products, 2 for each
    # of 8 outputs; 4 experts are unpacked at most
    Operator(
        _OWN + "ExpertsStored",
        ("float[2,8]", "float[2,5]", *(_stored(5 * 8 * 16) for _ in range(3))),
        2 * (5 * 5 - 2) + 2 * 2 * (5 + 2 * 3 * 8 * 16 + 6 * 16 + 2 * 8) + 1 * 4 * 3 * 8 * 16,
        {"n_experts": 5, "n_active": 2, "hidden": 8, "inner": 16, "unpack_ops": 1},
        check="hand",
        shapes=("float[2,8]",),
    ),
    # expanded: 5 rows become keys and values, 2·5·96; 4 rows of 5 keys of 6 and values of 4.
    # Absorbed: 2·2·96 for the queries and results, then keys of 8 and values of 6: cheaper
    Operator(
        _OWN + "LatentAttention",
        (*_ROWS, _stored(96)),
        min(2 * 5 * 96 + scores(4, 5, 6 + 4, 1), 2 * 2 * 96 + scores(4, 5, 8 + 6, 1)) + _BOTH,
        _LATENT,
        check="hand",
        outputs=2,
        shapes=("float[1,2,8]", "float[1,5,8]"),
    ),
    # without a cache both make 2·2·96: the expanded form is cheaper
    Operator(
        _OWN + "LatentAttention",
        (*_ROWS[:2], "", _ROWS[3], _stored(96)),
        2 * 2 * 96 + scores(4, 2, 6 + 4, 1) + _BOTH,
        _LATENT,
        check="hand",
        outputs=2,
        shapes=("float[1,2,8]", "float[1,2,8]"),
    ),
]
