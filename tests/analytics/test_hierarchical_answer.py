"""The answer as a whole: calibration, intervals of costs, what is judged, baselines."""

from __future__ import annotations

import numpy as np
import pytest

from mansard.analytics.decisions.offload.costs import mean_costs, mode_costs
from mansard.analytics.decisions.offload.records import Goal, HiSettings, make_amount
from mansard.analytics.decisions.offload.samples import calibration, make_samples
from tests.analytics.answers import analyse
from tests.analytics.hierarchical_samples import exact, made_up, samples_of


def test_calibration_error_by_hand() -> None:
    # Bins of 0.5: {0.2, 0.4} says 0.3, none right; {0.6, 0.8, 1.0} says 0.8, two of three right.
    samples = samples_of([0.2, 0.4, 0.6, 0.8, 1.0], [0, 0, 1, 0, 1])
    found = calibration(samples, samples.p1, "p1", n_bins=2)
    # 2/5 · 0.3 + 3/5 · (0.8 − 2/3) = 0.12 + 0.08 = 0.20
    assert found.error == pytest.approx(0.20)
    # Lower edge, samples, mean probability, share that is right.
    assert found.bins[0] == pytest.approx((0.0, 2, 0.3, 0.0))
    assert found.bins[1] == pytest.approx((0.5, 3, 0.8, 2 / 3))


def test_calibration_has_fifteen_bins() -> None:
    # As many as C. Guo et al. take: 1/15 = 0.0667, so 0.066 and 0.067 are in two bins.
    samples = samples_of([0.066, 0.067, 0.999], [0, 1, 1])
    found = calibration(samples, samples.p1, "p1")
    assert found.n_bins == 15
    edges = [edge for edge, *_ in found.bins]
    assert edges == pytest.approx([0, 1 / 15, 14 / 15])


@pytest.mark.parametrize(("power", "is_rejected"), [(1.0, False), (1.3, True)])
def test_whether_a_miscalibration_can_be_told(power: float, is_rejected: bool) -> None:
    rng = np.random.default_rng(5)
    p1 = rng.uniform(0.3, 1, 20_000)
    local = (rng.random(len(p1)) < p1**power).astype(int)
    samples = samples_of(p1.tolist(), local.tolist())
    assert calibration(samples, samples.p1, "p1").is_rejected == is_rejected


def test_calibrated_probabilities_pass_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(6)
    n_passed = 0
    for _ in range(200):
        p1 = rng.uniform(0.3, 1, 500)
        samples = samples_of(p1.tolist(), (rng.random(500) < p1).astype(int).tolist())
        n_passed += not calibration(samples, samples.p1, "p1").is_rejected
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
    assert mean_costs(mode, "energy", "never", half, low, high).unknown.endswith(
        "is unknown: it was not given"
    )


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


def test_a_test_that_rejects_nothing_is_not_said_to_show_calibration() -> None:
    samples = samples_of([0.9] * 4, [1] * 4)  # an error of 10 points
    found = analyse(samples, [exact("")], Goal(minimise="accuracy"), HiSettings(held_out=0))
    note = next(line for line in found.notes if "calibrat" in line)
    assert note.startswith("no miscalibration of p1 can be told: over 4 samples the error")


def test_the_decision_is_timed_on_this_host_where_its_time_is_not_given() -> None:
    samples = make_samples(made_up(500), "made up")
    mode = mode_costs(
        "15W",
        {
            "local_s": make_amount(2e-3, 2e-3, 2e-3, source="measured"),
            "local_j": make_amount(10e-3, 10e-3, 10e-3, source="measured"),
            "offload_s": make_amount(1e-2, 1e-2, 1e-2, source="measured"),
            "offload_j": make_amount(20e-3, 20e-3, 20e-3, source="measured"),
        },
    )
    found = analyse(samples, [mode], Goal(), HiSettings(held_out=0))
    (costs,) = found.costs
    assert costs.decision_s is not None
    assert costs.decision_s.source == "this host"
    assert found.notes[0] == ("costs: local run measured, decision this host, offload measured")
    assert found.notes[1].startswith("judged on the samples that it was chosen on")
    assert any(line.startswith("the decision takes ") for line in found.notes)
    # Nothing tells its energy on the board: the means are without it, and say so.
    assert costs.decision_j is None
    assert found.chosen is not None
    assert found.chosen.energy is not None
    assert found.chosen.energy.value == pytest.approx(10e-3 + found.chosen.share * 20e-3)
    assert any(line.startswith("energies exclude the decision") for line in found.notes)
    # A sum of measured parts was not measured; a part alone was.
    by_rule = {each.rule: each.energy for each in found.rules}
    assert found.chosen.energy.source == "modelled"
    assert by_rule["never"] is not None
    assert by_rule["never"].source == "measured"


