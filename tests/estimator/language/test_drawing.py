"""What is counted of a drawn language model, by hand."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.records import LayerScore, ModelScore
from mansard.core.weight_formats import WEIGHT_FORMATS
from mansard.estimator import totals
from mansard.estimator.language.architecture import (
    Architecture,
    DecoderBlock,
    ExpertSizes,
    LatentSizes,
)
from tests.estimator.language.small_models import (
    HEADS,
    HIDDEN,
    INNER,
    KV_HEADS,
    WIDTH,
    WORDS,
    attention,
    llama,
    score_stage,
    with_weights,
)

# Of one block: queries and output 256 x 256 each, keys and values 128 x 256 each, and three
# matrices of 512 x 256.
OF_BLOCK = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256
assert OF_BLOCK == 589_824
HEAD = WORDS * HIDDEN


def traffic_bytes(score: ModelScore) -> int:
    total = totals(score).traffic_bytes
    assert total is not None
    return total


def layer(score: ModelScore, name: str) -> LayerScore:
    return next(row for row in score.layers if row.name == name)


@pytest.mark.parametrize(("n_new", "n_cached", "batch"), [(128, 0, 1), (1, 100, 3), (5, 7, 2)])
def test_macs_are_those_of_matrices_attention_and_one_row_of_scores(
    n_new: int, n_cached: int, batch: int
) -> None:
    score = score_stage(llama(n_blocks=2), n_new, n_cached, batch)
    # Scores and their product with the values: 2 · 256 for each pair of a new and a known token.
    attended = 2 * 256 * n_new * (n_new + n_cached)
    expected = 2 * (OF_BLOCK * n_new + attended) + HEAD
    assert totals(score).macs == batch * expected


def test_the_cache_and_the_weights_are_as_large_as_they_are_stored() -> None:
    score = score_stage(llama("Q4_K", n_blocks=2), 1, 99)
    # 144 bytes for 256 weights; 5 vectors of 256 in fp16.
    matrices = 2 * OF_BLOCK + 2 * HEAD
    assert totals(score).weight_bytes == matrices * 144 // 256 + 5 * 256 * 2
    assert totals(score).parameters == matrices + 5 * 256
    # Keys and values of 100 tokens in 2 blocks, 2 heads of 64, fp16.
    assert score.kv_cache_bytes == 2 * 2 * 100 * 2 * 64 * 2


def test_a_cache_of_q8_0_has_34_bytes_for_32_numbers() -> None:
    score = score_stage(llama(), 1, 99, cache_format="Q8_0")
    assert score.kv_cache_bytes == 2 * 100 * 2 * 64 * 34 // 32


def test_a_step_reads_every_weight_once_and_one_row_of_the_embedding() -> None:
    short, long = (score_stage(llama("Q8_0"), 1, n) for n in (100, 1100))
    embedding = layer(short, "token_embd")
    # One index of 8 bytes and 256 weights of 34/32 bytes; 256 numbers of fp16 are written.
    assert (embedding.read_bytes, embedding.write_bytes) == (8 + 272, 512)
    # 1000 more tokens: keys and values of 2 heads of 64 in fp16 are read once.
    more = traffic_bytes(long) - traffic_bytes(short)
    assert more == 1000 * 2 * 2 * 64 * 2


def test_quantised_weights_are_unpacked_once_and_multiplied_as_int8() -> None:
    row = layer(score_stage(llama("Q4_K"), 32, 0), "blk.0.ffn_up")
    assert row.macs == 32 * 512 * 256
    assert row.simple_flop == 3 * 512 * 256  # mask, offset, scale
    assert (row.precision, row.unit) == ("int8", "tensor core")


def test_a_window_bounds_what_is_read_kept_and_multiplied() -> None:
    block = DecoderBlock(attention=attention(window=64), width=INNER)
    model = llama(blocks=(block,))
    inside, beyond = score_stage(model, 1, 63), score_stage(model, 1, 1000)
    assert layer(inside, "blk.0.attn").macs == layer(beyond, "blk.0.attn").macs == 2 * 256 * 64
    # A window of 64 keys behind, and the new one.
    assert beyond.kv_cache_bytes == 2 * 65 * 2 * 64 * 2


def test_experts_that_are_chosen_are_read_and_multiplied() -> None:
    sizes = ExpertSizes(n_experts=8, n_active=2, width=96)
    model = llama("Q8_0", blocks=(DecoderBlock(attention=attention(), width=None, experts=sizes),))
    model = with_weights(
        model,
        "Q8_0",
        ffn_gate=(),
        ffn_up=(),
        ffn_down=(),
        ffn_gate_inp=(8, 256),
        ffn_gate_exps=(8, 96, 256),
        ffn_up_exps=(8, 96, 256),
        ffn_down_exps=(8, 256, 96),
    )
    one, many = (layer(score_stage(model, 1, 9, batch), "blk.0.ffn_exps") for batch in (1, 16))
    expert = 3 * 96 * 256
    assert (one.macs, many.macs) == (2 * expert, 16 * 2 * expert)
    assert one.parameters == 8 * expert
    # Two of eight experts of 34/32 bytes a weight, a token of 256 and 8 scores in fp16.
    assert one.read_bytes == 2 * expert * 34 // 32 + 2 * (256 + 8)
    assert many.read_bytes == 8 * expert * 34 // 32 + 16 * 2 * (256 + 8)


def latent_model() -> Architecture:
    sizes = attention(
        head_width=48,
        value_width=32,
        rotary_width=16,
        latent=LatentSizes(key_rank=64, rotary_width=16, query_rank=None),
    )
    return with_weights(
        llama(blocks=(DecoderBlock(attention=sizes, width=INNER),)),
        "fp16",
        attn_k=(),
        attn_v=(),
        attn_q=(4 * 48, 256),
        attn_kv_a_mqa=(64 + 16, 256),
        attn_kv_a_norm=(64,),
        attn_kv_b=(4 * (32 + 32), 64),
        attn_output=(256, 4 * 32),
    )


def test_latent_attention_caches_compressed_rows_and_takes_its_cheaper_form() -> None:
    prefill, decode = score_stage(latent_model(), 200, 0), score_stage(latent_model(), 1, 199)
    assert decode.kv_cache_bytes == 200 * (64 + 16) * 2
    weights = 64 * 4 * (32 + 32)
    # Expanded: each row becomes keys and values; 48 + 32 for each pair and head.
    assert layer(prefill, "blk.0.attn").macs == 200 * weights + 4 * 200 * 200 * (48 + 32)
    # Absorbed: the matrix multiplies the one query; 80 + 64 for each pair and head.
    assert layer(decode, "blk.0.attn").macs == weights + 4 * 200 * (80 + 64)
    assert layer(decode, "blk.0.attn").parameters == weights + 64


def test_a_tied_embedding_counts_once_and_is_read_as_the_output_matrix() -> None:
    model = llama("Q8_0")
    weights = {name: w for name, w in model.weights.items() if name != "output.weight"}
    tied = score_stage(msgspec.structs.replace(model, weights=weights, is_tied=True), 1, 9)
    apart = score_stage(model, 1, 9)
    assert totals(apart).parameters == (totals(tied).parameters or 0) + HEAD
    assert traffic_bytes(apart) == traffic_bytes(tied)


def test_gates_that_share_a_matrix_with_up_do_the_same_work() -> None:
    model = with_weights(
        llama(), "fp16", ffn_gate=(), ffn_up=(2 * INNER, 256), attn_q=(), attn_k=(), attn_v=(),
        attn_qkv=((HEADS + 2 * KV_HEADS) * WIDTH, 256),
    )  # fmt: skip
    fused, apart = score_stage(model, 17, 3), score_stage(llama(), 17, 3)
    assert totals(fused).macs == totals(apart).macs
    assert totals(fused).weight_bytes == totals(apart).weight_bytes


@given(
    st.sampled_from(sorted(WEIGHT_FORMATS)), st.integers(1, 6), st.integers(0, 300),
    st.integers(1, 4),
)  # fmt: skip
def test_work_does_not_depend_on_the_format_and_traffic_follows_it(
    form: str, n_new: int, n_cached: int, batch: int
) -> None:
    plain, score = (score_stage(llama(of), n_new, n_cached, batch) for of in ("fp16", form))
    known = WEIGHT_FORMATS[form]
    assert totals(score).macs == totals(plain).macs
    assert totals(score).parameters == totals(plain).parameters
    matrices = OF_BLOCK + 2 * HEAD
    assert totals(score).weight_bytes == matrices * known.n_bits / 8 + 3 * 256 * 2
    assert score.kv_cache_bytes == plain.kv_cache_bytes
