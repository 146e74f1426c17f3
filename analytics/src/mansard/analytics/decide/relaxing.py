"""Where no mode keeps the limits: the nearest ones, and which limit would have to give way."""

from __future__ import annotations

import numpy as np

from mansard.analytics.decide.records import Quantity, Relaxation, Wanted
from mansard.analytics.decide.screening import Mask, Screen, most_of
from mansard.analytics.decide.values import Values

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
    likely: Mask = quantile <= most_of(quantity, limit)
    return likely
