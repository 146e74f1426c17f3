"""Hierarchical inference as a whole: choose on one part of the samples, judge on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.hierarchical.calibration import calibration
from mansard.analytics.hierarchical.choice import Choice, best, choose, choose_baseline
from mansard.analytics.hierarchical.costs import with_decision
from mansard.analytics.hierarchical.decision_time import time_decision
from mansard.analytics.hierarchical.logistic import fit_logistic, probability
from mansard.analytics.hierarchical.online import replay
from mansard.analytics.hierarchical.points import Drawn, make_points
from mansard.analytics.hierarchical.records import (
    Calibration,
    Gain,
    Goal,
    Hierarchical,
    HiPoint,
    HiSettings,
    Logistic,
    ModeCosts,
    Replay,
    Rule,
)
from mansard.analytics.hierarchical.resampling import ends, kind_counts, reached
from mansard.analytics.hierarchical.samples import RIGHT, UNANSWERED, Array, Samples, split
from mansard.analytics.hierarchical.thresholds import Sweep, sweep, thinned
from mansard.analytics.hierarchical.wording import with_words
from mansard.core.errors import UsageError

MOST_POINTS = 120  # of the frontier
_FRONTIER_DRAWS = 500


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A rule with its confidences, its sweep of the samples to fit, and its best thresholds."""

    rule: Rule
    logistic: Logistic | None
    of_judged: Array
    sweep: Sweep
    choices: tuple[Choice | None, ...]

    @property
    def best(self) -> Choice | None:
        """The best of all modes."""
        return best(self.choices)

    def threshold(self, choice: Choice) -> float:
        """The confidence below which it offloads."""
        return float(self.sweep.threshold[choice.cut])


