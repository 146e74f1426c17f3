"""A decoded token against LLM-Viewer's own figures (arXiv:2402.16363), recorded by running it.

https://github.com/hahnyuan/LLM-Viewer, commit 472f71f1, ``analyze(seqlen=1024, batchsize=1)`` with
``configs/Llama.py`` and weights, activations and cache of 16 bits. It differs in three things: it
counts no norms and biases among the weights, one operation for each weight of the output (and two
for others), and the head's width as hidden / heads, which Qwen3's is not.
"""

from __future__ import annotations

import pytest

from mansard.estimator import totals
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.catalogue import architecture
from tests.estimator.language.small_models import score_stage

N_TOKENS = 1024
# Its load_weight, load_kv_cache (bytes) and OPs of the stage decode.
RECORDED = {
    "tinyllama-1.1b": (2_068_840_448, 23_068_672, 2_192_269_312),
    "smollm2-1.7b": (3_422_552_064, 201_326_592, 3_528_032_256),
    "llama-3.2-1b": (2_471_493_632, 33_554_432, 2_346_254_336),
    "llama-3.1-8b": (15_009_316_864, 134_217_728, 15_028_453_376),
    "llama-3.3-70b": (139_003_428_864, 335_544_320, 140_675_121_152),
    "mistral-7b": (14_227_079_168, 134_217_728, 14_637_334_528),
    "qwen2.5-7b": (14_140_571_648, 58_720_256, 14_012_436_480),
}


def elementwise(model: Architecture) -> int:
    """Its operations of softmax (5), two norms (7 each), two sums and the activation (2)."""
    heads = model.blocks[0].attention.n_heads
    return len(model.blocks) * (5 * heads * N_TOKENS + (2 * 7 + 2 + 2) * model.hidden)


@pytest.mark.parametrize("name", RECORDED)
def test_weights_cache_and_products_of_a_token(name: str) -> None:
    load_weight, load_kv_cache, operations = RECORDED[name]
    model = architecture(name)
    score = score_stage(model, 1, N_TOKENS - 1)
    unread = () if model.is_tied else ("token_embd.weight",)
    matrices = [
        weight.n_bytes
        for tensor, weight in model.weights.items()
        if len(weight.shape) > 1 and tensor not in unread
    ]
    assert sum(matrices) == load_weight
    assert score.kv_cache_bytes == load_kv_cache
    products = operations - elementwise(model) + model.hidden * model.vocabulary
    macs = totals(score).macs
    assert macs is not None
    assert 2 * macs == products


def test_a_head_is_as_wide_as_its_config_says() -> None:
    # 36 blocks, keys and values, 8 heads of 128 (not 2560 / 32 = 80), 2 bytes. It says 94,371,840.
    cache = score_stage(architecture("qwen3-4b"), 1, N_TOKENS - 1).kv_cache_bytes
    assert cache == 36 * 2 * 1024 * 8 * 128 * 2 == 94_371_840 * 128 // 80
