"""The best threshold and power mode under limits, by every threshold of every mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mansard.analytics.decisions.offload.limits import hold, means_of
from mansard.analytics.decisions.offload.records import Goal, ModeCosts, Rule
from mansard.analytics.decisions.offload.thresholds import Reached


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The threshold number ``cut`` of a sweep, in the mode number ``mode``.

    ``rank``: what it is compared by, the least first: the worst limit (an index of HOLDS), the sum
    of the shares by which limits are broken, the objective, energy, latency, share.
    """

    mode: int
    cut: int
    rank: tuple[float, ...]


def choose(
    reached: Reached, modes: Sequence[ModeCosts], goal: Goal, rule: Rule = "threshold"
) -> tuple[Choice | None, ...]:
    """The best threshold in each mode; None where a limit or the objective is not known.

    What keeps every limit goes before what may keep them, and this before what breaks one: see
    ``limits.hold``. Among equals the least share is offloaded.
    """
    return tuple(_choose(reached, mode, goal, at, rule) for at, mode in enumerate(modes))


def best(choices: Sequence[Choice | None]) -> Choice | None:
    """The best of all modes."""
    known = [each for each in choices if each is not None]
    return min(known, key=lambda each: (each.rank, each.mode), default=None)


def why_unknown(reached: Reached, modes: Sequence[ModeCosts], goal: Goal) -> str:
    """Why nothing can be chosen."""
    limits = {"latency": goal.max_latency_s, "energy": goal.max_energy_j}
    reasons = [
        means.unknown
        for mode in modes
        for name, means in means_of(reached, mode, "threshold").items()
        if means.unknown and (limits[name] is not None or goal.minimise == name)
    ]
    return " and ".join(dict.fromkeys(reasons))


def _choose(reached: Reached, mode: ModeCosts, goal: Goal, at: int, rule: Rule) -> Choice | None:
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
    costs = (float(np.nan_to_num(each[cut], nan=np.inf)) for each in others)
    ranked = (float(each[cut]) for each in (state, excess, objective))
    return Choice(mode=at, cut=cut, rank=(*ranked, *costs, float(reached.share[cut])))
