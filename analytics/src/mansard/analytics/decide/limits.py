"""Which candidates keep the limits: as predicted, as likely as asked, and maybe.

Where no mode keeps them: the nearest ones, and which limit would have to give way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decide.records import Candidate, LimitCheck, Quantity, Relaxation, Wanted
from mansard.analytics.decide.values import Z95, Array, ValueBand, Values, probability_at_most
from mansard.core.errors import UsageError

Mask = NDArray[np.bool_]
_ROUNDING = 1e-9  # 1 / (1 / x) need not be x
_NO_INTERVAL = "the prediction has no interval"


@dataclass(frozen=True, eq=False)
class Screen:
    """For each row of Values. ``excess`` (limits × rows): the share by which a limit is broken.

    ``is_known``: every quantity that a limit is about is known. ``is_kept``: as predicted;
    ``is_likely``: with the probability that was asked for, too; ``may_be``: an interval reaches
    into the limit. ``margin``: how many standard deviations the least likely limit is away, for
    rows that are kept.
    """

    limits: tuple[tuple[Quantity, float], ...]
    excess: Array
    is_known: Mask
    is_kept: Mask
    is_likely: Mask
    may_be: Mask
    margin: Array


def limits_of(wanted: Wanted) -> tuple[tuple[Quantity, float], ...]:
    """The limits that were asked for; raises UsageError for one that is no positive number."""
    asked: tuple[tuple[Quantity, float | None], ...] = (
        ("latency", wanted.max_latency_s),
        ("power", wanted.max_power_w),
        ("energy", wanted.max_energy_j),
        ("rate", wanted.min_fps),
    )
    found = tuple((quantity, limit) for quantity, limit in asked if limit is not None)
    for quantity, limit in found:
        if not (math.isfinite(limit) and limit > 0):
            raise UsageError(f"a limit of {quantity} of {limit} bounds nothing", fix="above 0")
    if not 0 < wanted.probability < 1:
        raise UsageError(
            f"a limit cannot hold with probability {wanted.probability}",
            fix="give one between 0 and 1, such as 0.9",
        )
    return found


def screen(values: Values, wanted: Wanted) -> Screen:
    """Hold every row against every limit; raises UsageError as ``limits_of``."""
    limits = limits_of(wanted)
    excess = np.zeros((len(limits), len(values)))
    is_likely = np.ones(len(values), dtype=np.bool_)
    may_be = np.ones(len(values), dtype=np.bool_)
    margin = np.full(len(values), np.inf)
    for row, (quantity, limit) in enumerate(limits):
        band, most = values.of(quantity), upper_bound(quantity, limit)
        excess[row] = np.where(band.value <= most, 0.0, band.value / most - 1.0)
        is_likely &= band.quantile(wanted.probability) <= most
        may_be &= band.ends()[0] <= most
        margin = np.fmin(margin, _margin(band, most))
    is_known: Mask = np.logical_not(np.isnan(excess).any(axis=0))
    is_kept: Mask = is_known & (excess == 0.0).all(axis=0)
    return Screen(limits, excess, is_known, is_kept, is_kept & is_likely, is_known & may_be, margin)


def _margin(band: ValueBand, most: float) -> Array:
    """Standard deviations from the value up to the limit; infinite where there is no spread."""
    spread = np.log(band.ends()[1] / band.value) / Z95
    distance = np.log(most / band.value)
    margin: Array = np.divide(
        distance, spread, out=np.full_like(distance, np.inf), where=spread > 0
    )
    return margin


def check_limits(candidate: Candidate, wanted: Wanted) -> tuple[LimitCheck, ...]:
    """Each limit beside what ``candidate`` is predicted to take."""
    return tuple(_check(candidate, quantity, limit) for quantity, limit in limits_of(wanted))


def upper_bound(quantity: Quantity, limit: float) -> float:
    """The most that ``Values.of`` the quantity may be; rounding alone breaks no limit."""
    # So many items in a second are so many seconds for an item.
    most = 1.0 / limit if quantity == "rate" else limit
    return most * (1.0 + _ROUNDING)


def _check(candidate: Candidate, quantity: Quantity, limit: float) -> LimitCheck:
    value, low, high = spread_of(candidate, quantity)
    if value is None:
        reason = candidate.unknown[f"{quantity}_{'w' if quantity == 'power' else 'j'}"]
        unknown = dict.fromkeys(("value", "excess", "probability"), reason)
        return LimitCheck(
            quantity=quantity, limit=limit, value=None, excess=None, probability=None,
            unknown=unknown,
        )  # fmt: skip
    most = upper_bound(quantity, limit)
    probability = probability_at_most(value, low, high, most)
    return LimitCheck(
        quantity=quantity,
        limit=limit,
        value=candidate.fps if quantity == "rate" else value,
        excess=max(0.0, value / most - 1.0),
        probability=probability,
        unknown={"probability": _NO_INTERVAL} if probability is None else {},
    )


def spread_of(
    candidate: Candidate, quantity: Quantity
) -> tuple[float | None, float | None, float | None]:
    """Value, low and high that a limit is about; of a rate the seconds of one item."""
    if quantity == "power":
        return candidate.power_w, candidate.power_low_w, candidate.power_high_w
    if quantity == "energy":
        return candidate.energy_j, candidate.energy_low_j, candidate.energy_high_j
    n_items = candidate.batch if quantity == "rate" else 1
    ends = (candidate.latency_low_s, candidate.latency_high_s)
    low, high = (None if end is None else end / n_items for end in ends)
    return candidate.latency_s / n_items, low, high


_SHOWN = 3


def find_nearest(values: Values, screened: Screen, wanted: Wanted, usable: Mask) -> tuple[int, ...]:
    """The rows whose worst broken limit is broken by the least share, the best first.

    Equal ones are told apart by the objective, then by their names.
    """
    rows = np.flatnonzero(usable)
    worst = screened.excess[:, rows].max(axis=0)
    objective = values.objective(wanted.minimise).value[rows]
    order = np.lexsort((rows, objective, worst))
    return tuple(int(row) for row in rows[order[:_SHOWN]])


def find_relaxations(
    values: Values, screened: Screen, wanted: Wanted, usable: Mask
) -> tuple[Relaxation, ...]:
    """For each limit: what it would have to be if it alone gave way, where that is enough.

    Of the rows that keep all other limits as likely as asked (as predicted, where none is so
    likely) the one that breaks this one least; the new limit is what it stays below with the
    probability that was asked for.
    """
    found = []
    for number, (quantity, asked) in enumerate(screened.limits):
        rows = np.flatnonzero(usable & _keeps_others(values, screened, wanted, number))
        if not len(rows):
            continue
        quantile = values.of(quantity).quantile(max(wanted.probability, 0.5))
        at = int(rows[np.lexsort((rows, quantile[rows]))[0]])
        limit = float(quantile[at])
        found.append(
            Relaxation(
                quantity=quantity,
                asked=asked,
                limit=1.0 / limit if quantity == "rate" else limit,
                candidate=values.candidate(at),
            )
        )
    return tuple(found)


def _keeps_others(values: Values, screened: Screen, wanted: Wanted, but: int) -> Mask:
    others = np.delete(np.arange(len(screened.limits)), but)
    kept: Mask = (screened.excess[others] == 0.0).all(axis=0)
    likely = kept.copy()
    for number in others:
        quantity, limit = screened.limits[number]
        likely &= _is_likely(values, wanted, quantity, limit)
    return likely if likely.any() else kept


def _is_likely(values: Values, wanted: Wanted, quantity: Quantity, limit: float) -> Mask:
    quantile = values.of(quantity).quantile(wanted.probability)
    likely: Mask = quantile <= upper_bound(quantity, limit)
    return likely
