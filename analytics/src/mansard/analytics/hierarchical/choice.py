"""The best threshold and power mode under limits, by every threshold of every mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.hierarchical.costs import Z95, mean_costs
from mansard.analytics.hierarchical.records import Goal, ModeCosts, Rule
from mansard.analytics.hierarchical.samples import RIGHT, Array, Samples
from mansard.analytics.hierarchical.thresholds import Sweep

Rank = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A threshold of a sweep in a mode. ``excess``: sum of the shares by which limits are broken.

    ``rank``: what it is compared by, the least first: the objective, energy, latency, share.
    """

    mode: int
    cut: int
    excess: float
    rank: Rank

    @property
    def is_feasible(self) -> bool:
        """Whether every limit is kept."""
        return self.excess == 0


def choose(one: Sweep, modes: Sequence[ModeCosts], goal: Goal) -> tuple[Choice | None, ...]:
    """The best threshold in each mode; None where a limit or the objective is not known.

    A limit is kept where it holds with the probability of ``goal``, by Wilson's interval of the
    shares and the intervals of the costs. An answer that was not recorded counts as wrong. Among
    equals the least share is offloaded.
    """
    reach = _Reach(
        n=one.n,
        share=one.share,
        accuracy=one.accuracy_least,
        cost=one.cost(goal.offload_cost or 0.0),
    )
    return tuple(_choose(reach, mode, goal, at) for at, mode in enumerate(modes))


def best(choices: Sequence[Choice | None]) -> Choice | None:
    """The best of all modes: what keeps the limits, else what breaks them least."""
    known = [each for each in choices if each is not None]
    return min(known, key=lambda each: (each.excess, each.rank, each.mode), default=None)


def choose_baseline(
    samples: Samples, modes: Sequence[ModeCosts], goal: Goal, rule: Rule
) -> Choice | None:
    """The best mode of "never" or "always", compared as thresholds are; None where not known."""
    n, share = len(samples), 0.0 if rule == "never" else 1.0
    n_right = int(((samples.remote if share else samples.local) == RIGHT).sum())
    kept_wrong = 0.0 if share else (n - n_right) / n  # as exact as a sweep
    reach = _Reach(
        n=n,
        share=np.array([share]),
        accuracy=np.array([n_right / n]),
        cost=np.array([kept_wrong + share * (goal.offload_cost or 0.0)]),
    )
    return best([_choose(reach, mode, goal, at, rule) for at, mode in enumerate(modes)])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Reach:
    """What is known of thresholds on ``n`` samples without what they cost."""

    n: int
    share: Array
    accuracy: Array  # the least
    cost: Array


def _choose(
    reach: _Reach, mode: ModeCosts, goal: Goal, at: int, rule: Rule = "threshold"
) -> Choice | None:
    share = reach.share
    low, high = wilson_ends(share, reach.n, Z95)
    latency, energy = (
        mean_costs(mode, name, rule, share, low, high) for name in ("latency", "energy")
    )
    likely, _ = wilson_ends(reach.accuracy, reach.n, NormalDist().inv_cdf(goal.probability))
    excess = np.zeros(len(share))
    for limit, value, sign in (
        (goal.max_latency_s, latency.likely_below(goal.probability), 1),
        (goal.max_energy_j, energy.likely_below(goal.probability), 1),
        (goal.min_accuracy, likely, -1),
    ):
        if limit is not None:
            excess += np.maximum(0.0, sign * (value - limit) / limit)
    objective = {
        "accuracy": -reach.accuracy,
        "cost": reach.cost,
        "latency": latency.value,
        "energy": energy.value,
    }[goal.minimise or "accuracy"]
    is_known = np.isfinite(excess) & np.isfinite(objective)
    if not is_known.any():
        return None
    least = float(excess[is_known].min())
    among = np.where(is_known & (excess == least), objective, np.inf)
    cut = int(np.argmin(among))  # the first of equals: the least share
    costs = [float(np.nan_to_num(each.value[cut], nan=np.inf)) for each in (energy, latency)]
    rank = (float(among[cut]), costs[0], costs[1], float(share[cut]))
    return Choice(mode=at, cut=cut, excess=least, rank=rank)
