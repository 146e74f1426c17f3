"""The decision: two largest outputs, their probabilities, and the rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.records import OffloadRule
from mansard.inference.offloading.decision import decide, kind_of, time_decisions
from mansard.inference.offloading.plan import make_rule

BELOW_HALF = make_rule(0.5, None)
SCORES = st.lists(st.floats(-50, 50), min_size=2, max_size=40)


def test_probabilities_are_taken_as_they_are() -> None:
    decision = decide(np.array([0.2, 0.45, 0.35]), "probabilities", BELOW_HALF)
    assert decision == (1, 0.45, 0.35, True)  # 0.45 < 0.5
    assert decide(np.array([0.1, 0.55, 0.35]), "probabilities", BELOW_HALF)[3] is False


def test_logits_become_probabilities_by_the_softmax_of_all() -> None:
    # exp(ln 6) : exp(ln 3) : exp(0) = 6 : 3 : 1, so p1 = 0.6 and p2 = 0.3.
    decision = decide(np.log([1.0, 6.0, 3.0]), "logits", BELOW_HALF)
    assert decision.predicted == 1
    assert (decision.p1, decision.p2) == pytest.approx((0.6, 0.3))


def test_a_logistic_weighs_both() -> None:
    # DIME's resnet8 in fp32: −4.5316 + 5.8256·0.9 − 3.5969·0.1 = 0.3517 > 0: kept;
    # with p1 = 0.8 and p2 = 0.2: −4.5316 + 4.6605 − 0.7194 = −0.5905 < 0: offloaded.
    rule = make_rule(0.5, (-4.5316, 5.8256, -3.5969))
    assert not decide(np.array([0.9, 0.1]), "probabilities", rule).is_offloaded
    assert decide(np.array([0.8, 0.2]), "probabilities", rule).is_offloaded


def test_of_equal_scores_the_lower_class_counts() -> None:
    assert decide(np.array([0.1, 0.45, 0.45]), "probabilities", BELOW_HALF)[:3] == (1, 0.45, 0.45)


@given(SCORES)
def test_logits_agree_with_a_sorted_softmax(scores: list[float]) -> None:
    powers = sorted((math.exp(score - max(scores)) for score in scores), reverse=True)
    decision = decide(np.array(scores), "logits", BELOW_HALF)
    assert decision.p1 == pytest.approx(powers[0] / sum(powers))
    assert decision.p2 == pytest.approx(powers[1] / sum(powers))
    assert scores[decision.predicted] == max(scores)
    assert decision.p2 <= decision.p1


@pytest.mark.parametrize("scores", [[math.nan, 1.0], [math.inf, 0.0], [math.inf, math.inf]])
@pytest.mark.parametrize("kind", ["logits"])
def test_scores_that_are_not_finite_are_refused(scores: list[float], kind: str) -> None:
    with pytest.raises(MeasurementError, match="not finite"):
        decide(np.array(scores), kind, BELOW_HALF)  # type: ignore[arg-type]


def test_shares_that_add_up_are_probabilities() -> None:
    assert kind_of(np.array([[0.25, 0.75], [1.0, 0.0]])) == "probabilities"
    assert kind_of(np.array([[0.25, 0.75], [1.0, 0.5]])) == "logits"  # a sum of 1.5
    assert kind_of(np.array([[-0.5, 1.5]])) == "logits"
    # 100 classes of 8 bits may miss 1 by 100/254 = 0.39.
    assert kind_of(np.full((1, 100), 0.013)) == "probabilities"


def test_a_decision_is_timed_for_each_number_of_classes_once() -> None:
    timed = time_decisions((10, 1000, 10), "logits", BELOW_HALF, n_blocks=3)
    assert [one.n_classes for one in timed] == [10, 1000]
    assert all(len(one.seconds_s) == 3 and min(one.seconds_s) > 0 for one in timed)


@pytest.mark.parametrize("threshold", [-0.1, 2.0, math.nan, math.inf])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError, match="is not between 0 and 1"):
        make_rule(threshold, None)


def test_a_rule_without_a_logistic_says_what_it_looks_at() -> None:
    assert (
        OffloadRule(threshold=0.5, logistic=None, unknown={"logistic": "the confidence is p1"})
        == BELOW_HALF
    )
