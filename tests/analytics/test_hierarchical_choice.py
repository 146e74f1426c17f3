"""The best threshold and mode under limits, and what is known of a limit."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.decisions.offload.costs import mode_costs
from mansard.analytics.decisions.offload.records import Goal, make_amount
from mansard.analytics.decisions.offload.rules import best, choose, hold, means_of
from mansard.analytics.decisions.offload.samples import LabelledSamples
from mansard.analytics.decisions.offload.thresholds import sweep
from tests.analytics.hierarchical_samples import exact, samples_of

COSTS = st.sampled_from([0.5, 1.0, 2.0, 5.0])
KINDS = st.sampled_from(["spread", "bounds", "roof", None])
SAMPLE = st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), st.integers(0, 1), st.integers(0, 1))


@settings(deadline=None)
@given(
    st.lists(SAMPLE, min_size=1, max_size=25),
    st.lists(st.tuples(COSTS, COSTS, COSTS, KINDS), min_size=1, max_size=3),
    st.sampled_from([None, 1.55, 4.05]),
    st.sampled_from([None, 0.41, 0.81]),
    st.sampled_from([0.5, 0.9]),
    st.sampled_from(["accuracy", "latency", "energy", "cost"]),
)
def test_the_choice_is_that_of_all_pairs(
    rows: list[tuple[float, int, int]],
    modes: list[tuple[float, float, float, str | None]],
    max_latency_s: float | None,
    min_accuracy: float | None,
    probability: float,
    minimise: str,
) -> None:
    p1, local, remote = (np.array(each) for each in zip(*rows, strict=True))
    ints = (local.astype(np.int8), remote.astype(np.int8), remote.astype(np.int8))
    samples = LabelledSamples(p1.astype(float), None, *ints)
    costs = [
        mode_costs(
            f"m{at}",
            {
                "local_s": make_amount(a, 0.8 * a, 1.2 * a, kind) if kind else make_amount(a),
                "decision_s": make_amount(0, 0, 0),
                "offload_s": make_amount(b, b, b),
                "local_j": make_amount(c, c, c),
                "offload_j": make_amount(b, b, b),
            },
        )
        for at, (a, b, c, kind) in enumerate(modes)
    ]
    goal = Goal(
        minimise=minimise,  # type: ignore[arg-type]
        max_latency_s=max_latency_s,
        min_accuracy=min_accuracy,
        offload_cost=0.3,
        probability=probability,
    )
    found = best(choose(sweep(samples, samples.p1), costs, goal))
    assert found is not None
    n, z, ranks = len(rows), NormalDist().inv_cdf(probability), []
    for threshold, (a, b, c, kind) in product([*sorted(set(p1.tolist())), 2.0], modes):
        offloaded = p1 < threshold
        share = offloaded.sum() / n
        accuracy = np.where(offloaded, remote, local).sum() / n
        latency, energy = a + share * b, c + share * b
        cost = ((~offloaded & (local == 0)).sum() + 0.3 * offloaded.sum()) / n
        states, excess = [0], 0.0
        if max_latency_s is not None:
            low, high = (abs(end - share) * b for end in wilson_ends(share, n, 1.959964))
            likely = {
                "spread": latency + math.hypot(0.2 * a, high) * z / 1.959964,
                "bounds": latency + 0.2 * a + high,
            }.get(kind or "", latency)
            least = {
                "spread": latency - math.hypot(0.2 * a, low) * z / 1.959964,
                "bounds": latency - 0.2 * a - low,
                "roof": latency - 0.2 * a - low,
            }.get(kind or "", latency)
            keeps = kind in {"spread", "bounds"} and likely <= max_latency_s
            states.append(0 if keeps else 2 if least > max_latency_s else 1)
            excess += max(0.0, likely / max_latency_s - 1)
        if min_accuracy is not None:
            low, high = wilson_ends(accuracy, n, z)
            states.append(0 if low >= min_accuracy else 2 if high < min_accuracy else 1)
            excess += max(0.0, 1 - low / min_accuracy)
        values = {"accuracy": -accuracy, "latency": latency, "energy": energy, "cost": cost}
        ranks.append((max(states), excess, values[minimise], energy, latency, share))
    assert found.rank == pytest.approx(min(ranks))


def test_a_roof_and_a_value_alone_keep_no_limit_and_may_break_one() -> None:
    one = sweep(samples_of([0.5], [1]), np.array([0.5]))
    share = {"decision_s": make_amount(0, 0, 0), "offload_s": make_amount(0, 0, 0)}
    for amount, limit, holds in (
        (make_amount(2.0, 1.8, 2.2), 3.0, "kept"),  # a spread
        (make_amount(2.0, 1.8, 2.2), 2.0, "unknown"),
        (make_amount(2.0, 1.8, 2.2), 1.0, "broken"),
        (make_amount(2.0, 1.8, 2.2, "bounds"), 2.1, "unknown"),
        (make_amount(2.0, 1.8, 2.2, "roof"), 3.0, "unknown"),
        (make_amount(2.0, 1.8, 2.2, "roof"), 1.7, "broken"),
        (make_amount(2.0), 3.0, "unknown"),
        (make_amount(2.0), 1.9, "broken"),
    ):
        means = means_of(one, mode_costs("", {**share, "local_s": amount}), "threshold")
        (held,) = hold(one, means, Goal(max_latency_s=limit))
        assert held.at(0).holds == holds, (amount, limit)


def test_what_is_known_to_keep_a_limit_goes_before_what_may() -> None:
    samples = samples_of([0.5, 0.6], [1, 0])
    bare = mode_costs("quick", {"local_s": make_amount(1.0), "offload_s": make_amount(1.0)})
    sure = exact("slow", local_s=2.0, offload_s=1.0)
    goal = Goal(minimise="latency", max_latency_s=9.0)
    found = best(choose(sweep(samples, samples.p1), [bare, sure], goal))
    assert found is not None
    assert found.mode == 1


def test_answers_that_were_not_recorded_break_no_limit_that_they_may_keep() -> None:
    # All 100 offloaded: right at least 0 and at most 100 of them.
    samples = samples_of([0.5] * 100, [1] * 100)
    one = sweep(samples, samples.p1)
    means = means_of(one, exact(""), "threshold")
    (held,) = hold(one, means, Goal(min_accuracy=0.9))
    assert [held.at(at).holds for at in (0, 1)] == ["kept", "unknown"]
