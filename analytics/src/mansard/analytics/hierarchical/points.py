"""Rules on samples, with what each reaches and costs: the rows of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.hierarchical.costs import Means, mean_costs
from mansard.analytics.hierarchical.records import (
    Goal,
    HiPoint,
    Holds,
    Limit,
    ModeCosts,
    Rule,
)
from mansard.analytics.hierarchical.resampling import (
    DRAWS,
    Reached,
    draw,
    ends,
    reached,
    share_ends,
)
from mansard.analytics.hierarchical.samples import Array

UNANSWERED_WHY = "some samples that are offloaded have no recorded remote answer"
NO_BETA = "no cost of an offload (--beta) was given"


@dataclass(frozen=True, eq=False)
class Drawn:
    """Counts of kinds at some thresholds, and the same of samples drawn again."""

    tables: NDArray[np.int64]  # thresholds × 2 × 2 × 3
    draws: NDArray[np.int64]  # draws × thresholds × 2 × 2 × 3

    @staticmethod
    def of(tables: NDArray[np.int64], seed: int, n_draws: int = DRAWS) -> Drawn:
        """Of ``tables``, drawn ``n_draws`` times."""
        return Drawn(tables, draw(tables, n_draws, seed))


def make_points(
    drawn: Drawn, thresholds: Sequence[float | None], rule: Rule, mode: ModeCosts, goal: Goal
) -> tuple[HiPoint, ...]:
    """One point for each threshold of ``drawn``."""
    share = reached(drawn.tables, "threshold").share if rule == "random" else None
    now = reached(drawn.tables, rule, share)
    again = reached(drawn.draws, rule, share)
    n = int(drawn.tables[0].sum())
    spans = _spans(again, goal, n)
    if rule in {"never", "always", "random"}:
        spans["share"] = (now.share, now.share)  # nothing about samples decides it
    low, high = (np.clip(each, 0, 1) for each in spans["share"])
    costs = {
        name: mean_costs(mode, name, rule, now.share, low, high) for name in ("latency", "energy")
    }
    reachable = _Reachable(rule, mode.mode, n, now, spans, costs, goal)
    return tuple(reachable.point(at, threshold) for at, threshold in enumerate(thresholds))


def _spans(again: Reached, goal: Goal, n: int) -> dict[str, tuple[Array, Array]]:
    spans = {
        "share": share_ends(again.share, n),
        "least": share_ends(again.accuracy_least, n),
        "most": share_ends(again.accuracy_most, n),
        "likely": share_ends(again.accuracy_least, n, goal.probability),
    }
    if goal.offload_cost is not None:
        spans["cost"] = ends(again.cost(goal.offload_cost))
    return spans


@dataclass(frozen=True, eq=False)
class _Reachable:
    """What one rule reaches and costs in one mode, at many thresholds."""

    rule: Rule
    mode: str
    n: int
    now: Reached
    spans: dict[str, tuple[Array, Array]]
    costs: dict[str, Means]
    goal: Goal

    def point(self, at: int, threshold: float | None) -> HiPoint:
        """The row of one threshold."""
        now, spans, beta = self.now, self.spans, self.goal.offload_cost
        least, most = float(now.accuracy_least[at]), float(now.accuracy_most[at])
        low, high = float(spans["least"][0][at]), float(spans["most"][1][at])
        n_unanswered = round((most - least) * self.n)
        latency, energy = self.costs["latency"].at(at), self.costs["energy"].at(at)
        costs: list[float | None] = [None, None, None]
        if beta is not None:
            costs = [float(each[at]) for each in (now.cost(beta), *spans["cost"])]
        values: dict[str, Any] = {
            "threshold": threshold,
            "accuracy": None if n_unanswered else least,
            "latency": latency,
            "energy": energy,
            **dict(zip(("cost", "cost_low", "cost_high"), costs, strict=True)),
        }
        reasons = {
            "threshold": "it looks at no confidence",
            "accuracy": UNANSWERED_WHY,
            "latency": self.costs["latency"].unknown,
            "energy": self.costs["energy"].unknown,
        }
        return HiPoint(
            rule=self.rule,
            mode=self.mode,
            n=self.n,
            n_unanswered=n_unanswered,
            share=float(now.share[at]),
            share_low=float(spans["share"][0][at]),
            share_high=float(spans["share"][1][at]),
            accuracy_least=least,
            accuracy_most=most,
            accuracy_low=low,
            accuracy_high=high,
            limits=tuple(self._limits(at, least)),
            unknown={
                name: reasons.get(name, NO_BETA) for name, each in values.items() if each is None
            },
            **values,
        )

    def _limits(self, at: int, least: float) -> Iterator[Limit]:
        goal = self.goal
        if goal.max_latency_s is not None:
            yield _most("latency", goal.max_latency_s, self.costs["latency"], at, goal.probability)
        if goal.max_energy_j is not None:
            yield _most("energy", goal.max_energy_j, self.costs["energy"], at, goal.probability)
        if goal.min_accuracy is not None:
            low, high = (float(each[at]) for each in self.spans["likely"])
            holds = _holds(low >= goal.min_accuracy, high < goal.min_accuracy)
            yield Limit(quantity="accuracy", limit=goal.min_accuracy, value=least, holds=holds)


def _most(
    name: Literal["latency", "energy"], limit: float, found: Means, at: int, probability: float
) -> Limit:
    if found.unknown:
        why = {"value": found.unknown}
        return Limit(quantity=name, limit=limit, value=None, holds="unknown", unknown=why)
    likely, least = (float(found.likely_below(each)[at]) for each in (probability, 1 - probability))
    is_sure = found.interval in {"spread", "bounds"}
    holds = _holds(is_sure and likely <= limit, least > limit)
    return Limit(quantity=name, limit=limit, value=float(found.value[at]), holds=holds)


def _holds(is_kept: bool, is_broken: bool) -> Holds:
    return "kept" if is_kept else "broken" if is_broken else "unknown"
