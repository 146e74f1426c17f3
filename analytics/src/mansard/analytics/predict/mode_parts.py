"""Modes that know the same coefficients, put together: in a part each one is known or it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.predict.coefficient_table import (
    BANDWIDTH,
    Array,
    CoefficientTable,
    Key,
)
from mansard.analytics.predict.time_sums import Ridges, ridges
from mansard.analytics.predict.work_table import Placement, place


@dataclass(frozen=True, eq=False)
class Rates:
    """The coefficients of some modes at one end of their intervals, or in the middle.

    ``costs`` has s, J/FLOP, J/B and W by key; of peaks and the bandwidth it has the inverse,
    seconds per FLOP and per byte.
    """

    costs: Mapping[Key, Array]
    n_modes: int
    _ridges: dict[Key, Ridges] = field(default_factory=dict, init=False)
    _ratios: dict[tuple[Key, Key], tuple[float, float]] = field(default_factory=dict, init=False)

    @property
    def second_per_byte(self) -> Array:
        """Of main memory; 0 where the bandwidth is not known, for work that moves nothing."""
        found = self.costs.get(BANDWIDTH)
        return np.zeros(self.n_modes) if found is None else found

    def ridges(self, peak: Key) -> Ridges:
        """The modes in the order of the ridge points of ``peak``."""
        if peak not in self._ridges:
            self._ridges[peak] = ridges(self.costs[peak], self.second_per_byte)
        return self._ridges[peak]

    def ratios(self, one: Key, other: Key) -> tuple[float, float]:
        """The least and the most of the time per FLOP at one peak over that at the other."""
        if (one, other) not in self._ratios:
            found = self.costs[one] / self.costs[other]
            self._ratios[one, other] = (float(found.min()), float(found.max()))
        return self._ratios[one, other]


@dataclass(frozen=True, eq=False)
class ModePart:
    """Some modes of a table: ``at`` are their places in it.

    ``fast`` and ``slow`` are the ends of the intervals where everything is quickest and cheapest,
    and slowest and dearest; they lack what has no interval.
    """

    at: NDArray[np.int64]
    placement: Placement
    middle: Rates
    fast: Rates
    slow: Rates
    limit_w: Array

    @cached_property
    def has_limit(self) -> bool:
        """Whether any of the modes has a power limit."""
        return bool(np.isfinite(self.limit_w).any())


def mode_parts(table: CoefficientTable, precisions: tuple[str, ...]) -> tuple[ModePart, ...]:
    """All modes of ``table``, in as few parts as the gaps in it allow."""
    keys = tuple(table.columns)
    if not table.n_modes:
        return ()
    columns = [table.columns[key] for key in keys]
    gaps = [np.isnan(column.value) for column in columns]
    gaps += [np.isnan(column.low) for column in columns]
    gaps += [column.is_given for column in columns]
    places = _alike(np.stack(gaps, axis=1) if gaps else np.zeros((table.n_modes, 1), bool))
    return tuple(_part(table, precisions, at) for at in places)


def _alike(gaps: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """The places of equal rows of ``gaps``."""
    packed = np.ascontiguousarray(np.packbits(gaps, axis=1))
    rows = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, kinds = np.unique(rows, return_inverse=True)
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds))[:-1]
    return np.split(order, ends)


def _part(table: CoefficientTable, precisions: tuple[str, ...], at: NDArray[np.int64]) -> ModePart:
    middle: dict[Key, Array] = {}
    fast: dict[Key, Array] = {}
    slow: dict[Key, Array] = {}
    for key, column in table.columns.items():
        value, low, high = column.value[at], column.low[at], column.high[at]
        if np.isnan(value[0]):
            continue
        is_rate = key[0] in ("peak", "bandwidth")
        middle[key] = 1.0 / value if is_rate else value
        if not np.isnan(low[0]):
            fast[key], slow[key] = (1.0 / high, 1.0 / low) if is_rate else (low, high)
    given = frozenset(
        key for key, column in table.columns.items() if key[0] == "peak" and column.is_given[at[0]]
    )
    n_modes = len(at)
    return ModePart(
        at,
        place(precisions, given),
        Rates(middle, n_modes),
        Rates(fast, n_modes),
        Rates(slow, n_modes),
        table.limit_w[at],
    )
