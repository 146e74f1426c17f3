"""Stages of language models that servers ran, as observations that calibrate and decide."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.models import find_models
from mansard.core.records import GenerationRun
from tests.analytics.factory import window
from tests.analytics.generation_rows import (
    generation,
    generation_request,
    generation_round,
    write_generations,
)
from tests.analytics.test_generation_times import two_at_once


def observed(runs: Path, *rows: GenerationRun) -> pl.DataFrame:
    write_generations(runs, rows)
    return find_models(open_runs([str(runs)])).observations


def test_a_round_is_a_prefill_and_a_step_of_decode(tmp_path: Path) -> None:
    # Two prompts of 100 tokens until the first token of the last: 1.2 s. Steps of 1.0667 and
    # 1.3333 s, 1.2 s at the median; the second of four tokens is behind 102.
    rows = observed(tmp_path, generation("r", [two_at_once(10.0), two_at_once(20.0)]))
    assert rows.select("network", "batch", "phase", "engine").rows() == [
        ("tiny [prefill 100]", 2, "inference", "llama.cpp"),
        ("tiny [decode 102]", 2, "inference", "llama.cpp"),
    ]
    assert rows["latency_s"].to_list() == pytest.approx([1.2, 1.2])
    assert rows["power_w"].to_list() == [None, None]
    assert rows["precision"].to_list() == [None, None]  # that of the score, once there is one


def test_powers_are_those_of_the_windows(tmp_path: Path) -> None:
    # A prompt of 100 tokens in 1 s at 8 W, then four steps of 1 s at 3 W.
    rounds = [
        generation_round(
            [generation_request(at, (1.0, 2.0, 3.0, 4.0, 5.0))],
            prefill=window({"all": 8.0}, ["all"], window_s=1.0, repetitions=100),
            decode=window({"all": 3.0}, ["all"], window_s=4.0, repetitions=4),
        )
        for at in (10.0, 20.0)
    ]
    rows = observed(tmp_path, generation("r", rounds))
    assert rows["network"].to_list() == ["tiny [prefill 100]", "tiny [decode 102]"]
    assert rows["latency_s"].to_list() == pytest.approx([1.0, 1.0])
    assert rows["power_w"].to_list() == pytest.approx([8.0, 3.0])


def test_phases_that_overlap_have_no_prefill(tmp_path: Path) -> None:
    # Three of eight tokens come before the other request has its first.
    late = generation_round(
        [
            generation_request(10.0, (1.0, 2.0, 3.0, 4.0)),
            generation_request(10.0, (3.5, 4.0, 4.5, 5.0)),
        ]
    )
    rows = observed(tmp_path, generation("r", [late, late]))
    assert rows["network"].to_list() == ["tiny [decode 102]"]


def test_disturbed_and_rejected_rounds_are_no_observations(tmp_path: Path) -> None:
    disturbed = replace(generation("r", [two_at_once(10.0)]), disturbances=("another process",))
    assert observed(tmp_path / "a", disturbed).is_empty()
    cached = replace(two_at_once(10.0), rejected="tokens came from the cache")
    assert observed(tmp_path / "b", generation("r", [cached])).is_empty()
