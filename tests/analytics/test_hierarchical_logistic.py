"""The logistic decision: DIME's coefficients, and fits of our own."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from mansard.analytics.decisions.offload.policies import (
    DIME,
    find_published,
    fit_logistic,
    probability,
)
from mansard.analytics.decisions.offload.records import Logistic
from mansard.analytics.decisions.offload.samples import RIGHT, UNANSWERED, WRONG, LabelledSamples
from mansard.core.errors import UsageError

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/use/hierarchical.md"


def two_classes(p1: np.ndarray, local: np.ndarray) -> LabelledSamples:
    unanswered = np.full(len(p1), UNANSWERED, np.int8)
    return LabelledSamples(p1, 1 - p1, local.astype(np.int8), unanswered, unanswered)


def offloads_below(rule: Logistic) -> float:
    """The p1 below which it offloads at a threshold of 0.5, where p2 = 1 − p1."""
    return (-rule.intercept - rule.w2) / (rule.w1 - rule.w2)


@pytest.mark.parametrize(
    ("name", "below"),
    [
        # −4.5316 + 5.8256 p − 3.5969 (1 − p) = 0: p = (4.5316 + 3.5969) / (5.8256 + 3.5969)
        #                                            = 8.1285 / 9.4225 = 0.86267
        ("resnet8-fp", 0.863),
        # (5.0991 + 4.3720) / (5.6048 + 4.3720) = 9.4711 / 9.9768 = 0.94931
        ("resnet56-fp", 0.949),
        # (4.6339 + 3.0420) / (5.9366 + 3.0420) = 7.6759 / 8.9786 = 0.85491
        ("resnet8-int8", 0.855),
        # (3.0286 + 1.7800) / (4.9519 + 1.7800) = 4.8086 / 6.7319 = 0.71430
        ("resnet18-imagenet-int8", 0.714),
    ],
)
def test_coefficients_of_dime_offload_below(name: str, below: float) -> None:
    rule = find_published(name)
    assert offloads_below(rule) == pytest.approx(below, abs=0.0005)
    # By the decision itself: just below it offloads, just above it keeps.
    ends = two_classes(np.array([below - 0.001, below + 0.001]), np.array([RIGHT, RIGHT]))
    assert (probability(rule, ends) < 0.5).tolist() == [True, False]


def test_the_document_has_these_coefficients_and_thresholds() -> None:
    text = DOCUMENT.read_text("utf-8").replace("−", "-")
    number = r" (-?[0-9.]+) \|"
    rows = re.findall(rf"^\| `([a-z0-9-]+)`[^|]*\|{number * 4}$", text, re.MULTILINE)
    assert {row[0] for row in rows} == set(DIME)
    for name, *cells in rows:
        rule = DIME[name]
        values = (rule.intercept, rule.w1, rule.w2, offloads_below(rule))
        assert [f"{each:.4f}" for each in values] == cells, name


def test_a_probability_by_hand() -> None:
    # −4.63391351 + 5.93658349 · 0.8 − 3.04197074 · 0.1 = −0.188843792
    rule = DIME["resnet8-int8"]
    unknown = np.array([UNANSWERED], np.int8)
    one = LabelledSamples(np.array([0.8]), np.array([0.1]), unknown, unknown, unknown)
    assert probability(rule, one)[0] == pytest.approx(1 / (1 + math.exp(0.188843792)))


def test_a_fit_finds_the_coefficients_that_made_the_samples() -> None:
    rng = np.random.default_rng(0)
    p1 = rng.uniform(0.3, 1, 200_000)
    p2 = rng.uniform(0, 1, 200_000) * np.minimum(p1, 1 - p1)
    chance = 1 / (1 + np.exp(4 - 6 * p1 + 3 * p2))
    local = (rng.random(len(p1)) < chance).astype(np.int8)
    found = fit_logistic(LabelledSamples(p1, p2, local, local, local))
    assert found is not None
    # The standard errors of the three are about 0.04.
    assert (found.intercept, found.w1, found.w2) == pytest.approx((-4, 6, -3), abs=0.15)


def test_balanced_weights_put_a_half_between_right_and_wrong() -> None:
    rng = np.random.default_rng(1)
    local = (rng.random(50_000) < 0.9).astype(np.int8)  # nine of ten are right
    p1 = np.clip(rng.normal(np.where(local == RIGHT, 0.8, 0.6), 0.1), 0, 1)
    samples = two_classes(p1, local)
    balanced, plain = fit_logistic(samples, is_balanced=True), fit_logistic(samples)
    assert balanced is not None
    assert plain is not None
    # Equal spreads about 0.8 and 0.6: with equal weights the middle parts them; else
    # 0.7 − 0.1² · ln 9 / 0.2 = 0.590.
    assert offloads_below(balanced) == pytest.approx(0.7, abs=0.01)
    assert offloads_below(plain) == pytest.approx(0.590, abs=0.01)


@pytest.mark.parametrize("which", [RIGHT, WRONG])
def test_nothing_is_fitted_where_all_are_alike(which: int) -> None:
    assert fit_logistic(two_classes(np.linspace(0.5, 1, 9), np.full(9, which))) is None


def test_samples_that_a_line_parts_still_have_finite_weights() -> None:
    p1 = np.linspace(0.5, 1, 40)
    found = fit_logistic(two_classes(p1, (p1 > 0.75).astype(np.int8)))
    assert found is not None
    assert offloads_below(found) == pytest.approx(0.75, abs=0.02)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError, match="resnet56-fp"):
        find_published("resnet9")
