"""Recommendations from few measured modes of recorded boards, beside what a sceptic writes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from recorded.mode_sweeps import read_sweeps
from recorded.named_sweeps import read_named_sweeps
from recorded.regret import answers, metered, summary

pytestmark = pytest.mark.shared_data


@pytest.fixture(scope="module")
def asked(shared_data: Path) -> pl.DataFrame:
    """Each tenth network, after three, four and six modes."""
    sweeps = metered((*read_sweeps(shared_data), *read_named_sweeps(shared_data)))
    return answers(sweeps[1::10], counts=(3, 4, 6), n_draws=1)


def share(table: pl.DataFrame, picked: str, rule: str, name: str) -> float:
    return float(table.filter(picked=picked, rule=rule)[name][0])


@pytest.mark.parametrize("picked", ["random", "planned"])
def test_answers_are_definite_and_right(asked: pl.DataFrame, picked: str) -> None:
    found = summary(asked, "picked")
    alone, ours = (share(found, picked, rule, "definite") for rule in ("measured", "mansard"))
    assert ours >= alone
    assert share(found, picked, "mansard", "missed") <= share(found, picked, "measured", "missed")
    assert share(found, picked, "mansard", "wrong") <= 0.01


def test_each_question_that_the_measured_modes_answer_is_answered(asked: pl.DataFrame) -> None:
    one = ["network", "k", "picked", "question"]
    alone = asked.filter(pl.col("is_definite"), rule="measured").select(one)
    ours = asked.filter(rule="mansard").join(alone, on=one)
    assert ours.height
    assert ours["is_definite"].all()


def test_after_planned_modes_the_regret_is_below_the_line_s(asked: pl.DataFrame) -> None:
    found = summary(asked.filter(pl.col("k") > 3), "picked")
    assert share(found, "planned", "mansard", "common") <= share(found, "planned", "line", "common")
