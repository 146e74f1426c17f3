"""Servers of language models in a dataset: their rows kept, times, rates and energies of tokens."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard.analytics.data.frames import generation_frame
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.limits import check_generation
from mansard.analytics.data.opening import merge, open_runs
from mansard.analytics.models.predict.generation_times import (
    generation_times,
)
from mansard.analytics.models.predict.measured import measured_generations
from mansard.core.errors import InputError
from mansard.core.records import GenerationRound
from tests.analytics.dataset_checks import assert_same
from tests.analytics.factory import window
from tests.analytics.generation_rows import (
    generation,
    generation_request,
    generation_round,
    write_generations,
)


def two_at_once(start_s: float, scale: float = 1.0) -> GenerationRound:
    """Both are sent at ``start_s``. First tokens after 1.0 s and 1.2 s, the last after 5.2 s."""
    return generation_round(
        [
            generation_request(start_s, [scale * s for s in (1.0, 2.2, 3.2, 4.2)]),
            generation_request(start_s, [scale * s for s in (1.2, 2.2, 3.2, 5.2)]),
        ]
    )


def test_times_and_rates_by_hand() -> None:
    row = generation("r", [two_at_once(10.0), two_at_once(20.0)])
    times = generation_times(row, "CPU", "2c")
    # The median of 1.0 and 1.2.
    assert times.first_token_s == pytest.approx(1.1)
    # (4.2 - 1.0) / 3 and (5.2 - 1.2) / 3 are 1.0667 and 1.3333.
    assert times.token_s == pytest.approx(1.2)
    # 200 tokens of prompts until the first token of the last, after 1.2 s.
    assert times.prefill_tokens_per_s == pytest.approx(200 / 1.2)
    # Then three tokens of each, until 5.2 s.
    assert times.decode_tokens_per_s == pytest.approx(6 / 4.0)
    # All eight, the first ones too, over the whole 5.2 s.
    assert times.output_tokens_per_s == pytest.approx(8 / 5.2)
    assert (times.n_requests, times.n_rejected, times.overlap) == (4, 0, 0.0)
    assert times.first_token_p99_s is None
    assert times.unknown.get("first_token_p99_s") == "a 99th percentile needs 100 values"
    assert times.unknown.get("decode_token_j") == "no meter"
    assert times.server == "llama.cpp b1"


def test_a_round_that_does_not_count_is_in_no_figure() -> None:
    cached = generation_round(
        [generation_request(30.0, [0.01, 0.02])], rejected="a prefix cache answered 99 of 100"
    )
    row = generation("r", [two_at_once(10.0), cached])
    times = generation_times(row, "CPU", "2c")
    assert times.first_token_s == pytest.approx(1.1)
    assert (times.n_requests, times.n_rejected) == (2, 1)
    none = generation_times(generation("r", [cached]), "CPU", "2c")
    assert none.first_token_s is none.decode_tokens_per_s is none.overlap is None
    assert none.unknown.get("first_token_s") == "no round counts"


def test_the_servers_own_timings_stand_beside() -> None:
    request = generation_request(0.0, [1.1, 1.6, 2.1], server_prompt_s=1.0, server_decode_s=0.9)
    times = generation_times(generation("r", [generation_round([request])]), "CPU", "2c")
    assert times.server_prompt_s == 1.0
    assert times.server_token_s == pytest.approx(0.45)  # two tokens after the first
    assert times.token_s == pytest.approx(0.5)


def test_energies_are_of_tokens() -> None:
    # 10 W for 2 s of 100 tokens: 0.2 J each; 20 W for 4 s of 8 tokens: 10 J each.
    prefill = window({"VDD_IN": 10.0}, ("VDD_IN",), window_s=2.0, repetitions=100)
    decode = window({"VDD_IN": 20.0}, ("VDD_IN",), window_s=4.0, repetitions=8)
    request = generation_request(0.0, [2.0 + 0.5 * at for at in range(9)])
    # Both together: 100 J for nine tokens in 6 s.
    whole = window({"VDD_IN": 100 / 6}, ("VDD_IN",), window_s=6.0, repetitions=9)
    one = generation_round([request], prefill=prefill, decode=decode, whole=whole)
    times = generation_times(generation("r", [one, one]), "CPU", "2c")
    assert times.prefill_token_j == pytest.approx(0.2)
    assert times.decode_token_j == pytest.approx(10.0)
    assert times.output_token_j == pytest.approx(100 / 9)
    assert (times.prefill_w, times.decode_w) == (10.0, 20.0)
    # Prompts alone take the place of rounds whose prefill has none.
    alone = window({"VDD_IN": 30.0}, ("VDD_IN",), window_s=4.0, repetitions=200)
    bare = generation_round([request], decode=decode)
    times = generation_times(generation("r", [bare], prefills=(alone,)), "CPU", "2c")
    assert times.prefill_token_j == pytest.approx(0.6)


def test_phases_that_overlap_have_no_figures_of_their_own() -> None:
    # The second's first token comes when the first has all of its own: 3 of 6 later tokens.
    one = generation_round(
        [
            generation_request(0.0, [1.0, 2.0, 3.0, 4.0]),
            generation_request(0.0, [5.0, 6.0, 7.0, 8.0]),
        ],
        decode=window({"VDD_IN": 20.0}, ("VDD_IN",), window_s=3.0, repetitions=3),
    )
    times = generation_times(generation("r", [one]), "CPU", "2c")
    assert times.overlap == 0.5
    assert times.prefill_tokens_per_s is times.decode_tokens_per_s is times.decode_token_j is None
    assert "up to 50% of the tokens came before" in times.unknown["decode_tokens_per_s"]
    assert times.output_tokens_per_s == pytest.approx(8 / 8.0)
    assert times.token_s == pytest.approx(1.0)


def test_one_token_has_no_decode() -> None:
    one = generation_round([generation_request(0.0, [0.5])])
    times = generation_times(generation("r", [one]), "CPU", "2c")
    assert times.prefill_tokens_per_s == pytest.approx(200)
    assert times.token_s is times.decode_tokens_per_s is None
    assert times.unknown["decode_tokens_per_s"] == "one token was asked for"


def test_rows_are_kept_merged_and_tabulated(tmp_path: Path) -> None:
    row = generation("served", [two_at_once(10.0), two_at_once(20.0, 1.1)])
    write_generations(tmp_path / "runs", [row])
    found = ingest(tmp_path / "runs")
    assert found.generations == (row,)
    assert [run.kind for run in found.workload_manifests] == ["generations"]
    merge([tmp_path / "runs"], str(tmp_path / "merged"))
    assert_same(open_runs([tmp_path / "merged"]), found)
    (times,) = measured_generations(found)
    assert times.first_token_p99_s is None
    lists = generation_frame([row])
    assert lists["first_token_s"].to_list() == [pytest.approx([1.0, 1.2, 1.1, 1.32])]


def test_the_newest_row_of_the_same_counts(tmp_path: Path) -> None:
    old = generation("old", [two_at_once(10.0)])
    new = generation("new", [two_at_once(10.0, 2.0)], started_utc="2026-02-01T00:00:00Z")
    write_generations(tmp_path, [old])
    write_generations(tmp_path, [new])
    (times,) = measured_generations(ingest(tmp_path))
    assert times.run_id == "new"


@pytest.mark.parametrize(
    "event_s", [(2.0, 1.0), (-1.0, 1.0), (1.0, 1e12)], ids=["order", "before", "long"]
)
def test_impossible_rows_are_left_out(event_s: tuple[float, ...], tmp_path: Path) -> None:
    request = msgspec.structs.replace(generation_request(0.0, [1.0]), event_s=event_s)
    write_generations(tmp_path, [generation("bad", [generation_round([request])])])
    found = ingest(tmp_path)
    assert found.generations == ()
    assert any("1 trial was left out" in note for note in found.notes)


def test_a_round_of_nothing_is_refused() -> None:
    empty = generation_round([])
    row = generation("r", [two_at_once(1.0)])
    row = msgspec.structs.replace(row, rounds=(empty,))
    with pytest.raises(InputError, match="a round has no request"):
        check_generation(row, "here")
