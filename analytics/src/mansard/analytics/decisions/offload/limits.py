"""Which limits a rule keeps: kept, broken, or not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.decisions.offload.costs import Z95, Means, mean_costs
from mansard.analytics.decisions.offload.records import (
    BASELINES,
    Goal,
    Holds,
    Limit,
    ModeCosts,
    Quantity,
    Rule,
)
from mansard.analytics.decisions.offload.samples import Array
from mansard.analytics.decisions.offload.thresholds import Reached

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
        found = means[name]
        likely = found.likely_below(p)
        is_certain = found.interval in {"bounds", "roof"}
        least = found.low if is_certain else found.likely_below(1 - p)
        keeps = (likely <= limit) & (found.interval in {"spread", "bounds"})
        yield Held(
            quantity=name,
            limit=limit,
            value=found.value,
            holds=_holds(keeps, least > limit),
            excess=np.maximum(0.0, (likely - limit) / limit),
            unknown=found.unknown,
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
