"""The mean cost of a sample: its parts, weighted by how often each is paid.

    mean = w_local · local + w_decision · decision + w_offload · offload

A rule that looks at confidences pays the local run and the decision for every sample, and the
offload for the share f that it offloads. To offload never costs the local run, to offload always
the offload alone; at random, 1 − f of the samples run here and the others there. A decision of
unknown cost is left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import MappingProxyType

import msgspec
import numpy as np

from mansard.analytics.decisions.offload.records import (
    Amount,
    CostSource,
    Logistic,
    ModeCosts,
    Rule,
    make_amount,
)
from mansard.analytics.decisions.offload.samples import Array, LabelledSamples
from mansard.core.records import with_known

Z95 = NormalDist().inv_cdf(0.975)
_NAMES = ("local run", "decision", "offload")
PARTS = ("local", "decision", "offload")
COSTS = tuple(f"{part}_{unit}" for unit in "sj" for part in PARTS)


def mode_costs(
    mode: str, amounts: Mapping[str, Amount], reasons: Mapping[str, str] = MappingProxyType({})
) -> ModeCosts:
    """The costs of one mode; what ``amounts`` has not is unknown, for ``reasons`` where known."""
    values = {name: amounts.get(name) for name in COSTS}
    unknown = {
        name: reasons.get(name, "it was not given")
        for name, amount in values.items()
        if amount is None
    }
    return ModeCosts(mode=mode, unknown=unknown, **values)


@dataclass(frozen=True, eq=False)
class Means:
    """Mean times (s) or energies (J) at many shares; ``value`` is NaN where a part is unknown.

    ``interval``: what the ends mean, a key of model_frames.INTERVALS; None: there are none.
    """

    value: Array
    low: Array
    high: Array
    interval: str | None = None
    source: CostSource = "modelled"
    unknown: str = ""
    no_interval: str = ""

    def likely_below(self, probability: float) -> Array:
        """What each mean stays below with ``probability``: of a spread, taken as normal.

        Of bounds it is the upper end; of a roof, and without an interval, the mean itself.
        """
        if self.interval in {None, "roof"}:
            return self.value
        if self.interval == "bounds":
            return self.high
        z = NormalDist().inv_cdf(probability)
        end = self.high if z >= 0 else self.low
        return np.asarray(self.value + (end - self.value) * abs(z) / Z95)

    def at(self, place: int) -> Amount | None:
        """One of them."""
        if self.unknown:
            return None
        value, low, high = (float(end[place]) for end in (self.value, self.low, self.high))
        if self.interval is None:
            amount = make_amount(value, source=self.source)
            why = dict.fromkeys(amount.unknown, self.no_interval)
            return msgspec.structs.replace(amount, unknown=why)
        return make_amount(value, low, high, self.interval, self.source)


def mean_costs(
    costs: ModeCosts, quantity: str, rule: Rule, share: Array, low: Array, high: Array
) -> Means:
    """The means of ``rule`` where ``share`` is offloaded, between ``low`` and ``high`` by chance.

    ``quantity``: "latency" or "energy". Errors of spreads are independent and add in squares, the
    share's among them; ends of bounds and roofs add up. A sum of several parts is modelled.
    """
    unit = "s" if quantity == "latency" else "j"
    parts = [getattr(costs, f"{name}_{unit}") for name in ("local", "decision", "offload")]
    one, none = np.ones_like(share), np.zeros_like(share)
    weights = {
        "never": (one, none, none),
        "always": (none, none, one),
        "random": (1 - share, none, share),
    }.get(rule, (one, one, share))
    used: list[tuple[str, Array, Amount]] = []
    nan = np.full_like(share, np.nan)
    for name, weight, part in zip(_NAMES, weights, parts, strict=True):
        if part is not None and (weight > 0).any():
            used.append((name, weight, part))
        elif (weight > 0).any() and name != "decision":
            why = costs.unknown[f"{name.split()[0]}_{unit}"]
            unknown = f"the {quantity} of the {name} is unknown: {why}"
            return Means(nan, nan, nan, unknown=unknown)
    value = np.asarray(sum((w * amount.value for _, w, amount in used), none))
    source: CostSource = used[0][2].source if len(used) == 1 else "modelled"
    bare = [name for name, _, amount in used if amount.interval is None]
    if bare:
        why = f"no uncertainty of the {bare[0]} was given"
        return Means(value, nan, nan, None, source, no_interval=why)
    slope = _slope(rule, parts)
    down = [w * (amount.value - (amount.low or 0.0)) for _, w, amount in used]
    up = [w * ((amount.high or amount.value) - amount.value) for _, w, amount in used]
    by_share = np.sort([slope * (low - share), slope * (high - share)], axis=0)
    down, up = [*down, -by_share[0]], [*up, by_share[1]]
    kinds = {amount.interval for _, _, amount in used}
    if kinds <= {"spread"}:
        root_down, root_up = (np.sqrt(sum(amount**2 for amount in ends)) for ends in (down, up))
        return Means(value, value - root_down, value + root_up, "spread", source)
    kind = "roof" if "roof" in kinds else "bounds"
    return Means(value, np.asarray(value - sum(down)), np.asarray(value + sum(up)), kind, source)


def _slope(rule: Rule, parts: Sequence[Amount | None]) -> float:
    """How the mean changes with the share."""
    local, _, offload = (0.0 if part is None else part.value for part in parts)
    return {"never": 0.0, "always": 0.0, "random": offload - local}.get(rule, offload)


def with_decision(costs: ModeCosts, decision_s: Amount) -> ModeCosts:
    """``costs`` with the time of the decision where it was not given."""
    if costs.decision_s is not None:
        return costs
    return with_known(costs, decision_s=decision_s)


_BLOCKS, _PAIRS = 25, 2000
_LOW, _HIGH = 7, 17  # the 8th and the 18th of 25 hold the median in 95.7 % (binomial, p = ½)


def time_decision(samples: LabelledSamples, logistic: Logistic | None) -> Amount:
    """Seconds of a threshold on p1, or of ``logistic``, for one sample in Python on this host.

    The median of 25 blocks, with ends that hold it with 95 %. From p1 and p2: the search for the
    two largest outputs is not in it.
    """
    p2 = np.zeros_like(samples.p1) if samples.p2 is None else samples.p2
    at = np.arange(_PAIRS) % len(samples)
    pairs = list(zip(samples.p1[at].tolist(), p2[at].tolist(), strict=True))
    seconds_s = []
    for _ in range(_BLOCKS):
        start = time.perf_counter()
        for pair in pairs:
            _is_offloaded(logistic, *pair)
        seconds_s.append((time.perf_counter() - start) / _PAIRS)
    return median_of_blocks(seconds_s)


def median_of_blocks(seconds_s: Sequence[float], source: CostSource = "this host") -> Amount:
    """The median of 25 blocks, with ends that hold it with 95 %; of fewer without ends."""
    ordered = sorted(seconds_s)
    middle = ordered[len(ordered) // 2]
    if len(ordered) < _BLOCKS:
        return make_amount(middle, source=source)
    return make_amount(middle, ordered[_LOW], ordered[_HIGH], "spread", source)


def _is_offloaded(logistic: Logistic | None, p1: float, p2: float) -> bool:
    if logistic is None:
        return p1 < 0.5
    score = logistic.intercept + logistic.w1 * p1 + logistic.w2 * p2
    return (1 + math.tanh(score / 2)) / 2 < 0.5  # the logistic function, which cannot overflow
