"""What a sample costs on the mean: its parts, each with how often it is paid.

    mean = w_local · local + w_decision · decision + w_offload · offload

A rule that looks at confidences pays the local run and the decision for every sample, and the
offload for the share f that it offloads. To offload never costs the local run, to offload always
the offload alone; at random, 1 − f of the samples run here and the others there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import msgspec
import numpy as np

from mansard.analytics.hierarchical.records import Amount, CostSource, ModeCosts, Rule, make_amount
from mansard.analytics.hierarchical.samples import Array

Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, eq=False)
class Means:
    """Mean times (s) or energies (J) at many shares; ``value`` is NaN where a part is unknown.

    ``interval``: what the ends mean, a key of model_frames.INTERVALS; None: there are none.
    """

    value: Array
    low: Array
    high: Array
    interval: str | None
    sources: tuple[CostSource, ...]
    unknown: str = ""
    no_interval: str = field(default="")

    def likely_below(self, probability: float) -> Array:
        """What each mean stays below with ``probability``; without an interval the mean itself.

        A spread is taken as normal; of bounds it is the upper end, or the lower below a half.
        """
        if self.interval in {None, "roof"}:
            return self.value
        z = NormalDist().inv_cdf(probability)
        end = self.high if z >= 0 else self.low
        if self.interval == "bounds":
            return end
        return np.asarray(self.value + (end - self.value) * abs(z) / Z95)

    def at(self, place: int) -> Amount | None:
        """One of them."""
        if self.unknown:
            return None
        value, low, high = (float(each[place]) for each in (self.value, self.low, self.high))
        source: CostSource = self.sources[0] if len(self.sources) == 1 else "modelled"
        if self.interval is None:
            found = make_amount(value, source=source)
            why = dict.fromkeys(found.unknown, self.no_interval)
            return msgspec.structs.replace(found, unknown=why)
        return make_amount(value, low, high, self.interval, source)


def parts_of(costs: ModeCosts, quantity: str) -> tuple[Amount | None, Amount | None, Amount | None]:
    """Local, decision and offload, of "latency" or "energy"."""
    if quantity == "latency":
        return costs.local_s, costs.decision_s, costs.offload_s
    return costs.local_j, costs.decision_j, costs.offload_j


def mean_costs(
    costs: ModeCosts, quantity: str, rule: Rule, share: Array, low: Array, high: Array
) -> Means:
    """The means of ``rule`` where ``share`` is offloaded, between ``low`` and ``high`` by chance.

    Errors of spreads are independent and add in squares, the share's among them; ends of bounds
    and roofs add up.
    """
    parts = parts_of(costs, quantity)
    one, none = np.ones_like(share), np.zeros_like(share)
    weights = {
        "never": (one, none, none),
        "always": (none, none, one),
        "random": (1 - share, none, share),
    }.get(rule, (one, one, share))
    used = [(w, each) for w, each in zip(weights, parts, strict=True) if (w > 0).any()]
    names = ("local run", "decision", "offload")
    absent = [
        name
        for name, w, each in zip(names, weights, parts, strict=True)
        if each is None and (w > 0).any()
    ]
    nan = np.full_like(share, np.nan)
    if absent:
        return Means(nan, nan, nan, None, (), f"the {quantity} of the {absent[0]} is not known")
    known = [(w, each) for w, each in used if each is not None]
    value = np.asarray(sum((w * each.value for w, each in known), none))
    sources = tuple(dict.fromkeys(each.source for _, each in known))
    bare = [
        name
        for name, w, each in zip(names, weights, parts, strict=True)
        if each is not None and each.interval is None and (w > 0).any()
    ]
    if bare:
        why = f"no uncertainty of the {bare[0]} was given"
        return Means(value, nan, nan, None, sources, no_interval=why)
    slope = _slope(rule, parts)
    down = [w * (each.value - (each.low or 0.0)) for w, each in known]
    up = [w * ((each.high or each.value) - each.value) for w, each in known]
    by_share = np.sort([slope * (low - share), slope * (high - share)], axis=0)
    down, up = [*down, -by_share[0]], [*up, by_share[1]]
    kinds = {each.interval for _, each in known}
    if kinds <= {"spread"}:
        return Means(value, value - _root(down), value + _root(up), "spread", sources)
    kind = "roof" if "roof" in kinds else "bounds"
    return Means(value, value - _total(down), value + _total(up), kind, sources)


def _slope(rule: Rule, parts: Sequence[Amount | None]) -> float:
    """How the mean changes with the share."""
    local, _, offload = (0.0 if each is None else each.value for each in parts)
    return {"never": 0.0, "always": 0.0, "random": offload - local}.get(rule, offload)


def _root(parts: Sequence[Array]) -> Array:
    return np.asarray(np.sqrt(sum(each**2 for each in parts)))


def _total(parts: Sequence[Array]) -> Array:
    return np.asarray(sum(parts))


def with_decision(costs: ModeCosts, measured_s: Amount) -> ModeCosts:
    """``costs`` with the decision's time, and its energy at the power of the local run (modelled),
    where they were not given."""
    decision_s = costs.decision_s or measured_s
    decision_j, local_s, local_j = costs.decision_j, costs.local_s, costs.local_j
    if decision_j is None and local_s is not None and local_j is not None and local_s.value > 0:
        power_w = local_j.value / local_s.value
        ends = [None if end is None else end * power_w for end in (decision_s.low, decision_s.high)]
        decision_j = make_amount(
            decision_s.value * power_w, ends[0], ends[1], decision_s.interval, "modelled"
        )
    unknown = {
        name: why for name, why in costs.unknown.items() if name not in {"decision_s", "decision_j"}
    }
    if decision_j is None:
        unknown["decision_j"] = "neither it nor the power of the local run is known"
    return msgspec.structs.replace(
        costs, decision_s=decision_s, decision_j=decision_j, unknown=unknown
    )
