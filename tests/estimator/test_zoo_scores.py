"""What ``score`` says of the zoo: decoders by sequence and past, and the sums of all networks.

The networks' own counts are in test_zoo_work, by another counter.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.records import ModelScore
from mansard.estimator import zoo
from mansard.estimator.scoring import score
from tools.zoo import gpt2, llama
from tools.zoo.serialise import to_bytes, to_model


def _score(name: str, **dims: int) -> ModelScore:
    return score(zoo.read(name), name=name, dims=dict(zoo.entry(name).dims) | dims)


def _macs(scored: ModelScore) -> int:
    counts = [layer.macs for layer in scored.layers]
    assert None not in counts
    return sum(count for count in counts if count is not None)


_PUBLISHED = [entry for entry in zoo.CATALOG if entry.published_parameters is not None]


@pytest.mark.parametrize("entry", _PUBLISHED, ids=lambda entry: entry.name)
def test_every_network_is_scored_with_its_published_parameters(entry: zoo.Entry) -> None:
    scored = _score(entry.name)
    assert scored.batch == 1
    counts = [layer.parameters for layer in scored.layers]
    assert sum(count for count in counts if count is not None) == entry.published_parameters


def test_decoding_one_token_costs_what_it_reads() -> None:
    # Weights once, 12 · 7,077,888 + 768 · 50,257 = 123,532,032; attention to 128 tokens,
    # 12 · 2 · 128 · 768 = 2,359,296.
    assert _macs(_score("gpt2", sequence=1, past_sequence=127)) == 125_891_328
    # 22 · 44,040,192 + 2048 · 32,000 = 1,034,420,224; 22 · 2 · 1024 · 2048 = 92,274,688.
    assert _macs(_score("tinyllama_1_1b", sequence=1, past_sequence=1023)) == 1_126_694_912


def test_first_pass_over_a_text_reads_weights_once_for_all_tokens() -> None:
    first, step = _score("tinyllama_1_1b"), _score("tinyllama_1_1b", sequence=1, past_sequence=127)
    # 128 times the work with weights; attention to 128 tokens instead of 1, 128 times.
    assert _macs(first) == 128 * 1_034_420_224 + 128 * 22 * 2 * 128 * 2048
    assert _macs(step) == 1_034_420_224 + 22 * 2 * 128 * 2048
    weights = [sum(layer.weight_bytes or 0 for layer in one.layers) for one in (first, step)]
    assert weights[0] == weights[1]


@settings(max_examples=25)
@given(batch=st.integers(1, 3), sequence=st.integers(1, 9), past=st.integers(0, 9))
def test_work_of_a_decoder_by_batch_sequence_and_past(batch: int, sequence: int, past: int) -> None:
    dims = {"sequence": sequence, "past_sequence": past}
    # A token of a layer: 2·8² + 2·8·4 + 3·8·16 = 576 with weights; 8 · 10 scores.
    small = llama.Sizes(n_layers=2, n_heads=4, n_groups=2, features=8, hidden=16, n_tokens=10)
    model = to_bytes(to_model(llama.draw("tiny", small)))
    attention = batch * sequence * (past + sequence) * 2 * 2 * 8
    expected = batch * sequence * (2 * 576 + 80) + attention
    assert _macs(score(model, name="tiny", batch=batch, dims=dims)) == expected
    # A token of a layer: 4·8² + 2·8·32 = 768; 8 · 10 scores.
    model = to_bytes(to_model(gpt2.draw("tiny", gpt2.Sizes(2, 4, 8, 10))))
    expected = batch * sequence * (2 * 768 + 80) + attention
    assert _macs(score(model, name="tiny", batch=batch, dims=dims)) == expected


def test_a_decoder_keeps_the_keys_and_values_of_all_tokens() -> None:
    # 22 layers · 2 · 4 heads · (127 + 1) tokens · 64 features · 4 bytes
    scored = _score("tinyllama_1_1b", sequence=1, past_sequence=127)
    assert scored.kv_cache_bytes == 5_767_168
    # 12 · 2 · 12 · (0 + 128) · 64 · 4
    assert _score("gpt2").kv_cache_bytes == 9_437_184
