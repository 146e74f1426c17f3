"""Quantities of two sides beside each other, each pair with its difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from mansard.analytics.decisions.comparing.sides import ComparedQuantity, Side
from mansard.analytics.decisions.comparing.significance import (
    FEWEST_STRETCHES,
    Centre,
    Span,
    find_difference,
    find_interval_difference,
)
from mansard.analytics.decisions.values import Array

# What a difference rests on: scatter within one run a side, between runs, or fitted intervals.
Test = Literal["blocks", "runs", "intervals"]


class QuantityPair(NamedTuple):
    """``difference``: ln(second / first); None where it is not known, ``why_not`` says why."""

    first: ComparedQuantity
    second: ComparedQuantity
    difference: Centre | None
    test: Test
    why_not: str

    @property
    def n_compared(self) -> float:
        """Repetitions of the side with fewer; or the harmonic mean of the sides' runs."""
        if self.test == "runs":
            return 2 / (1 / len(self.first.runs) + 1 / len(self.second.runs))
        return min(self.first.n_repetitions, self.second.n_repetitions)


class Paired(NamedTuple):
    """What two sides have in common, and what only one has."""

    pairs: tuple[QuantityPair, ...]
    only_first: tuple[ComparedQuantity, ...]
    only_second: tuple[ComparedQuantity, ...]


def pair_quantities(first: Side, second: Side) -> Paired:
    """Pair quantities of the same alias, then those of the same name."""
    left = {quantity.name: quantity for quantity in second.quantities}
    by_alias = {one.alias: one for one in second.quantities if one.alias}
    partners: dict[str, ComparedQuantity] = {}
    for quantity in first.quantities:
        partner = by_alias.get(quantity.alias) if quantity.alias else None
        if partner is not None and partner.name in left:
            partners[quantity.name] = left.pop(partner.name)
    for quantity in first.quantities:
        partner = left.get(quantity.name)
        same = partner is not None and (partner.kind, partner.unit) == (
            quantity.kind,
            quantity.unit,
        )
        if quantity.name not in partners and same:
            partners[quantity.name] = left.pop(quantity.name)
    return Paired(
        tuple(_pair(one, partners[one.name]) for one in first.quantities if one.name in partners),
        tuple(one for one in first.quantities if one.name not in partners),
        tuple(left.values()),
    )


def _pair(first: ComparedQuantity, second: ComparedQuantity) -> QuantityPair:
    fewest = min(first.n_repetitions, second.n_repetitions)
    if not fewest:
        difference = find_interval_difference(span_of(first), span_of(second))
        return QuantityPair(first, second, difference, "intervals", "a side has no interval")
    difference = find_difference(_recordings(first), _recordings(second))
    n_runs = len(first.runs) + len(second.runs)
    if fewest == 1:
        why = "a side has one value: measure it again, with --again"
    else:
        why = f"too few blocks to tell: a side has {fewest}, {FEWEST_STRETCHES} are needed"
    return QuantityPair(first, second, difference, "blocks" if n_runs == 2 else "runs", why)


def span_of(quantity: ComparedQuantity) -> Span:
    """Its value with the ends of its interval."""
    return quantity.value, quantity.low, quantity.high


def _recordings(quantity: ComparedQuantity) -> list[Mapping[str, Array]]:
    return [
        {key: np.asarray(values, np.float64) for key, values in run.items()}
        for run in quantity.runs
    ]
