"""Rules on samples: which limits they keep, the best of them, and what each reaches and costs.

A limit is kept, broken, or not known. The best threshold and power mode under limits is found by
every threshold of every mode. A point is a rule with what it reaches and costs: a row of the
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.decisions.offload.costs import Z95, Means, mean_costs
from mansard.analytics.decisions.offload.records import (
    BASELINES,
    Gain,
    Goal,
    HiPoint,
    Holds,
    Limit,
    ModeCosts,
    Quantity,
    Rule,
)
from mansard.analytics.decisions.offload.samples import Array
from mansard.analytics.decisions.offload.thresholds import (
    DRAWS,
    Reached,
    draw,
    ends,
    reached,
    share_ends,
)

HOLDS: tuple[Holds, ...] = ("kept", "unknown", "broken")  # the best first
_KEPT, _UNKNOWN, _BROKEN = range(3)


@dataclass(frozen=True, eq=False, kw_only=True)
class Held:
    """One limit and what a rule reaches at each threshold.

    ``holds``: indices of HOLDS. ``excess``: the share of the limit by which the likely end of the
    interval breaks it; NaN where ``unknown`` says why there is no value.
    """

    quantity: Quantity
    limit: float
    value: Array
    holds: NDArray[np.int8]
    excess: Array
    unknown: str = ""

    def at(self, place: int) -> Limit:
        """At one threshold."""
        return Limit(
            quantity=self.quantity,
            limit=self.limit,
            value=None if self.unknown else float(self.value[place]),
            holds=HOLDS[int(self.holds[place])],
            unknown={"value": self.unknown} if self.unknown else {},
        )


def means_of(reached: Reached, mode: ModeCosts, rule: Rule) -> dict[Quantity, Means]:
    """Mean latency and energy; the share is as uncertain as Wilson's interval, a baseline's not."""
    share = reached.share
    ends = (share, share) if rule in BASELINES else wilson_ends(share, reached.n, Z95)
    names: tuple[Quantity, ...] = ("latency", "energy")
    return {name: mean_costs(mode, name, rule, share, *ends) for name in names}


def hold(reached: Reached, means: Mapping[Quantity, Means], goal: Goal) -> Iterator[Held]:
    """Each limit of ``goal``.

    Kept and broken: with its probability, by Wilson's interval of the accuracy and the intervals
    of the costs. A roof and a value without an interval can break a limit, and keep none. Answers
    that were not recorded count as wrong, and a limit that they may decide is not broken.
    """
    p = goal.probability
    limits: tuple[tuple[Quantity, float | None], ...] = (
        ("latency", goal.max_latency_s),
        ("energy", goal.max_energy_j),
    )
    for name, limit in limits:
        if limit is None:
            continue
        mean = means[name]
        likely = mean.likely_below(p)
        is_certain = mean.interval in {"bounds", "roof"}
        least = mean.low if is_certain else mean.likely_below(1 - p)
        keeps = (likely <= limit) & (mean.interval in {"spread", "bounds"})
        yield Held(
            quantity=name,
            limit=limit,
            value=mean.value,
            holds=_holds(keeps, least > limit),
            excess=np.maximum(0.0, (likely - limit) / limit),
            unknown=mean.unknown,
        )
    if goal.min_accuracy is not None:
        limit, z = goal.min_accuracy, NormalDist().inv_cdf(p)
        low, _ = wilson_ends(reached.accuracy_least, reached.n, z)
        _, high = wilson_ends(reached.accuracy_most, reached.n, z)
        yield Held(
            quantity="accuracy",
            limit=limit,
            value=reached.accuracy_least,
            holds=_holds(low >= limit, high < limit),
            excess=np.maximum(0.0, (limit - low) / limit),
        )


def _holds(keeps: NDArray[np.bool_], breaks: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(keeps, _KEPT, np.where(breaks, _BROKEN, _UNKNOWN)).astype(np.int8)


@dataclass(frozen=True, kw_only=True)
class RuleChoice:
    """The threshold number ``cut`` of a sweep, in the mode number ``mode``.

    ``rank``: what it is compared by, the least first: the worst limit (an index of HOLDS), the sum
    of the shares by which limits are broken, the objective, energy, latency, share.
    """

    mode: int
    cut: int
    rank: tuple[float, ...]


def choose(
    reached: Reached, modes: Sequence[ModeCosts], goal: Goal, rule: Rule = "threshold"
) -> tuple[RuleChoice | None, ...]:
    """The best threshold in each mode; None where a limit or the objective is not known.

    What keeps every limit goes before what may keep them, and this before what breaks one: see
    ``limits.hold``. Among equals the least share is offloaded.
    """
    return tuple(_choose(reached, mode, goal, at, rule) for at, mode in enumerate(modes))


def best(choices: Sequence[RuleChoice | None]) -> RuleChoice | None:
    """The best of all modes."""
    known = [choice for choice in choices if choice is not None]
    return min(known, key=lambda choice: (choice.rank, choice.mode), default=None)


def why_unknown(reached: Reached, modes: Sequence[ModeCosts], goal: Goal) -> str:
    """The reason why no threshold can be chosen."""
    limits = {"latency": goal.max_latency_s, "energy": goal.max_energy_j}
    reasons = [
        means.unknown
        for mode in modes
        for name, means in means_of(reached, mode, "threshold").items()
        if means.unknown and (limits[name] is not None or goal.minimise == name)
    ]
    return " and ".join(dict.fromkeys(reasons))


def _choose(
    reached: Reached, mode: ModeCosts, goal: Goal, at: int, rule: Rule
) -> RuleChoice | None:
    means = means_of(reached, mode, rule)
    state, excess = np.zeros(len(reached.share)), np.zeros(len(reached.share))
    for held in hold(reached, means, goal):
        state = np.maximum(state, held.holds)
        excess = excess + held.excess
    objective = {
        "accuracy": -reached.accuracy_least,
        "cost": reached.cost(goal.offload_cost or 0.0),
        "latency": means["latency"].value,
        "energy": means["energy"].value,
    }[goal.minimise or "accuracy"]
    among = np.isfinite(excess) & np.isfinite(objective)
    if not among.any():
        return None
    for values in (state, excess, objective):
        among &= values == values[among].min()
    cut = int(np.argmax(among))  # the first of equals: the least share
    others = (means["energy"].value, means["latency"].value)
    costs = (float(np.nan_to_num(criterion[cut], nan=np.inf)) for criterion in others)
    ranked = (float(criterion[cut]) for criterion in (state, excess, objective))
    return RuleChoice(mode=at, cut=cut, rank=(*ranked, *costs, float(reached.share[cut])))


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
    now, again = (reached(value, rule, share) for value in (tables, draw(tables, n_draws, seed)))
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
        cost, cost_low, cost_high = (float(value[at]) for value in costs) if costs else [None] * 3
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
                    for name, value in values.items()
                    if value is None
                },
                **values,
            )
        )
    return tuple(points)


def make_gain(tables: NDArray[np.int64], seed: int) -> Gain:
    """The gain in accuracy over offloading the same share at random, by paired draws."""

    def gain(table: NDArray[np.int64]) -> Array:
        by_threshold, random = reached(table, "threshold"), reached(table, "random")
        middle = (by_threshold.accuracy_least + by_threshold.accuracy_most) / 2
        return np.asarray(middle - (random.accuracy_least + random.accuracy_most) / 2)

    low, high = ends(gain(draw(tables, DRAWS, seed)))
    return Gain(accuracy=float(gain(tables)[0]), low=float(low[0]), high=float(high[0]))
