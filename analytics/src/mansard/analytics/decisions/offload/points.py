"""Rules on samples, with what each reaches and costs: the rows of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.offload.limits import hold, means_of
from mansard.analytics.decisions.offload.records import (
    BASELINES,
    Gain,
    Goal,
    HiPoint,
    ModeCosts,
    Rule,
)
from mansard.analytics.decisions.offload.resampling import DRAWS, draw, ends, reached, share_ends
from mansard.analytics.decisions.offload.samples import Array

UNANSWERED_WHY = "some samples that are offloaded have no recorded remote answer"
NO_BETA = "no cost of an offload (--beta) was given"


def make_points(
    tables: NDArray[np.int64],
    thresholds: Sequence[float | None],
    rule: Rule,
    mode: ModeCosts,
    goal: Goal,
    seed: int,
    *,
    n_draws: int = DRAWS,
) -> tuple[HiPoint, ...]:
    """One point for each of ``thresholds``, from its counts of kinds (``tables``)."""
    share = reached(tables, "threshold").share if rule == "random" else None
    now, again = (reached(each, rule, share) for each in (tables, draw(tables, n_draws, seed)))
    spans = {
        "share": (now.share, now.share)  # nothing about samples decides it
        if rule in BASELINES
        else share_ends(again.share, now.n),
        "least": share_ends(again.accuracy_least, now.n),
        "most": share_ends(again.accuracy_most, now.n),
    }
    means = means_of(now, mode, rule)
    limits = list(hold(now, means, goal))
    beta = goal.offload_cost
    costs = [] if beta is None else [now.cost(beta), *ends(again.cost(beta))]
    reasons: dict[str, str] = {
        "threshold": "it looks at no confidence",
        "accuracy": UNANSWERED_WHY,
        "latency": means["latency"].unknown,
        "energy": means["energy"].unknown,
    }
    points = []
    for at, threshold in enumerate(thresholds):
        least, most = float(now.accuracy_least[at]), float(now.accuracy_most[at])
        n_unanswered = round((most - least) * now.n)
        cost, cost_low, cost_high = (float(each[at]) for each in costs) if costs else [None] * 3
        values: dict[str, Any] = {
            "threshold": threshold,
            "accuracy": None if n_unanswered else least,
            "latency": means["latency"].at(at),
            "energy": means["energy"].at(at),
            "cost": cost,
            "cost_low": cost_low,
            "cost_high": cost_high,
        }
        points.append(
            HiPoint(
                rule=rule,
                mode=mode.mode,
                n=now.n,
                n_unanswered=n_unanswered,
                share=float(now.share[at]),
                share_low=float(spans["share"][0][at]),
                share_high=float(spans["share"][1][at]),
                accuracy_least=least,
                accuracy_most=most,
                accuracy_low=float(spans["least"][0][at]),
                accuracy_high=float(spans["most"][1][at]),
                limits=tuple(held.at(at) for held in limits),
                unknown={
                    name: reasons.get(name, NO_BETA)
                    for name, each in values.items()
                    if each is None
                },
                **values,
            )
        )
    return tuple(points)


def make_gain(tables: NDArray[np.int64], seed: int) -> Gain:
    """How much more is right than where the same share is offloaded at random; paired draws."""

    def gain(table: NDArray[np.int64]) -> Array:
        own, random = reached(table, "threshold"), reached(table, "random")
        middle = (own.accuracy_least + own.accuracy_most) / 2
        return np.asarray(middle - (random.accuracy_least + random.accuracy_most) / 2)

    low, high = ends(gain(draw(tables, DRAWS, seed)))
    return Gain(accuracy=float(gain(tables)[0]), low=float(low[0]), high=float(high[0]))
