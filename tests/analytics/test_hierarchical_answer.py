"""The answer as a whole: calibration, choice under limits, intervals of costs, the replay."""

from __future__ import annotations

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.hierarchical.analysis import analyse
from mansard.analytics.hierarchical.calibration import calibration
from mansard.analytics.hierarchical.choice import best, choose
from mansard.analytics.hierarchical.costs import mean_costs
from mansard.analytics.hierarchical.online import replay
from mansard.analytics.hierarchical.records import Goal, HiSettings, ModeCosts, make_amount
from mansard.analytics.hierarchical.sample_tables import mode_costs
from mansard.analytics.hierarchical.samples import RIGHT, UNANSWERED, Samples, make_samples
from mansard.analytics.hierarchical.thresholds import sweep
from tests.analytics.hierarchical_samples import made_up


def samples_of(p1: list[float], local: list[int]) -> Samples:
    unanswered = np.full(len(p1), UNANSWERED, np.int8)
    return Samples(np.array(p1), None, np.array(local, np.int8), unanswered, unanswered)


def exact(mode: str, **values: float) -> ModeCosts:
    amounts = {name: make_amount(each, each, each) for name, each in values.items()}
    return mode_costs(mode, amounts)


def test_calibration_error_by_hand() -> None:
    # Bins of 0.5: {0.2, 0.4} says 0.3, none right; {0.6, 0.8, 1.0} says 0.8, two of three right.
    samples = samples_of([0.2, 0.4, 0.6, 0.8, 1.0], [0, 0, 1, 0, 1])
    found = calibration(samples, samples.p1, "p1", n_bins=2)
    # 2/5 · 0.3 + 3/5 · (0.8 − 2/3) = 0.12 + 0.08 = 0.20
    assert found.error == pytest.approx(0.20)
    assert [row[1] for row in found.bins] == [2, 3]
    assert (found.mean_probability, found.share_right) == pytest.approx((0.6, 0.4))


@pytest.mark.parametrize(("power", "is_calibrated"), [(1.0, True), (1.3, False)])
def test_whether_probabilities_are_calibrated(power: float, is_calibrated: bool) -> None:
    rng = np.random.default_rng(5)
    p1 = rng.uniform(0.3, 1, 20_000)
    local = (rng.random(len(p1)) < p1**power).astype(int)
    samples = samples_of(p1.tolist(), local.tolist())
    assert calibration(samples, samples.p1, "p1").is_calibrated == is_calibrated


def test_calibrated_probabilities_pass_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(6)
    n_passed = 0
    for _ in range(200):
        p1 = rng.uniform(0.3, 1, 500)
        samples = samples_of(p1.tolist(), (rng.random(500) < p1).astype(int).tolist())
        n_passed += calibration(samples, samples.p1, "p1").is_calibrated
    # 190 of 200 are expected, with a standard deviation of √(200 · 0.95 · 0.05) = 3.1.
    assert 178 <= n_passed <= 199


def test_means_and_their_intervals_by_hand() -> None:
    mode = mode_costs(
        "15W",
        {
            "local_s": make_amount(2.0, 1.7, 2.3),
            "decision_s": make_amount(0.0, 0.0, 0.0),
            "offload_s": make_amount(10.0, 9.2, 10.8),
        },
    )
    half, low, high = np.array([0.5]), np.array([0.46]), np.array([0.54])
    found = mean_costs(mode, "latency", "threshold", half, low, high)
    # 2 + 0.5 · 10 = 7; √(0.3² + (0.5 · 0.8)² + (10 · 0.04)²) = √0.41 = 0.640312
    assert (found.value[0], found.high[0] - 7, 7 - found.low[0]) == pytest.approx(
        (7, 0.640312, 0.640312)
    )
    # Below it with 97.5 %: the upper end; with a half the mean itself.
    assert found.likely_below(0.975)[0] == pytest.approx(7.640312)
    assert found.likely_below(0.5)[0] == pytest.approx(7)
    random = mean_costs(mode, "latency", "random", half, low, high)
    # Half of the samples run here and half there: 1 + 5 = 6.
    # √((0.5 · 0.3)² + (0.5 · 0.8)² + ((10 − 2) · 0.04)²) = √0.2849 = 0.533760
    assert (random.value[0], random.high[0] - 6) == pytest.approx((6, 0.533760))
    assert mean_costs(mode, "energy", "never", half, low, high).unknown.endswith("is not known")


def test_bounds_add_up_and_a_bare_number_gives_no_interval() -> None:
    parts = {
        "decision_s": make_amount(0.0, 0.0, 0.0),
        "offload_s": make_amount(10.0, 9.0, 12.0, "bounds"),
    }
    none = np.array([0.5])
    sure = mode_costs("", {**parts, "local_s": make_amount(2.0, 1.9, 2.1)})
    found = mean_costs(sure, "latency", "threshold", none, none, none)
    # 2 ± 0.1 and half of 9 to 12: 1.9 + 4.5 to 2.1 + 6
    assert (found.low[0], found.high[0], found.interval) == (6.4, 8.1, "bounds")
    bare = mode_costs("", {**parts, "local_s": make_amount(2.0)})
    amount = mean_costs(bare, "latency", "threshold", none, none, none).at(0)
    assert amount is not None
    assert (amount.value, amount.low) == (7.0, None)
    assert amount.unknown["low"] == "no uncertainty of the local run was given"


