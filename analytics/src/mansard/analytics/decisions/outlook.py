"""The expected uncertainty and objective of modes that were not measured.

An ``Outlook`` is about all networks together, or about none in particular before anything was
measured. It holds what a choice of modes needs: the terms that time and power are made of, what
measured modes tell of their weights, and the objective of each network as it is predicted.

The uncertainty that measuring lessens is that of linear regression: a prediction has the variance
s²·(1 + φᵀA⁻¹φ), with the terms φ of its mode and A = Σ φφᵀ over the measured modes plus a weak
prior (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.values import BOUNDS_Z, UNDECIDED, Z95
from mansard.analytics.models.scaling.network_bounds import Growths
from mansard.analytics.models.scaling.network_fit import NetworkFit
from mansard.analytics.models.scaling.network_predict import estimate_modes
from mansard.analytics.models.scaling.network_terms import (
    Array,
    is_outside,
    setting_values,
    varying,
)

PRIOR_SCATTER = 0.02  # of a time or a power, before measurements tell; a choice
_LIKELY = 0.5  # a limit that more likely holds than not counts as kept
_LEAST = 1e-8  # variance of a logarithm: nothing is known better than 0.01 %
_Z = np.linspace(-8.0, 8.0, 16_001)  # beyond, a share is 0 or 1 within 1e-15
_SHARES = np.array([math.erfc(-z / math.sqrt(2)) / 2 for z in _Z])


@dataclass(frozen=True, eq=False)
class Block:
    """Time or power of all modes, by relative rows φ of their terms; see ``block_of``.

    ``weights``: s² of each mode, the variance of its logarithm over 1 + φᵀA⁻¹φ. ``inverse``: A⁻¹
    of the modes that are measured. ``spread``: S, the mean of s²φφᵀ over all modes.
    ``leverages``: φᵀA⁻¹φ of each mode, ``reach``: φᵀA⁻¹SA⁻¹φ.
    """

    rows: Array
    weights: Array
    inverse: Array
    spread: Array
    leverages: Array
    reach: Array

    def uncertainty(self) -> Array:
        """The variance of each mode's logarithm that more measurements would lessen."""
        return np.asarray(self.weights * self.leverages, dtype=np.float64)

    def lessening(self) -> Array:
        """The reduction of the mean of that variance over all modes if each mode were measured."""
        return np.asarray(self.reach / (1 + self.leverages), dtype=np.float64)

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


def block_of(rows: Array, taken: NDArray[np.bool_], weights: Array | float) -> Block:
    """The block of relative ``rows`` (modes × terms) where the modes ``taken`` are measured.

    ``weights``: s² of each mode.
    """
    inverse = information_inverse(rows[taken])
    every = np.asarray(np.broadcast_to(weights, len(rows)), dtype=np.float64)
    spread = (rows * every[:, None]).T @ rows / len(rows)
    reach = leverage(rows, inverse @ spread @ inverse)
    return Block(rows, every, inverse, spread, leverage(rows, inverse), reach)


def information_inverse(rows: Array) -> Array:
    """A⁻¹ of relative rows (modes × terms): the covariance of the weights over s².

    Before any row the weights, together about 1, are as uncertain as that: 1 over their number
    each, and so the ridge is their number times PRIOR_SCATTER².
    """
    n_terms = rows.shape[1]
    ridge = n_terms * PRIOR_SCATTER**2 * np.eye(n_terms)
    inverse: Array = np.linalg.inv(rows.T @ rows + ridge)
    return inverse