def test_a_decision_of_unknown_energy_leaves_a_choice() -> None:
    samples = make_samples(made_up(500), "made up")
    costs = [exact("", local_j=5e-3, offload_j=20e-3)]
    goal = Goal(minimise="energy", min_accuracy=0.8)
    assert analyse(samples, costs, goal, HiSettings()).chosen is not None
    bare = analyse(samples, [exact("", offload_j=20e-3)], goal, HiSettings())
    assert bare.unknown["chosen"] == "the energy of the local run is unknown: it was not given"


def test_the_verdict_is_that_of_the_judged_samples() -> None:
    # Chosen where three of four are right without an offload, judged where one of four is.
    fit = samples_of([0.9] * 400, [1, 1, 1, 0] * 100)
    judged = samples_of([0.9] * 400, [1, 0, 0, 0] * 100)
    costs, goal = [exact("", local_s=1e-3, offload_s=1e-2)], Goal(min_accuracy=0.6)
    found = analyse(fit, costs, goal, HiSettings(), judged)
    assert found.on_fit is not None
    assert [each.holds for each in found.on_fit.limits] == ["kept"]
    assert found.verdict == "infeasible"
    assert "On the samples held out the limit on accuracy is broken." in found.sentence
    assert analyse(fit, costs, goal, HiSettings(), fit).verdict == "feasible"


def test_a_limit_without_an_interval_is_neither_kept_nor_broken() -> None:
    samples = make_samples(made_up(500), "made up")
    parts = {"local_s": make_amount(1e-3), "offload_s": make_amount(10e-3)}
    goal = Goal(minimise="accuracy", max_latency_s=3e-3)
    found = analyse(samples, [mode_costs("", parts)], goal, HiSettings(held_out=0))
    assert found.chosen is not None
    assert [each.holds for each in found.chosen.limits] == ["unknown"]
    assert found.verdict == "unknown"
    assert "No threshold is known to meet every limit; this one comes nearest." in found.sentence


def test_a_mode_without_a_time_leaves_the_verdict_open() -> None:
    samples = samples_of([0.9] * 400, [1, 1, 1, 0] * 100)
    # Every sample takes the local run of 1 ms in 15W, which breaks a limit of 0.5 ms.
    slow, unknown = exact("15W", local_s=1e-3, offload_s=1e-2), exact("30W", offload_s=1e-2)
    goal = Goal(max_latency_s=0.5e-3)
    alone = analyse(samples, [slow], goal, HiSettings())
    assert (alone.verdict, alone.modes_unknown) == ("infeasible", {})
    found = analyse(samples, [slow, unknown], goal, HiSettings())
    why = "the latency of the local run is unknown: it was not given"
    assert (found.verdict, found.modes_unknown) == ("unknown", {"30W": why})
    assert found.sentence.endswith(f" 30W is unknown: {why}.")


def test_a_cut_that_offloads_none_offloads_none_of_other_samples() -> None:
    fit = samples_of([0.6, 0.7, 0.8, 0.9] * 20, [1, 1, 1, 1] * 20)
    judged = samples_of([0.2, 0.7, 0.8, 0.9] * 20, [0, 1, 1, 1] * 20)
    costs = [exact("", local_s=1e-3, decision_s=0, offload_s=1e-2)]
    found = analyse(fit, costs, Goal(minimise="latency"), HiSettings(), judged)
    assert found.chosen is not None
    assert (found.chosen.threshold, found.chosen.share) == (0.0, 0.0)
    assert "Offload no sample: " in found.sentence


def test_never_or_always_is_said_where_it_is_better_than_every_threshold() -> None:
    samples = make_samples(made_up(2000), "made up")
    # A local run of 30 ms before an offload of 20 ms: whatever is offloaded costs both.
    slow = [exact("", local_s=30e-3, decision_s=1e-6, offload_s=20e-3)]
    goal = Goal(minimise="latency", min_accuracy=0.85)
    found = analyse(samples, slow, goal, HiSettings(rule="threshold"))
    assert found.better_baseline is not None
    assert found.better_baseline.rule == "always"
    assert found.better_baseline.latency is not None
    assert found.better_baseline.latency.value == 20e-3
    assert found.sentence.startswith("To offload all, without a local run, is better than every")
    # An offload that costs more than a wrong answer: the decision is spared as well.
    dear = analyse(samples, slow, Goal(minimise="cost", offload_cost=2.0), HiSettings())
    assert dear.better_baseline is not None
    assert dear.better_baseline.rule == "never"
    quick = [exact("", local_s=1e-3, decision_s=0, offload_s=20e-3)]
    own = analyse(samples, quick, goal, HiSettings(rule="threshold"))
    assert own.better_baseline is None
    assert own.unknown["better_baseline"].startswith("a threshold is at least as good")