COSTS = st.sampled_from([0.5, 1.0, 2.0, 5.0])
SAMPLE = st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), st.integers(0, 1), st.integers(0, 1))


@settings(deadline=None)
@given(
    st.lists(SAMPLE, min_size=1, max_size=25),
    st.lists(st.tuples(COSTS, COSTS, COSTS), min_size=1, max_size=3),
    st.sampled_from([None, 1.5, 4.0]),
    st.sampled_from([None, 0.4, 0.8]),
    st.sampled_from(["accuracy", "latency", "energy", "cost"]),
)
def test_the_choice_is_that_of_all_pairs(
    rows: list[tuple[float, int, int]],
    modes: list[tuple[float, float, float]],
    max_latency_s: float | None,
    min_accuracy: float | None,
    minimise: str,
) -> None:
    p1, local, remote = (np.array(each) for each in zip(*rows, strict=True))
    ints = (local.astype(np.int8), remote.astype(np.int8), remote.astype(np.int8))
    samples = Samples(p1.astype(float), None, *ints)
    costs = [
        exact(f"m{at}", local_s=a, decision_s=0, offload_s=b, local_j=c, decision_j=0, offload_j=b)
        for at, (a, b, c) in enumerate(modes)
    ]
    goal = Goal(
        minimise=minimise,  # type: ignore[arg-type]
        max_latency_s=max_latency_s,
        min_accuracy=min_accuracy,
        offload_cost=0.3,
        probability=0.5,  # a limit counts by its mean alone
    )
    found = best(choose(sweep(samples, samples.p1), costs, goal))
    assert found is not None
    n, pairs = len(rows), []
    thresholds = [*sorted(set(p1.tolist())), 2.0]
    for (cut, threshold), (at, (a, b, c)) in product(enumerate(thresholds), enumerate(modes)):
        offloaded = p1 < threshold
        share = offloaded.sum() / n
        accuracy = np.where(offloaded, remote, local).sum() / n
        latency, energy = a + share * b, c + share * b
        cost = ((~offloaded & (local == 0)).sum() + 0.3 * offloaded.sum()) / n
        excess = 0.0
        if max_latency_s is not None:
            excess += max(0.0, (latency - max_latency_s) / max_latency_s)
        if min_accuracy is not None:
            excess += max(0.0, (min_accuracy - accuracy) / min_accuracy)
        values = {"accuracy": -accuracy, "latency": latency, "energy": energy, "cost": cost}
        rank = (excess, values[minimise], energy, latency, share)
        pairs.append((rank, at, cut))
    rank = min(pairs)[0]
    assert (found.excess, *found.rank) == pytest.approx(rank)
    assert found.is_feasible == (rank[0] == 0)


def test_a_replay_offloads_all_or_nothing_where_that_is_clear() -> None:
    samples = make_samples(made_up(300), "made up")
    free = replay(samples, 1e-9, n_orders=3)
    # An offload that costs nothing is never worse, and 1 − lower ≥ 0 always.
    assert free.share == 1.0
    assert free.regret == pytest.approx(0, abs=1e-6)
    dear = replay(samples, 1.5, n_orders=3)
    # No wrong answer costs 1.5: nothing is offloaded, and no threshold does better.
    assert (dear.share, dear.regret) == (0.0, 0.0)
    assert dear.accuracy == float((samples.local == RIGHT).mean())


@pytest.mark.parametrize("is_lite", [False, True])
def test_one_step_after_the_other_gives_the_same_replay(is_lite: bool) -> None:
    """The policy once more, on one order, in plain Python."""
    samples = make_samples(made_up(400, seed=2), "made up")
    beta, n_bins, alpha = 0.3, 20, 0.52
    found = replay(samples, beta, n_orders=1, is_lite=is_lite, seed=7)
    order = np.random.default_rng(7).permutation(400)
    count, right = [0] * n_bins, [0] * n_bins
    loss = 0.0
    for t, at in enumerate(order, start=1):
        here = min(int(samples.p1[at] * n_bins), n_bins - 1)
        bounds = [
            right[b] / count[b] - math.sqrt(alpha * math.log(t) / count[b])
            for b in ([here] if is_lite else range(here + 1))
            if count[b]
        ]
        if 1 - max([0.0, *bounds]) >= beta:
            loss += beta
            count[here] += 1
            right[here] += samples.agrees[at] == RIGHT
        else:
            loss += samples.local[at] != RIGHT
    assert found.loss == pytest.approx(loss / 400)
    assert found.regret == pytest.approx(loss - 400 * found.best_loss)


