"""What is expected of the modes that were not measured: how sure, and how good.

An ``Outlook`` is one network's, or that of none in particular before anything was measured. It
holds what a choice of modes needs: the rows of the terms that time and power are made of, what
has been learnt about them, and where there are measurements the predicted objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decide.records import Objective
from mansard.analytics.scaling.network_fit import (
    PRIOR_SCATTER,
    NetworkFit,
    estimate,
    information_inverse,
    leverage,
)
from mansard.analytics.scaling.network_terms import (
    Array,
    evaluate,
    latency_bounds,
    least_power_w,
    power_basis,
    time_basis,
    varying,
)

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


# How often time and power enter each objective: energy is time · power.
WEIGHTS: Mapping[Objective, Mapping[str, float]] = {
    "latency": {"time": 1.0},
    "power": {"power": 1.0},
    "energy": {"time": 1.0, "power": 1.0},
    "edp": {"time": 2.0, "power": 1.0},
}
_OVERLAP = 4.0  # of layers, before any measurement tells
_ROOTS = (-1.0, -2.0)  # of a power limit, whose law is not known: a curve is to be found


def prior_outlook(
    values: Mapping[str, Array], minimise: Objective, taken: NDArray[np.bool_]
) -> Outlook:
    """What is expected before any network was measured: all terms weigh the same.

    ``values``: the settings of all modes. ``taken``: those that were measured already, if not
    with a network, as a mask.
    """
    latency = _time_terms(values)
    time = latency.mean(axis=1)
    power = _power_terms(values, 1 / time)
    rows = {"time": latency / time[:, None], "power": power / power.mean(axis=1)[:, None]}
    blocks = tuple(
        block_of(
            rows[name],
            information_inverse(rows[name][taken], PRIOR_SCATTER),
            (weight * PRIOR_SCATTER) ** 2,
        )
        for name, weight in WEIGHTS[minimise].items()
    )
    return Outlook(blocks)


def fitted_outlook(
    fit: NetworkFit,
    values: Mapping[str, Array],
    minimise: Objective,
    at: NDArray[np.int64],
    max_latency_s: float | None,
) -> Outlook | None:
    """What a fitted network is expected to do in all modes; None where the fit is no help.

    ``at``: the index in ``values`` of each row of ``fit.measured``.
    """
    fits = {"time": fit.time, "power": fit.power}
    used = {name: found for name in WEIGHTS[minimise] if (found := fits[name]) is not None}
    if fit.time is None or len(used) < len(WEIGHTS[minimise]):
        return None
    latency_s, spread = estimate(fit.time, values)
    rate = fit.time.level / latency_s
    expected = {"time": latency_s}
    if fit.power is not None:
        expected["power"] = estimate(fit.power, values, rate)[0]
    terms = {"time": _time_terms(values), "power": _power_terms(values, rate)}
    seen = {"time": at, "power": at[fit.measured.get_column("power_w").is_not_null().to_numpy()]}
    blocks = []
    for name, found in used.items():
        rows = terms[name] / (expected[name] / found.level)[:, None]
        variance = (WEIGHTS[minimise][name] * found.scatter) ** 2
        inverse = information_inverse(rows[seen[name]], found.scatter)
        blocks.append(block_of(rows, inverse, variance))
    mean = sum(weight * np.log(expected[name]) for name, weight in WEIGHTS[minimise].items())
    chance = None
    if max_latency_s is not None:
        chance = normal_share((math.log(max_latency_s) - np.log(latency_s)) / spread)
    return Outlook(
        tuple(blocks),
        mean=np.asarray(mean),
        floor=_floor(fit, values, minimise),
        chance=chance,
        best=_best_measured(fit, minimise, max_latency_s),
        scatter=math.sqrt(sum(block.variance for block in blocks)),
    )


def _floor(fit: NetworkFit, values: Mapping[str, Array], minimise: Objective) -> Array:
    """The logarithm of the least that the objective can be, whatever the network."""
    n_modes = next(iter(values.values())).size
    least = {
        "time": latency_bounds(fit.measured, values, n_modes)[1],
        "power": least_power_w(fit.measured, values, n_modes),
    }
    with np.errstate(divide="ignore"):
        return np.asarray(sum(w * np.log(least[name]) for name, w in WEIGHTS[minimise].items()))


def _best_measured(
    fit: NetworkFit, minimise: Objective, max_latency_s: float | None
) -> float | None:
    """The logarithm of the least objective that was measured within the limit."""
    best: float | None = None
    for row in fit.measured.select("latency_s", "power_w").iter_rows(named=True):
        values = {"time": row["latency_s"], "power": row["power_w"]}
        if max_latency_s is not None and values["time"] > max_latency_s:
            continue
        if any(values[name] is None for name in WEIGHTS[minimise]):
            continue
        score = sum(w * math.log(values[name]) for name, w in WEIGHTS[minimise].items())
        best = score if best is None else min(best, score)
    return best


def _time_terms(values: Mapping[str, Array]) -> Array:
    terms = evaluate(time_basis(values, _OVERLAP), values)
    return np.concatenate([terms, _limit_terms(values)], axis=1)


def _power_terms(values: Mapping[str, Array], rate: Array) -> Array:
    terms = evaluate(power_basis(values, "clocks and work"), values, rate)
    return np.concatenate([terms, _limit_terms(values)], axis=1)


def _limit_terms(values: Mapping[str, Array]) -> Array:
    """Columns that set modes apart by their power limit alone, as those of a graphics card."""
    limit = values["power_limit_w"]
    if "power_limit_w" not in varying(values):
        return np.zeros((limit.size, 0))
    relative = limit / np.exp(np.log(limit).mean())
    return np.stack([relative**root for root in _ROOTS], axis=1)
