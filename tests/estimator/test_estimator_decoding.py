"""Prefill and decode of decoders with a cache, by hand."""

from __future__ import annotations

import pytest

from mansard.core.errors import UsageError
from mansard.core.records import ModelScore
from mansard.estimator import Given, Loaded, Settings, load, score_loaded, totals, zoo
from mansard.estimator.decoding import Stage, with_stage
from tests.estimator.models import model

LAYERS, WIDTH, KV_WIDTH, INNER, WORDS = 22, 2048, 256, 5632, 32_000  # TinyLlama-1.1B


def stage_dims(loaded: Loaded, n_new: int, n_cached: int) -> dict[str, int]:
    """The sizes of a stage where nothing is given."""
    given, _ = with_stage(loaded, Given(), Stage(n_new, n_cached))
    return dict(given.dims)


def stage(n_new: int, n_cached: int) -> ModelScore:
    loaded = load(zoo.read("tinyllama_1_1b"))
    dims = stage_dims(loaded, n_new, n_cached)
    return score_loaded(loaded, Settings(Given(batch=1, dims=dims)))


@pytest.mark.parametrize(("n_new", "n_cached"), [(512, 0), (1, 512), (7, 20)])
def test_multiply_adds_and_the_cache_of_a_llama(n_new: int, n_cached: int) -> None:
    # Query and output are WIDTH², key and value WIDTH · KV_WIDTH, three matrices of the
    # gated layer; attention multiplies each new token with every known one, twice.
    each_token = LAYERS * (2 * WIDTH**2 + 2 * WIDTH * KV_WIDTH + 3 * WIDTH * INNER)
    n_known = n_new + n_cached
    attention = LAYERS * 2 * n_new * n_known * WIDTH
    found = stage(n_new, n_cached)
    assert totals(found).macs == n_new * (each_token + WIDTH * WORDS) + attention
    assert found.kv_cache_bytes == 2 * LAYERS * n_known * KV_WIDTH * 4


def test_a_step_of_decoding_moves_a_cache_that_grows_by_concat_three_times() -> None:
    short, long = (totals(stage(1, n)).fused_traffic_bytes or 0 for n in (100, 1100))
    # 1000 more tokens: Concat reads the old cache and writes the new one, attention reads that.
    cache_bytes = 2 * LAYERS * 1000 * KV_WIDTH * 4
    assert long - short == pytest.approx(3 * cache_bytes, rel=0.01)


def test_a_network_without_a_cache_is_no_decoder() -> None:
    with pytest.raises(UsageError, match="does not look like a decoder"):
        stage_dims(load(zoo.read("resnet18")), 1, 10)


def decoder(inputs: str) -> Loaded:
    """A network with these inputs, which it does nothing with."""
    return load(model("y = Identity(x)", f"float[1] x, {inputs}"))


CACHE = "float[batch,8,past,64] past_key_values_0_key"


def test_an_encoder_s_length_is_none_of_the_decoder_s() -> None:
    found = decoder(
        f"int64[batch,new] input_ids, int64[batch,all] attention_mask, {CACHE}, "
        "int64[batch,heard] encoder_attention_mask, float[batch,heard,512] encoder_hidden_states, "
        "float[batch,8,kept,64] past_key_values_0_encoder_key"
    )
    assert stage_dims(found, 1, 20) == {"new": 1, "past": 20, "all": 21}


def test_tokens_may_come_as_embeddings() -> None:
    found = decoder(f"float[batch,new,512] inputs_embeds, {CACHE}")
    assert stage_dims(found, 7, 0) == {"new": 7, "past": 0}


def test_the_size_of_a_head_is_no_length_though_it_is_named_after_the_cache() -> None:
    found = decoder(
        "int64[batch,new] input_ids, float[batch,2,past,kv_cache_dim] past_key_values_0_key"
    )
    assert stage_dims(found, 1, 20) == {"new": 1, "past": 20}


@pytest.mark.parametrize(
    ("inputs", "missing"),
    [(CACHE, "new"), ("int64[batch,new] input_ids", "cached"), ("float[4] z", "cached or new")],
)
def test_what_a_decoder_lacks_is_said(inputs: str, missing: str) -> None:
    with pytest.raises(UsageError, match=f"no dimension of {missing} tokens"):
        stage_dims(decoder(inputs), 1, 10)
