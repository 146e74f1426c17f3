"""The scores that a bench leaves in a folder of runs."""

from __future__ import annotations

from pathlib import Path

from mansard.analytics.data.scores import replace_scores
from mansard.core.records import ModelScore
from mansard.core.storage.jsonl import read_rows
from tests.analytics.factory import measurement, write_networks
from tests.analytics.score_factory import layer, score, write_scores


def names(runs: Path) -> list[str]:
    return [row.model for row in read_rows(runs / "scores.jsonl", ModelScore, runs).rows]


def test_a_bench_replaces_scores_but_those_of_networks_that_were_run(tmp_path: Path) -> None:
    layers = [layer(0, 10**9, 10**6)]
    scored, ran, new = (score(name, layers) for name in ("scored", "ran", "new"))
    write_scores(tmp_path, [scored, ran])
    row = measurement("nets", (0.01,), model="ran", model_hash=ran.model_hash)
    write_networks(tmp_path, [row])
    for name in ("a", "z"):  # rows that cannot be read, before and after those that can
        (tmp_path / name).mkdir()
        (tmp_path / name / "measurements.jsonl").write_text("no rows\n", encoding="utf-8")
    replace_scores(tmp_path, [new])
    assert names(tmp_path) == ["new", "ran"]
    replace_scores(tmp_path, [ran, new])
    assert names(tmp_path) == ["ran", "new"]


def test_scores_that_cannot_be_read_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text("no scores\n", encoding="utf-8")
    replace_scores(tmp_path, [score("new", [layer(0, 10**9, 10**6)])])
    assert names(tmp_path) == ["new"]
