"""Hierarchical inference: a rule is chosen on one part of the samples and judged on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mansard.analytics.decisions.offload.costs import time_decision, with_decision
from mansard.analytics.decisions.offload.policies import (
    MOST_REPLAYED,
    fit_logistic,
    probability,
    replay,
)
from mansard.analytics.decisions.offload.records import (
    Calibration,
    Goal,
    Hierarchical,
    HiPoint,
    HiSettings,
    Logistic,
    ModeCosts,
    Replay,
    Rule,
)
from mansard.analytics.decisions.offload.rules import (
    RuleChoice,
    best,
    choose,
    make_gain,
    make_points,
    why_unknown,
)
from mansard.analytics.decisions.offload.samples import (
    RIGHT,
    UNANSWERED,
    Array,
    LabelledSamples,
    calibration,
    split,
)
from mansard.analytics.decisions.offload.thresholds import (
    DRAWS,
    Sweep,
    kind_counts,
    reached,
    sweep,
    thinned,
)
from mansard.core.errors import UsageError

MOST_POINTS = 120  # of the frontier
_FRONTIER_DRAWS = 500
_FIXED: tuple[Rule, ...] = ("never", "always")


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A rule with its sweep of the samples to fit, and its best threshold in each mode."""

    rule: Rule
    logistic: Logistic | None
    sweep: Sweep
    choices: tuple[RuleChoice | None, ...]

    def threshold(self, choice: RuleChoice) -> float:
        """The confidence below which it offloads."""
        return float(self.sweep.threshold[choice.cut])


def analyse(
    samples: LabelledSamples,
    modes: Sequence[ModeCosts],
    goal: Goal,
    settings: HiSettings,
    judged_on: LabelledSamples | None = None,
) -> Hierarchical:
    """The best rule, threshold and mode for ``goal``, judged on samples that were held out.

    ``modes``: at least one. ``judged_on``: samples of their own to judge on. Raises UsageError
    where the goal needs what is not given.
    """
    _check(goal, settings)
    fit, judged = (
        (samples, judged_on)
        if judged_on is not None
        else split(samples, _held_out(settings), settings.seed)
    )
    logistic = fit_logistic(fit, is_balanced=settings.is_balanced)
    rules = _rules(fit, judged, logistic, settings)
    if any(mode.decision_s is None for mode in modes):
        decision_s = time_decision(fit, rules[-1][1])
        modes = [with_decision(mode, decision_s) for mode in modes]
    candidates = []
    for rule, logistic_of_rule in rules:
        curve = sweep(fit, _confidence(fit, logistic_of_rule))
        candidates.append(_Candidate(rule, logistic_of_rule, curve, choose(curve, modes, goal)))
    taken = _taken(candidates, settings)
    choice = best(taken.choices)
    remote_accuracy = None
    if (judged.remote != UNANSWERED).all():
        remote_accuracy = float((judged.remote == RIGHT).mean())
    if choice is None:
        why = why_unknown(taken.sweep, modes, goal)
        unknown = dict.fromkeys(("chosen", "on_fit", "gain", "better_baseline"), why)
        judgement: dict[str, Any] = dict.fromkeys(unknown)
    else:
        judgement = _judge(
            taken, choice, candidates, fit, judged, modes=modes, goal=goal, settings=settings
        )
        unknown = {"better_baseline": "a threshold is at least as good as never or always"}
    unknown_modes = _unknown_modes(taken, modes, goal)
    maybe = {"logistic": logistic, "remote_accuracy": remote_accuracy, **judgement}
    unknown["logistic"] = _no_logistic(fit)
    unknown["remote_accuracy"] = "not every sample has a recorded remote answer"
    return Hierarchical(
        n_fit=len(fit),
        n_judged=len(judged),
        is_held_out=judged is not fit,
        verdict=_verdict(judgement["chosen"], has_unknown=bool(unknown_modes)),
        modes_unknown=unknown_modes,
        local_accuracy=float((judged.local == RIGHT).mean()),
        calibration=_calibrations(judged, logistic, settings),
        replay=_replays(samples, goal, settings),
        costs=tuple(modes),
        unknown={name: why for name, why in unknown.items() if maybe[name] is None},
        **maybe,
    )


def _judge(
    taken: _Candidate,
    choice: RuleChoice,
    candidates: Sequence[_Candidate],
    fit: LabelledSamples,
    judged: LabelledSamples,
    *,
    modes: Sequence[ModeCosts],
    goal: Goal,
    settings: HiSettings,
) -> dict[str, Any]:
    """The fields of the answer that depend on the chosen rule."""

    def points(
        candidate: _Candidate,
        thresholds: Sequence[float],
        mode: int,
        of: LabelledSamples,
        n_draws: int = DRAWS,
    ) -> tuple[HiPoint, ...]:
        tables = kind_counts(of, _confidence(of, candidate.logistic), np.array(thresholds))
        return make_points(
            tables, thresholds, candidate.rule, modes[mode], goal, settings.seed, n_draws=n_draws
        )

    at, threshold = choice.mode, taken.threshold(choice)
    of_judged = _confidence(judged, taken.logistic)
    tables = kind_counts(judged, of_judged, np.array([threshold]))

    def baseline(rule: Rule, mode: int) -> HiPoint:
        return make_points(tables, [None], rule, modes[mode], goal, settings.seed)[0]

    rules: list[HiPoint] = []
    for candidate in candidates:
        best_there = candidate.choices[at]
        thresholds = [] if best_there is None else [candidate.threshold(best_there)]
        for cut in thresholds + _usual(candidate, goal):
            rules += points(candidate, [cut], at, judged)
    rules += [*(baseline(rule, at) for rule in _FIXED), baseline("random", at)]
    better = _better_baseline(choice, fit, modes, goal)
    curve = sweep(judged, of_judged)
    frontier = curve.threshold[thinned(curve, MOST_POINTS)].tolist()
    return {
        "chosen": points(taken, [threshold], at, judged)[0],
        "on_fit": points(taken, [threshold], at, fit)[0],
        "gain": make_gain(tables, settings.seed),
        "better_baseline": None if better is None else baseline(*better),
        "rules": tuple(rules),
        "modes": tuple(
            points(taken, [taken.threshold(in_mode)], in_mode.mode, judged)[0]
            for in_mode in taken.choices
            if in_mode is not None
        ),
        "frontier": points(taken, frontier, at, judged, _FRONTIER_DRAWS),
    }