def analyse(
    samples: Samples,
    modes: Sequence[ModeCosts],
    goal: Goal,
    settings: HiSettings,
    judged_on: Samples | None = None,
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
    timed = None
    if any(mode.decision_s is None for mode in modes):
        timed = time_decision(fit, rules[-1][1], 0.5)
        modes = [with_decision(mode, timed.one_s) for mode in modes]
    candidates = []
    for rule, own in rules:
        one = sweep(fit, _confidence(fit, own))
        of_judged = _confidence(judged, own)
        candidates.append(_Candidate(rule, own, of_judged, one, choose(one, modes, goal)))
    taken = _taken(candidates, settings)
    choice = taken.best
    judgement: dict[str, Any] = dict.fromkeys(("chosen", "on_fit", "gain", "better"))
    unknown = dict.fromkeys(judgement, _why(goal)) if choice is None else {}
    if choice is not None:
        judgement = _judge(taken, candidates, choice, _Parts(fit, judged, modes, goal, settings))
    remote_accuracy = None
    if (judged.remote != UNANSWERED).all():
        remote_accuracy = float((judged.remote == RIGHT).mean())
    for name, value, why in (
        ("logistic", logistic, _no_logistic(fit)),
        ("remote_accuracy", remote_accuracy, "not every sample has a recorded remote answer"),
        ("decision_time", timed, "the cost of the decision was given"),
    ):
        if value is None:
            unknown[name] = why
    kept = choice is not None and choice.is_feasible
    if choice is not None and judgement["better"] is None:
        unknown["better"] = "a threshold is at least as good as never or always to offload"
    found = Hierarchical(
        n_fit=len(fit),
        n_judged=len(judged),
        is_held_out=judged is not fit,
        verdict="unknown" if choice is None else "feasible" if kept else "infeasible",
        local_accuracy=float((judged.local == RIGHT).mean()),
        remote_accuracy=remote_accuracy,
        logistic=logistic,
        calibration=_calibrations(judged, logistic, settings),
        decision_time=timed,
        replay=_replays(samples, goal, settings),
        costs=tuple(modes),
        unknown=unknown,
        **judgement,
    )
    return with_words(found)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What a choice was made on, and what it is judged on."""

    fit: Samples
    judged: Samples
    modes: Sequence[ModeCosts]
    goal: Goal
    settings: HiSettings

    def point(self, each: _Candidate, threshold: float, mode: int) -> HiPoint:
        """A rule at one threshold, judged."""
        drawn = self.drawn(self.judged, each.of_judged, threshold)
        return make_points(drawn, [threshold], each.rule, self.modes[mode], self.goal)[0]

    def drawn(self, samples: Samples, confidence: Array, threshold: float) -> Drawn:
        """Counts of kinds, and of samples drawn again."""
        tables = kind_counts(samples, confidence, np.array([threshold]))
        return Drawn.of(tables, self.settings.seed)


def _judge(
    taken: _Candidate, candidates: Sequence[_Candidate], choice: Choice, parts: _Parts
) -> dict[str, Any]:
    """The fields of the answer that need a choice."""
    mode, threshold = parts.modes[choice.mode], taken.threshold(choice)
    drawn = parts.drawn(parts.judged, taken.of_judged, threshold)
    on_fit = parts.drawn(parts.fit, _confidence(parts.fit, taken.logistic), threshold)
    rules = []
    for each in candidates:
        own = each.choices[choice.mode]
        thresholds = [] if own is None else [each.threshold(own)]
        thresholds += _usual(each, parts.goal)
        rules += [parts.point(each, one, choice.mode) for one in thresholds]
    baselines: tuple[Rule, ...] = ("never", "always", "random")
    rules += [make_points(drawn, [None], rule, mode, parts.goal)[0] for rule in baselines]
    found = [each for each in taken.choices if each is not None]
    return {
        "chosen": make_points(drawn, [threshold], taken.rule, mode, parts.goal)[0],
        "on_fit": make_points(on_fit, [threshold], taken.rule, mode, parts.goal)[0],
        "gain": _gain(drawn),
        "better": _better(choice, drawn, parts),
        "rules": tuple(rules),
        "modes": tuple(parts.point(taken, taken.threshold(each), each.mode) for each in found),
        "frontier": _frontier(taken, mode, parts),
    }


def _check(goal: Goal, settings: HiSettings) -> None:
    if goal.minimise == "cost" and goal.offload_cost is None:
        raise UsageError(
            "the cost of an offload is not given", fix="give --beta, such as --beta 0.3"
        )
    if settings.n_replayed and goal.offload_cost is None:
        raise UsageError("a replay needs the cost of an offload", fix="give --beta 0.3")
    if not 0 <= _held_out(settings) < 1:
        raise UsageError(
            f"a share of {_held_out(settings):g} cannot be held out", fix="write --held-out 0.5"
        )


def _held_out(settings: HiSettings) -> float:
    return 0.5 if settings.held_out is None else settings.held_out


def _rules(
    fit: Samples, judged: Samples, logistic: Logistic | None, settings: HiSettings
) -> list[tuple[Rule, Logistic | None]]:
    found: list[tuple[Rule, Logistic | None]] = [("threshold", None)]
    if logistic is not None and judged.p2 is not None:
        found.append(("logistic", logistic))
    if settings.published is not None:
        probability(settings.published, fit)  # says where p2 is missing
        probability(settings.published, judged)
        found.append(("published logistic", settings.published))
    return found


def _confidence(samples: Samples, logistic: Logistic | None) -> Array:
    return samples.p1 if logistic is None else probability(logistic, samples)


def _taken(candidates: Sequence[_Candidate], settings: HiSettings) -> _Candidate:
    """The rule that was asked for, else the best; of equals the simplest."""
    if settings.rule is not None:
        own = [each for each in candidates if each.rule == settings.rule]
        if not own:
            raise UsageError(
                f"there is no rule {settings.rule!r} here",
                fix=f"there is {', '.join(each.rule for each in candidates)}",
            )
        return own[0]
    known = [each for each in candidates if each.best is not None] or list(candidates)

    def rank(each: _Candidate) -> tuple[float, ...]:
        choice = each.best
        return (0.0,) if choice is None else (choice.excess, *choice.rank)

    return min(known, key=rank)


def _better(choice: Choice, drawn: Drawn, parts: _Parts) -> HiPoint | None:
    """Never or always to offload, where that was better on the samples to fit."""
    rules: tuple[Rule, ...] = ("never", "always")
    found = [
        (own.excess, own.rank, rule, own.mode)
        for rule in rules
        if (own := choose_baseline(parts.fit, parts.modes, parts.goal, rule)) is not None
    ]
    excess, rank, rule, mode = min(found, default=(np.inf, choice.rank, "never", 0))
    if (excess, rank) >= (choice.excess, choice.rank):
        return None
    return make_points(drawn, [None], rule, parts.modes[mode], parts.goal)[0]


def _usual(each: _Candidate, goal: Goal) -> list[float]:
    """Thresholds that nobody has to choose: DIME's half; 1 − β, the best where p1 is calibrated."""
    if each.logistic is not None:
        return [0.5]
    return [] if goal.offload_cost is None else [1 - goal.offload_cost]


def _gain(drawn: Drawn) -> Gain:
    """How much more is right than where as many samples are offloaded at random."""

    def gain(table: NDArray[np.int64]) -> Array:
        own, random = reached(table, "threshold"), reached(table, "random")
        middle = (own.accuracy_least + own.accuracy_most) / 2
        return np.asarray(middle - (random.accuracy_least + random.accuracy_most) / 2)

    low, high = ends(gain(drawn.draws))
    return Gain(accuracy=float(gain(drawn.tables)[0]), low=float(low[0]), high=float(high[0]))


def _frontier(taken: _Candidate, mode: ModeCosts, parts: _Parts) -> tuple[HiPoint, ...]:
    one = sweep(parts.judged, taken.of_judged)
    thresholds = one.threshold[thinned(one, MOST_POINTS)]
    tables = kind_counts(parts.judged, taken.of_judged, thresholds)
    drawn = Drawn.of(tables, parts.settings.seed, _FRONTIER_DRAWS)
    values = [float(each) for each in thresholds]
    return make_points(drawn, values, taken.rule, mode, parts.goal)


def _calibrations(
    judged: Samples, logistic: Logistic | None, settings: HiSettings
) -> tuple[Calibration, ...]:
    found = [calibration(judged, judged.p1, "p1", settings.n_bins)]
    if logistic is not None and judged.p2 is not None and not settings.is_balanced:
        chance = probability(logistic, judged)
        found.append(calibration(judged, chance, "logistic", settings.n_bins))
    return tuple(found)


def _replays(samples: Samples, goal: Goal, settings: HiSettings) -> tuple[Replay, ...]:
    if not settings.n_replayed or goal.offload_cost is None:
        return ()
    first = samples.at(np.arange(min(settings.n_replayed, len(samples))))
    return tuple(
        replay(
            first,
            goal.offload_cost,
            n_orders=settings.n_orders,
            is_lite=is_lite,
            seed=settings.seed,
        )
        for is_lite in (False, True)
    )


def _why(goal: Goal) -> str:
    limits = {
        "latency": goal.max_latency_s is not None or goal.minimise == "latency",
        "energy": goal.max_energy_j is not None or goal.minimise == "energy",
    }
    asked = [name for name, is_asked in limits.items() if is_asked]
    return f"the {' and the '.join(asked)} of the local run or of an offload is not known"


def _no_logistic(fit: Samples) -> str:
    if fit.p2 is None:
        return "there is no p2 to fit it on"
    return "all local answers that it is fitted on are right, or all are wrong"
