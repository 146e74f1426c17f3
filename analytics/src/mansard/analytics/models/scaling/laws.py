"""How a coefficient follows the clocks: sums of powers of clocks, and the lesser of two limits.

A law is fitted on the few modes measured, by relative errors as everywhere in this project,
and predicts any number of modes at once. Which law may fit which coefficient:
``board.candidates``. The clocks of modes are columns of numbers; modes outside those that
a law was fitted on are found by the convex hull of their clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.models.energy.least_squares import solve_non_negative

Array = NDArray[np.float64]
Columns = Mapping[str, Array]  # by column of MODE_SCHEMA: one number for each mode, NaN: unknown
_TIE = 1e-12  # of their squares: rounding
_CLEARLY = 0.03  # a mode is held by the limit that is lower by so much, else by either
_NOTICED = 0.05  # a second limit must spare as much in relative errors, all modes together


@dataclass(frozen=True)
class Monomial:
    """A product of powers of columns of MODE_SCHEMA; of none it is 1."""

    powers: tuple[tuple[str, int], ...] = ()

    def of(self, columns: Columns) -> Array:
        """Its value in each mode; one number for all where it has no column."""
        found = np.ones(1)
        for name, power in self.powers:
            found = found * columns[name] ** float(power)
        return found


class Fitted(Protocol):
    """A law with its parameters."""

    def predict(self, parts: Array) -> tuple[Array, Array]:
        """The value in each mode, and the most that it might be: NaN where that has no end.

        ``parts``: the law's monomials in each mode, as ``parts_of`` gives them.
        """


class Law(Protocol):
    """One form that a coefficient may take."""

    @property
    def monomials(self) -> tuple[Monomial, ...]:
        """What it is made of."""

    @property
    def n_least(self) -> int:
        """Modes that it takes to fit it."""

    def fit(self, parts: Array, values: Array) -> Fitted | None:
        """From at least ``n_least`` positive values; None where they do not determine it."""


def parts_of(law: Law, columns: Columns) -> Array:
    """The monomials of ``law``: a row for each mode, a column for each of them."""
    n_modes = max(len(values) for values in columns.values())
    return np.stack([np.broadcast_to(m.of(columns), n_modes) for m in law.monomials], axis=1)


@dataclass(frozen=True)
class Sum:
    """y = Σ c_k m_k with c ≥ 0; ``is_reciprocal``: 1 / y is the sum, as of times in a row."""

    monomials: tuple[Monomial, ...]
    is_reciprocal: bool = False

    @property
    def n_least(self) -> int:
        return len(self.monomials)

    def fit(self, parts: Array, values: Array) -> FittedSum | None:
        rows = parts * values[:, None] if self.is_reciprocal else parts / values[:, None]
        if len(self.monomials) == 1:
            # The median: a mode that fell short of its law must not drag all others with it.
            shares = np.array([median((1 / rows[:, 0]).tolist())])
            return FittedSum(shares, self.is_reciprocal)
        solution = solve_non_negative(rows, np.ones(len(values)))
        if solution.is_hidden.any() or not (rows @ solution.values > 0).all():
            return None
        return FittedSum(solution.values, self.is_reciprocal)


@dataclass(frozen=True, eq=False)
class FittedSum:
    """A sum with its coefficients."""

    shares: Array
    is_reciprocal: bool

    def predict(self, parts: Array) -> tuple[Array, Array]:
        found = parts @ self.shares
        value = 1 / found if self.is_reciprocal else found
        return value, np.full(len(parts), np.nan)


@dataclass(frozen=True)
class Least:
    """y = min(a · first, b · second): the narrower of two limits.

    Each mode belongs to one limit. In the order of first / second, the modes that ``first``
    limits come before all others: with n modes there are n + 1 ways to part them, and the one
    with the least squares of relative errors is taken. A limit that clearly held no mode is only
    known to be no lower than what was seen: that is predicted, and the other limit is the most
    that the value might be. Where it is not sure that there is a second limit, there is none
    unless the errors tell of it.
    """

    first: Monomial
    second: Monomial
    is_second_sure: bool = True

    @property
    def monomials(self) -> tuple[Monomial, ...]:
        return (self.first, self.second)

    @property
    def n_least(self) -> int:
        return 1

    def fit(self, parts: Array, values: Array) -> FittedLeast | None:
        order = np.argsort(parts[:, 0] / parts[:, 1], kind="stable")
        heights = values[order, None] / parts[order]
        first, second = heights[:, 0].tolist(), heights[:, 1].tolist()
        n_modes = len(values)
        unreached = max(second) if self.is_second_sure else np.inf
        # Modes before the cut are limited by ``first``, the others by ``second``.
        cuts = np.array(
            [
                (
                    median(first[:cut]) if cut else max(first),
                    median(second[cut:]) if cut < n_modes else unreached,
                )
                for cut in range(n_modes + 1)
            ]
        )
        modelled = np.minimum(cuts[:, :1] * parts[:, 0], cuts[:, 1:] * parts[:, 1])
        errors = np.abs(np.log(modelled / values))
        squares = (errors**2).sum(axis=1)
        best = int(np.flatnonzero(squares <= squares.min() + _TIE)[0])
        spared = errors[-1].sum() - errors[best].sum()
        if not self.is_second_sure and spared < _NOTICED:
            best = n_modes
        limits = parts * cuts[best]
        is_reached = (limits < (1 - _CLEARLY) * limits[:, ::-1]).any(axis=0)
        return FittedLeast(cuts[best], is_reached)


@dataclass(frozen=True, eq=False)
class FittedLeast:
    """The heights of both limits, and whether any mode was clearly held by them."""

    heights: Array
    is_reached: NDArray[np.bool_]

    def predict(self, parts: Array) -> tuple[Array, Array]:
        limits = parts * self.heights
        value = limits.min(axis=1)
        most = np.full(len(parts), np.nan)
        for at, other in ((0, 1), (1, 0)):
            if not self.is_reached[at]:
                most = np.where(limits[:, at] < limits[:, other], limits[:, other], most)
        return value, most


CLOCKS = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms", "n_cpus")
_SAME = 0.005  # clocks as requested and as read back differ by less


def columns_of(modes: pl.DataFrame) -> Columns:
    """The clocks and counts of a frame of MODE_SCHEMA; NaN where one is unknown or not above 0."""
    known = modes.select(
        pl.when(pl.col(name) > 0).then(pl.col(name).cast(pl.Float64)).fill_null(np.nan).alias(name)
        for name in CLOCKS
    )
    return {name: known.get_column(name).to_numpy() for name in CLOCKS}


def known_columns(columns: Columns) -> frozenset[str]:
    """Those that most modes know."""
    return frozenset(
        name for name, values in columns.items() if 2 * np.isfinite(values).sum() > len(values)
    )


def varied_columns(columns: Columns) -> frozenset[str]:
    """Those that differ between modes by more than rounding; unknown ones are left aside."""
    return frozenset(
        name
        for name, values in columns.items()
        if (seen := values[np.isfinite(values)]).size and np.ptp(seen) > _SAME * seen.max()
    )


def columns_in(laws: Sequence[Law]) -> frozenset[str]:
    """The columns that laws are made of."""
    return frozenset(name for law in laws for each in law.monomials for name, _ in each.powers)


def is_outside(wanted: Columns, fitted: Columns, names: frozenset[str]) -> NDArray[np.bool_]:
    """Which wanted modes lie outside the box that the fitted ones span in ``names``.

    A mode that does not know a column which they do is outside; where they do not know it
    either, it says nothing. The box of few modes is wider than their convex hull: a mode inside
    it may still lie in a corner that none was near.
    """
    n_modes = max((len(values) for values in wanted.values()), default=0)
    outside = np.zeros(n_modes, dtype=np.bool_)
    for name in names:
        seen = fitted[name][np.isfinite(fitted[name])]
        if seen.size:
            low, high = seen.min() * (1 - _SAME), seen.max() * (1 + _SAME)
            outside |= ~((wanted[name] >= low) & (wanted[name] <= high))
    return outside
