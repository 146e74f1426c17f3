"""The zoo's decoders with their caches, in small sizes, in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from tests.estimator.zoo_sessions import open_session, with_random_weights
from tools.zoo import gpt2, llama
from tools.zoo.serialise import to_model

_Array = npt.NDArray[Any]
_Arrays = dict[str, _Array]

_N_TOKENS = 50
_LLAMA = llama.Sizes(n_layers=2, n_heads=6, n_groups=2, features=48, hidden=40, n_tokens=_N_TOKENS)
_MODELS = {
    "llama": with_random_weights(to_model(llama.draw("llama", _LLAMA)), seed=3),
    "gpt2": with_random_weights(to_model(gpt2.draw("gpt2", gpt2.Sizes(2, 6, 48, 50))), seed=3),
}
_N_CACHED_HEADS = {"llama": 2, "gpt2": 6}


_SESSIONS = {name: open_session(model) for name, model in _MODELS.items()}


def _nothing(name: str, batch: int) -> _Arrays:
    """The cache before the first token."""
    empty = np.zeros((batch, _N_CACHED_HEADS[name], 0, 8), dtype=np.float32)
    names = [value.name for value in _MODELS[name].graph.input]
    return {key: empty for key in names if key.startswith("past_key_values.")}


def _step(name: str, tokens: _Array, past: _Arrays) -> tuple[_Array, _Arrays]:
    """Scores and the cache for the next step."""
    session = _SESSIONS[name]
    names = [output.name for output in session.get_outputs()]
    out = dict(zip(names, session.run(names, {"input_ids": tokens, **past}), strict=True))
    scores = out.pop("logits")
    return scores, {key.replace("present", "past_key_values"): kept for key, kept in out.items()}


def _tokens(batch: int, n_tokens: int) -> _Array:
    return np.random.default_rng(n_tokens).integers(0, _N_TOKENS, (batch, n_tokens))


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(_MODELS)),
    batch=st.integers(1, 3),
    parts=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_a_text_in_parts_scores_as_the_whole(name: str, batch: int, parts: list[int]) -> None:
    tokens = _tokens(batch, sum(parts))
    whole, whole_cache = _step(name, tokens, _nothing(name, batch))
    cache, scores, start = _nothing(name, batch), [], 0
    for length in parts:
        part, cache = _step(name, tokens[:, start : start + length], cache)
        scores.append(part)
        start += length
    np.testing.assert_allclose(np.concatenate(scores, axis=1), whole, rtol=0, atol=2e-5)
    assert cache.keys() == whole_cache.keys()
    for key, kept in cache.items():
        assert kept.shape == (batch, _N_CACHED_HEADS[name], sum(parts), 8)
        np.testing.assert_allclose(kept, whole_cache[key], rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", sorted(_MODELS))
def test_a_decoder_does_not_look_ahead(name: str) -> None:
    tokens = _tokens(1, 12)
    changed = tokens.copy()
    changed[0, 8] = (changed[0, 8] + 1) % _N_TOKENS
    (before, _), (after, _) = (_step(name, each, _nothing(name, 1)) for each in (tokens, changed))
    np.testing.assert_allclose(after[0, :8], before[0, :8], rtol=0, atol=1e-5)
    # The changed token and all that follow see the change.
    assert (np.abs(after[0, 8:] - before[0, 8:]).max(axis=1) > 1e-4).all()


def test_llama_equals_numpy() -> None:
    weights = {t.name: numpy_helper.to_array(t) for t in _MODELS["llama"].graph.initializer}
    tokens = _tokens(1, 9)
    x = weights["embed_tokens.weight"][tokens[0]]
    for index in range(_LLAMA.n_layers):
        own = {
            key.removeprefix(f"layers.{index}."): value
            for key, value in weights.items()
            if key.startswith(f"layers.{index}.")
        }
        x = x + _attention(_rms_norm(x, own["norm1.weight"]), own)
        y = _rms_norm(x, own["norm2.weight"])
        gate = y @ own["mlp.gate_proj.weight"]
        y = gate / (1 + np.exp(-gate)) * (y @ own["mlp.up_proj.weight"])
        x = x + y @ own["mlp.down_proj.weight"]
    expected = _rms_norm(x, weights["norm.weight"]) @ weights["lm_head.weight"]
    scores, _ = _step("llama", tokens, _nothing("llama", 1))
    np.testing.assert_allclose(scores[0], expected, rtol=0, atol=1e-4)


def _rms_norm(x: _Array, weight: _Array) -> _Array:
    result: _Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight
    return result


def _attention(x: _Array, own: _Arrays) -> _Array:
    """Head by head; three query heads share the keys and values of a group."""
    n_tokens = len(x)
    query, key, value = (
        (x @ own[f"attn.{role}_proj.weight"]).reshape(n_tokens, -1, 8) for role in "qkv"
    )
    heads = []
    for head in range(6):
        scores = _turn(query[:, head]) @ _turn(key[:, head // 3]).T / np.sqrt(8)
        scores[np.triu_indices(n_tokens, 1)] = -np.inf
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads.append(share / share.sum(axis=1, keepdims=True) @ value[:, head // 3])
    result: _Array = np.concatenate(heads, axis=1) @ own["attn.o_proj.weight"]
    return result


def _turn(x: _Array) -> _Array:
    """Features i and i + 4 as a complex number, turned by its place · 10,000^(-i/4)."""
    angles = np.arange(len(x))[:, None] * 10_000.0 ** (-np.arange(4) / 4)
    turned = (x[:, :4] + 1j * x[:, 4:]) * np.exp(1j * angles)
    return np.concatenate((turned.real, turned.imag), axis=1)
