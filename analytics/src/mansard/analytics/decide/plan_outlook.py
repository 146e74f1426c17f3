"""What is expected of the modes that were not measured: how sure, and how good.

An ``Outlook`` is one network's, or that of none in particular before anything was measured. It
holds what a choice of modes needs: the rows of the terms that time and power are made of, what
has been learnt about them, and where there are measurements the predicted objective.
``plan_expecting`` makes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mansard.analytics.scaling.network_terms import Array
from mansard.analytics.scaling.term_fit import leverage

_LIKELY = 0.5  # a limit that more likely holds than not counts as kept
_Z = np.linspace(-8.0, 8.0, 16_001)  # beyond, a share is 0 or 1 within 1e-15
_SHARES = np.array([math.erfc(-z / math.sqrt(2)) / 2 for z in _Z])


@dataclass(frozen=True, eq=False)
class Block:
    """Time or power of all modes, by relative rows φ of their terms; see ``block_of``.

    ``inverse``: A⁻¹ of the modes that are measured. ``spread``: S, the mean of φφᵀ over all
    modes. ``leverages``: φᵀA⁻¹φ of each mode, ``reach``: φᵀA⁻¹SA⁻¹φ. ``variance``: scatter².
    """

    rows: Array
    inverse: Array
    spread: Array
    leverages: Array
    reach: Array
    variance: float

    def uncertainty(self) -> Array:
        """The variance of each mode's logarithm that more measurements would lessen."""
        return np.asarray(self.variance * self.leverages, dtype=np.float64)

    def lessening(self) -> Array:
        """By how much measuring each mode lessens the mean of that variance over all modes."""
        return np.asarray(self.variance * self.reach / (1 + self.leverages), dtype=np.float64)

    def changed(self, at: int, sign: float) -> Block:
        """The same with one row more in A (sign 1) or less (-1), by Sherman and Morrison."""
        step = self.inverse @ self.rows[at]
        size = sign + float(self.rows[at] @ step)
        passed = self.spread @ step
        along, across = self.rows @ step, self.rows @ (self.inverse @ passed)
        reach = self.reach - 2 * along * across / size
        reach += along**2 * float(step @ passed) / size**2
        return replace(
            self,
            inverse=self.inverse - np.outer(step, step) / size,
            leverages=np.maximum(0.0, self.leverages - along**2 / size),
            reach=np.maximum(0.0, reach),
        )


def block_of(rows: Array, inverse: Array, variance: float) -> Block:
    """The block of relative ``rows`` (modes × terms), A⁻¹ and scatter²."""
    spread = rows.T @ rows / len(rows)
    reach = leverage(rows, inverse @ spread @ inverse)
    return Block(rows, inverse, spread, leverage(rows, inverse), reach, variance)


@dataclass(frozen=True, eq=False)
class Outlook:
    """Of the objective all are natural logarithms; ``mean`` is None where nothing predicts it."""

    blocks: tuple[Block, ...]
    mean: Array | None = None
    floor: Array | None = None  # less than that no network can do, by its measured modes
    chance: Array | None = None  # that a limit on the time holds
    best: float | None = None  # the best that was measured within the limit
    scatter: float = 0.0  # of a measurement, relative

    @property
    def n_modes(self) -> int:
        """How many modes there are."""
        return len(self.blocks[0].rows)

    @property
    def is_seeking(self) -> bool:
        """Whether no measured mode is within the limit on time, and others may be."""
        return self.best is None and self.chance is not None

    def hope(self) -> Array:
        """The chance of each mode to be the first within the limit; 0 where there is one."""
        if self.chance is None or not self.is_seeking:
            return np.zeros(self.n_modes)
        return self.chance

    def error(self) -> float:
        """The expected relative error of the objective over all modes."""
        return float(np.sqrt(sum(block.uncertainty().mean() for block in self.blocks)))

    def information(self) -> Array:
        """By how much measuring each mode lessens that error."""
        before = sum(block.uncertainty().mean() for block in self.blocks)
        lessening = np.asarray(sum(block.lessening() for block in self.blocks))
        found: Array = np.sqrt(before) - np.sqrt(np.maximum(0.0, before - lessening))
        return found

    def improvement(self) -> Array:
        """Expected relative improvement over the best measured mode.

        D. R. Jones, M. Schonlau, W. J. Welch, Efficient global optimization of expensive
        black-box functions, Journal of Global Optimization 13, 1998, eq. 15, of logarithms.
        """
        if self.mean is None or self.best is None:
            return np.zeros(self.n_modes)
        spread = sum(block.uncertainty() for block in self.blocks)
        deviation = np.sqrt(spread + self.scatter**2)
        ahead = self.best - self.mean
        z = np.clip(ahead / deviation, -30, 30)
        share = normal_share(z)
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        expected = np.maximum(0.0, ahead * share + deviation * density)
        if self.floor is not None:
            expected = np.minimum(expected, np.maximum(0.0, self.best - self.floor))
        relative: Array = -np.expm1(-expected)
        return relative if self.chance is None else relative * self.chance

    def measured(self, at: int) -> Outlook:
        """The same as if mode ``at`` were measured and came out as predicted."""
        best = self.best
        is_within = self.chance is None or self.chance[at] > _LIKELY
        if self.mean is not None and is_within:
            best = min(math.inf if best is None else best, float(self.mean[at]))
        return replace(self, blocks=tuple(b.changed(at, 1.0) for b in self.blocks), best=best)

    def unmeasured(self, at: int) -> Outlook:
        """The same as if mode ``at``, which counts as measured, were not; of a design."""
        return replace(self, blocks=tuple(block.changed(at, -1.0) for block in self.blocks))


def normal_share(z: Array) -> Array:
    """The share of a normal distribution below ``z`` standard deviations, within 1e-7."""
    return np.asarray(np.interp(z, _Z, _SHARES), dtype=np.float64)