def _unknown_modes(taken: _Candidate, modes: Sequence[ModeCosts], goal: Goal) -> dict[str, str]:
    """The modes in which no threshold can be chosen, and why; the rest of them is compared."""
    return {
        mode.mode: why_unknown(taken.sweep, [mode], goal)
        for mode, choice in zip(modes, taken.choices, strict=True)
        if choice is None and mode.mode
    }


def _verdict(
    chosen: HiPoint | None, *, has_unknown: bool
) -> Literal["feasible", "infeasible", "unknown"]:
    holds = {"unknown"} if chosen is None else {limit.holds for limit in chosen.limits}
    if "broken" in holds:
        return "unknown" if has_unknown else "infeasible"
    return "unknown" if "unknown" in holds else "feasible"


def _check(goal: Goal, settings: HiSettings) -> None:
    if goal.minimise == "cost" and goal.offload_cost is None:
        raise UsageError(
            "the cost of an offload is not given", fix="give --beta, such as --beta 0.3"
        )
    if settings.n_replayed and goal.offload_cost is None:
        raise UsageError("a replay needs the cost of an offload", fix="give --beta 0.3")
    if settings.n_replayed > MOST_REPLAYED:
        what = f"a replay of {settings.n_replayed:,} samples takes too long"
        raise UsageError(what, fix=f"give {MOST_REPLAYED:,} at most")
    if not 0 <= _held_out(settings) < 1:
        raise UsageError(
            f"a share of {_held_out(settings):g} cannot be held out", fix="write --held-out 0.5"
        )


def _held_out(settings: HiSettings) -> float:
    return 0.5 if settings.held_out is None else settings.held_out


def _rules(
    fit: LabelledSamples, judged: LabelledSamples, logistic: Logistic | None, settings: HiSettings
) -> list[tuple[Rule, Logistic | None]]:
    rules: list[tuple[Rule, Logistic | None]] = [("threshold", None)]
    if logistic is not None and judged.p2 is not None:
        rules.append(("logistic", logistic))
    if settings.published is not None:
        probability(settings.published, fit)  # says where p2 is missing
        probability(settings.published, judged)
        rules.append(("published logistic", settings.published))
    return rules


def _confidence(samples: LabelledSamples, logistic: Logistic | None) -> Array:
    return samples.p1 if logistic is None else probability(logistic, samples)


def _taken(candidates: Sequence[_Candidate], settings: HiSettings) -> _Candidate:
    """The rule that was asked for, else the best; of equals the simplest."""
    if settings.rule is not None:
        named = [candidate for candidate in candidates if candidate.rule == settings.rule]
        if not named:
            raise UsageError(
                f"there is no rule {settings.rule!r} here",
                fix=f"there is {', '.join(candidate.rule for candidate in candidates)}",
            )
        return named[0]
    known = [
        (choice.rank, at)
        for at, candidate in enumerate(candidates)
        if (choice := best(candidate.choices)) is not None
    ]
    return candidates[min(known)[1] if known else 0]


def _better_baseline(
    choice: RuleChoice, fit: LabelledSamples, modes: Sequence[ModeCosts], goal: Goal
) -> tuple[Rule, int] | None:
    """Never or always to offload, and the mode, where that was better on the samples to fit."""
    tables = kind_counts(fit, fit.p1, np.zeros(1))
    baselines = [
        (fixed.rank, rule, fixed.mode)
        for rule in _FIXED
        if (fixed := best(choose(reached(tables, rule), modes, goal, rule))) is not None
    ]
    rank, rule, mode = min(baselines, default=(choice.rank, "never", 0))
    return (rule, mode) if rank < choice.rank else None


def _usual(candidate: _Candidate, goal: Goal) -> list[float]:
    """Usual thresholds: DIME's 0.5; 1 − β, which is the best if p1 is calibrated."""
    if candidate.logistic is not None:
        return [0.5]
    return [] if goal.offload_cost is None else [1 - goal.offload_cost]


def _calibrations(
    judged: LabelledSamples, logistic: Logistic | None, settings: HiSettings
) -> tuple[Calibration, ...]:
    curves = [calibration(judged, judged.p1, "p1", settings.n_bins)]
    if logistic is not None and judged.p2 is not None and not settings.is_balanced:
        chance = probability(logistic, judged)
        curves.append(calibration(judged, chance, "logistic", settings.n_bins))
    return tuple(curves)


def _replays(samples: LabelledSamples, goal: Goal, settings: HiSettings) -> tuple[Replay, ...]:
    if not settings.n_replayed or goal.offload_cost is None:
        return ()
    n = min(settings.n_replayed, len(samples))
    # Files are often sorted by class or confidence: the first ones are no sample of the whole.
    rows = np.random.default_rng(settings.seed).choice(len(samples), n, replace=False)
    return replay(samples.at(rows), goal.offload_cost, seed=settings.seed)


def _no_logistic(fit: LabelledSamples) -> str:
    if fit.p2 is None:
        return "there is no p2 to fit it on"
    return "all local answers that it is fitted on are right, or all are wrong"