def test_regret_grows_as_a_logarithm() -> None:
    rng = np.random.default_rng(8)
    n = 40_000
    sure = rng.random(n) < 0.5  # confidence 0.95, right for 98 %; else 0.45, right for 30 %
    p1 = np.where(sure, 0.95, 0.45)
    local = (rng.random(n) < np.where(sure, 0.98, 0.30)).astype(np.int8)
    samples = Samples(p1, None, local, np.ones(n, np.int8), local)
    found = replay(samples, 0.4, n_orders=2)
    regret = dict(zip(found.steps, found.regrets, strict=True))
    late = [step for step in found.steps if step >= 10_000]
    early = regret[max(step for step in found.steps if step <= 2_500)]
    # Sixteen times as many samples: ln 40,000 / ln 2,500 = 1.35 of the regret, and not 16.
    assert regret[late[-1]] < 2.5 * early
    assert found.best_threshold == 0.95


def test_a_gain_over_random_needs_a_confidence_that_says_something() -> None:
    arrays = made_up(4000)
    costs = [exact("", local_s=1e-3, decision_s=1e-6, offload_s=1e-2)]
    goal, plain = Goal(minimise="cost", offload_cost=0.3), HiSettings(rule="threshold")
    found = analyse(make_samples(arrays, "made up"), costs, goal, plain)
    assert found.gain is not None
    assert found.gain.low > 0.02
    shuffled = {**arrays, "p1": np.random.default_rng(0).permutation(arrays["p1"])}
    del shuffled["p2"]
    goal = Goal(minimise="latency", min_accuracy=0.85)
    lost = analyse(make_samples(shuffled, "made up"), costs, goal, plain)
    assert lost.gain is not None
    assert lost.gain.low < 0 < lost.gain.high
    assert lost.logistic is None
    assert lost.unknown["logistic"] == "there is no p2 to fit it on"


def test_the_held_out_half_does_not_change_the_choice() -> None:
    samples = make_samples(made_up(3000), "made up")
    costs = [exact("", local_s=1e-3, decision_s=1e-6, offload_s=1e-2)]
    goal = Goal(minimise="cost", offload_cost=0.3)
    own = analyse(samples, costs, goal, HiSettings(rule="threshold"), samples.at(np.arange(100)))
    other = analyse(samples, costs, goal, HiSettings(rule="threshold"), samples.at(np.arange(50)))
    assert own.chosen is not None
    assert other.chosen is not None
    assert own.chosen.threshold == other.chosen.threshold
    assert (own.n_fit, own.n_judged, other.n_judged) == (3000, 100, 50)
    assert own.on_fit == other.on_fit


def test_the_decision_is_timed_where_its_time_is_not_given() -> None:
    samples = make_samples(made_up(500), "made up")
    mode = mode_costs(
        "15W",
        {
            "local_s": make_amount(2e-3, 2e-3, 2e-3),
            "local_j": make_amount(10e-3, 10e-3, 10e-3),
            "offload_s": make_amount(1e-2, 1e-2, 1e-2),
        },
    )
    found = analyse(samples, [mode], Goal(), dataclasses.replace(HiSettings(), held_out=0))
    timed = found.decision_time
    assert timed is not None
    assert timed.one_s.source == "measured"
    (costs,) = found.costs
    assert costs.decision_s == timed.one_s
    assert costs.decision_j is not None
    # 10 mJ in 2 ms are 5 W.
    assert costs.decision_j.value == pytest.approx(5 * timed.one_s.value)
    assert costs.decision_j.source == "modelled"
    assert found.notes[0] == (
        "costs: local run given, decision measured and modelled, offload given"
    )
    assert found.notes[1].startswith("judged on the samples that it was chosen on")


def test_never_or_always_is_said_where_it_is_better_than_every_threshold() -> None:
    samples = make_samples(made_up(2000), "made up")
    # A local run of 30 ms before an offload of 20 ms: whatever is offloaded costs both.
    slow = [exact("", local_s=30e-3, decision_s=1e-6, offload_s=20e-3)]
    goal = Goal(minimise="latency", min_accuracy=0.85)
    found = analyse(samples, slow, goal, HiSettings(rule="threshold"))
    assert found.better is not None
    assert found.better.rule == "always"
    assert found.better.latency is not None
    assert found.better.latency.value == 20e-3
    assert found.sentence.startswith("To offload all, without a local run, is better than every")
    # An offload that costs more than a wrong answer: the decision is spared as well.
    dear = analyse(samples, slow, Goal(minimise="cost", offload_cost=2.0), HiSettings())
    assert dear.better is not None
    assert dear.better.rule == "never"
    quick = [exact("", local_s=1e-3, decision_s=0, offload_s=20e-3)]
    own = analyse(samples, quick, goal, HiSettings(rule="threshold"))
    assert own.better is None
    assert own.unknown["better"].startswith("a threshold is at least as good")