def leverage(rows: Array, inverse: Array) -> Array:
    """φ·A⁻¹·φ of each relative row."""
    return np.asarray(np.einsum("ij,ij->i", rows @ inverse, rows), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Expected:
    """Networks × modes: natural logarithms of the objective, NaN where nothing predicts it.

    ``floor``: less than that the network cannot do, by its measured modes. ``chance``: that the
    less likely limit holds; None without a limit. ``best``: of each network the best that was
    measured within the limits, infinite where none was.
    """

    mean: Array
    variance: Array
    floor: Array
    chance: Array | None
    best: Array


@dataclass(frozen=True, eq=False)
class Outlook:
    """``start``: 1 + φᵀA⁻¹φ of each mode when the networks were predicted, over all blocks."""

    blocks: tuple[Block, ...]
    start: Array
    networks: Expected | None = None

    def hope(self) -> Array:
        """Expected gain of each mode over an open answer, of networks without one; their mean.

        The chance that the mode is within the limits times the gain in the logarithm of the
        objective over an open answer, as ``choice`` counts it. 0 of a network that has a mode
        within the limits already.
        """
        seeking = self._seeking()
        if seeking is None or self.networks is None or self.networks.chance is None:
            return np.zeros(self.start.size)
        mean = self.networks.mean[seeking]
        gain = UNDECIDED + np.fmax.reduce(mean, axis=1)[:, None] - mean
        expected = np.nan_to_num(self.networks.chance[seeking] * gain).sum(axis=0)
        return np.asarray(expected / len(self.networks.best), dtype=np.float64)

    def chance_at(self, at: int) -> float | None:
        """The mean chance of one mode over the networks that have none within the limits."""
        seeking = self._seeking()
        if seeking is None or self.networks is None or self.networks.chance is None:
            return None
        return float(np.nan_to_num(self.networks.chance[seeking, at]).mean())

    def _seeking(self) -> NDArray[np.bool_] | None:
        """The networks without a measured mode within the limits; None where there are none."""
        if self.networks is None or self.networks.chance is None:
            return None
        seeking = np.isinf(self.networks.best)
        return seeking if seeking.any() else None

    def error(self) -> float:
        """The expected relative error of the objective over all modes."""
        return float(np.sqrt(sum(block.uncertainty().mean() for block in self.blocks)))

    def information(self) -> Array:
        """The reduction of that error if each mode were measured."""
        before = sum(block.uncertainty().mean() for block in self.blocks)
        lessening = np.asarray(sum(block.lessening() for block in self.blocks))
        reduction: Array = np.sqrt(before) - np.sqrt(np.maximum(0.0, before - lessening))
        return reduction

    def improvement(self) -> Array:
        """Expected relative improvement over the best measured mode; the mean of networks.

        D. R. Jones, M. Schonlau, W. J. Welch, Efficient global optimization of expensive
        black-box functions, Journal of Global Optimization 13, 1998, eq. 15, of logarithms.
        """
        total = np.zeros(self.start.size)
        if self.networks is not None:
            share = _total(self.blocks) / self.start
            for network in np.flatnonzero(np.isfinite(self.networks.best)):
                total += self._improvement(self.networks, int(network), share)
            total /= len(self.networks.best)
        return total

    def improvement_at(self, at: int) -> float | None:
        """The mean over the networks that have a best measured mode; None where none has."""
        if self.networks is None:
            return None
        known = np.isfinite(self.networks.best)
        if not known.any():
            return None
        return float(self.improvement()[at] * known.size / known.sum())

    def _improvement(self, of: Expected, network: int, share: Array) -> Array:
        deviation = np.sqrt(np.maximum(_LEAST, of.variance[network] * share))
        ahead = of.best[network] - of.mean[network]
        z = np.clip(ahead / deviation, -30, 30)
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        expected = np.maximum(0.0, ahead * normal_share(z) + deviation * density)
        expected = np.minimum(expected, np.maximum(0.0, of.best[network] - of.floor[network]))
        relative = -np.expm1(-expected)
        if of.chance is not None:
            relative = relative * of.chance[network]
        return np.asarray(np.nan_to_num(relative), dtype=np.float64)

    def measured(self, at: int) -> Outlook:
        """The same as if mode ``at`` were measured and came out as predicted."""
        blocks = tuple(block.changed(at, 1.0) for block in self.blocks)
        if self.networks is None:
            return replace(self, blocks=blocks)
        of = self.networks
        is_within = True if of.chance is None else of.chance[:, at] > _LIKELY
        reached = np.where(is_within & np.isfinite(of.mean[:, at]), of.mean[:, at], math.inf)
        networks = replace(of, best=np.minimum(of.best, reached))
        return replace(self, blocks=blocks, networks=networks)

    def unmeasured(self, at: int) -> Outlook:
        """The same as if mode ``at``, which counts as measured, were not; of a design."""
        return replace(self, blocks=tuple(block.changed(at, -1.0) for block in self.blocks))


def normal_share(z: Array) -> Array:
    """The share of a normal distribution below ``z`` standard deviations, within 1e-7."""
    return np.asarray(np.interp(z, _Z, _SHARES), dtype=np.float64)


def _total(blocks: Sequence[Block]) -> Array:
    return np.asarray(sum(block.weights * (1 + block.leverages) for block in blocks))


# How often time and power enter each objective: energy is time · power.
WEIGHTS: Mapping[Objective, Mapping[str, float]] = {
    "latency": {"time": 1.0},
    "power": {"power": 1.0},
    "energy": {"time": 1.0, "power": 1.0},
    "edp": {"time": 2.0, "power": 1.0},
}


def prior_outlook(
    values: Mapping[str, Array], minimise: Objective, taken: NDArray[np.bool_]
) -> Outlook:
    """What is expected before any network was measured: all terms weigh the same.

    ``values``: the settings of all modes. ``taken``: those that were measured already, if not
    with a network, as a mask.
    """
    terms = find_terms(values)
    rows = terms.relative_rows(terms.time.mean(axis=1))
    blocks = tuple(
        block_of(rows[name], taken, (weight * PRIOR_SCATTER) ** 2)
        for name, weight in WEIGHTS[minimise].items()
    )
    return Outlook(blocks, _total(blocks))


@dataclass(frozen=True, eq=False)
class Predicted:
    """Networks × modes, natural logarithms, NaN where unknown.

    Of "time" (s), "power" (W) and "energy" (J).

    ``mean`` and ``variance``: as it is predicted. ``seen``: what was measured.
    """

    mean: Mapping[str, Array]
    variance: Mapping[str, Array]
    seen: Mapping[str, Array]

    def is_known(self, minimise: Objective) -> NDArray[np.bool_]:
        """Of which networks the objective is predicted, with an interval, in any mode."""
        parts = _OBJECTIVES[minimise]
        known = _combined(self.mean, parts) + _combined(self.variance, parts)
        return np.asarray(np.isfinite(known).any(axis=1))

    def of(self, networks: NDArray[np.bool_]) -> Predicted:
        """The same of some networks."""
        return Predicted(
            *(
                {name: rows[networks] for name, rows in part.items()}
                for part in (self.mean, self.variance, self.seen)
            )
        )


def predicted_networks(fits: Sequence[NetworkFit], modes: pl.DataFrame) -> Predicted:
    """What the fits predict for ``modes`` (MODE_SCHEMA), and what was measured in them."""
    index = {mode: at for at, mode in enumerate(modes.get_column("mode").to_list())}
    shape, values, growths = (len(fits), modes.height), setting_values(modes), Growths()
    mean, variance, seen = ({name: np.full(shape, math.nan) for name in _NAMES} for _ in range(3))
    for row, fit in enumerate(fits):
        at = [index[mode] for mode in fit.measured.get_column("mode").to_list()]
        outside = is_outside(fit.settings, values)
        estimates = estimate_modes(fit, values, growths)
        for (name, quantity), estimate in zip(_NAMES.items(), estimates, strict=True):
            mean[name][row] = np.log(estimate.value)
            z = np.where(outside, BOUNDS_Z[quantity], Z95)
            variance[name][row] = (np.log(estimate.high / estimate.low) / (2 * z)) ** 2
        for name, column in (("time", "latency_s"), ("power", "power_w")):
            seen[name][row, at] = np.log(fit.measured.get_column(column).to_numpy())
    seen["energy"] = seen["time"] + seen["power"]
    return Predicted(mean, variance, seen)


_NAMES = {"time": "latency", "power": "power", "energy": "energy"}  # as BOUNDS_Z calls them
# How often each enters an objective. Energy is predicted as such: its error is not that of time and
# of power together.
_OBJECTIVES: Mapping[Objective, Mapping[str, float]] = {
    "latency": {"time": 1.0},
    "power": {"power": 1.0},
    "energy": {"energy": 1.0},
    "edp": {"time": 1.0, "energy": 1.0},
}


def fitted_outlook(
    predicted: Predicted,
    values: Mapping[str, Array],
    wanted: Wanted,
    taken: NDArray[np.bool_],
) -> Outlook:
    """What is expected of networks whose objective is ``predicted``.

    ``wanted``: its objective, and its limits on time and power. ``taken``: the modes in which any
    network was measured, as a mask.
    """
    terms, powers, parts = (
        find_terms(values),
        WEIGHTS[wanted.minimise],
        _OBJECTIVES[wanted.minimise],
    )
    time = predicted.mean["time"]
    rows = terms.relative_rows(np.exp(_mean(time - _mean(time.T)[:, None])))
    blocks = []
    for name, weight in powers.items():
        variance = np.maximum(_LEAST, weight**2 * _mean(predicted.variance[name]))
        known = variance / (1 + leverage(rows[name], information_inverse(rows[name][taken])))
        blocks.append(block_of(rows[name], taken, known))
    seen, chance = _combined(predicted.seen, parts), None
    for name, limit in (("time", wanted.max_latency_s), ("power", wanted.max_power_w)):
        if limit is None:
            continue
        seen[~(predicted.seen[name] <= math.log(limit))] = math.nan
        deviation = np.sqrt(np.maximum(_LEAST, predicted.variance[name]))
        holds = normal_share((math.log(limit) - predicted.mean[name]) / deviation)
        chance = holds if chance is None else np.minimum(chance, holds)
    return Outlook(
        tuple(blocks),
        _total(blocks),
        Expected(
            mean=_combined(predicted.mean, parts),
            variance=_combined(predicted.variance, {k: w**2 for k, w in parts.items()}),
            floor=_floor(predicted.seen, terms, powers),
            chance=chance,
            best=np.fmin.reduce(seen, axis=1, initial=math.inf),
        ),
    )


def _combined(parts: Mapping[str, Array], powers: Mapping[str, float]) -> Array:
    return np.asarray(sum(weight * parts[name] for name, weight in powers.items()))


def _mean(of_networks: Array) -> Array:
    """The mean of the first axis over what is known; the greatest of these where nothing is."""
    is_known = np.isfinite(of_networks)
    n_known = is_known.sum(axis=0)
    mean = np.where(is_known, of_networks, 0.0).sum(axis=0) / np.maximum(n_known, 1)
    return np.asarray(np.where(n_known > 0, mean, mean.max(initial=0.0, where=n_known > 0)))


def _floor(seen: Mapping[str, Array], terms: Terms, powers: Mapping[str, float]) -> Array:
    """The logarithm of the least that the objective of each network can be in each mode.

    For any weights a sum of terms grows from one mode to another by at least the term that grows
    least. A mode that takes longer runs the work less often, by at most the term of time that
    grows most.
    """
    floor = np.full(seen["time"].shape, -math.inf)
    for at in np.flatnonzero(np.isfinite(seen["time"]).any(axis=0)).tolist():
        growth = terms.parts / terms.parts[at]
        least = {"time": growth.min(axis=1), "power": terms.least_power(at, growth.max(axis=1))}
        bound = sum(w * (seen[name][:, [at]] + np.log(least[name])) for name, w in powers.items())
        floor = np.fmax(floor, bound)
    return floor


_OVERLAP = 4.0  # of layers, before any measurement tells
_N_RIDGES = 3  # places where layers go over from arithmetic to traffic, evenly over the modes
_DEPARTURE = 0.02  # of what no term says, beside a term: a choice


@dataclass(frozen=True, eq=False)
class Terms:
    """What time and power are made of in each mode, all about 1: modes × terms.

    ``parts``: what no clock changes, and the time of each engine by its clock. ``time``: these,
    and layers between two engines. ``power``: what runs whether there is work or not.
    ``work``: the energy of the work, to be multiplied by its rate. ``departures``: how both may
    depart from all these, relative.
    """

    parts: Array
    time: Array
    power: Array
    work: Array
    departures: Array

    def relative_rows(self, time: Array) -> dict[str, Array]:
        """The terms of time and of power over their sum, of a network that takes ``time``."""
        power = np.concatenate([self.power, self.work / time[:, None]], axis=1)
        terms = {"time": self.time / time[:, None], "power": power / power.mean(axis=1)[:, None]}
        return {
            name: np.concatenate([rows, self.departures], axis=1) for name, rows in terms.items()
        }

    def least_power(self, at: int, slowing: Array) -> Array:
        """The least growth of power from mode ``at`` to modes that are slower by ``slowing``."""
        work = (self.work / self.work[at]).min(axis=1) / slowing
        return np.asarray(np.minimum((self.power / self.power[at]).min(axis=1), work))


def find_terms(values: Mapping[str, Array]) -> Terms:
    """The terms of modes with these settings, of those settings that vary."""
    varies = {name: values[name] for name in varying(values)}
    speed = {name: value / np.exp(np.log(value).mean()) for name, value in varies.items()}
    one = np.ones(next(iter(values.values())).size)
    parts, power, work = [one], [one], [one]
    engines = []
    for clock, count in (("gpu_hz", "n_sms"), ("cpu_hz", "n_cpus")):
        both = [speed[name] for name in (clock, count) if name in speed]
        if not both:
            continue
        engines.append(np.prod(both, axis=0))
        parts.append(1 / engines[-1])
        if len(both) == 2:
            # One clock without the count: the GPU's port to memory, a CPU's single thread.
            parts.append(1 / speed[clock])
        power.append(engines[-1])
        if clock in speed:
            power.append(engines[-1] * speed[clock] ** 2)
            work.append(speed[clock] ** 2)
    time = list(parts)
    if "memory_hz" in speed:
        parts.append(1 / speed["memory_hz"])
        time.append(1 / speed["memory_hz"])
        power.append(speed["memory_hz"])
        time += [column for engine in engines for column in _ridges(engine, speed["memory_hz"])]
    departures = _departures(speed)
    columns = [
        np.stack([one, *terms], axis=1)[:, 1:] for terms in (parts, time, power, work, departures)
    ]
    return Terms(*columns)


def _departures(speed: Mapping[str, Array]) -> list[Array]:
    """Curves along each setting and across each two; a power limit has no law but these.

    With potential terms beside those of the model a design does not lean on the model alone
    (W. DuMouchel, B. Jones, A simple Bayesian modification of D-optimal designs to reduce
    dependence on an assumed model, Technometrics 36, 1994).
    """
    places = {name: _between(np.log(values)) for name, values in speed.items()}
    columns = [places[name] for name in places if name == "power_limit_w"]
    columns += [x * y for x, y in combinations_with_replacement(places.values(), 2)]
    return [_DEPARTURE * column for column in columns]


def _between(value: Array) -> Array:
    """-1 at the least, 1 at the most."""
    return np.asarray(2 * (value - value.min()) / (value.max() - value.min()) - 1)


def _ridges(engine: Array, memory: Array) -> list[Array]:
    """The time of layers that arithmetic bounds in some modes and memory in others."""
    ratio = np.log(memory / engine)
    places = np.exp(np.linspace(ratio.min(), ratio.max(), _N_RIDGES + 2)[1:-1])
    return [
        (engine**-_OVERLAP + (place / memory) ** _OVERLAP) ** (1 / _OVERLAP) for place in places
    ]
