"""Outlooks before anything was measured, and from the fits of networks."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decide.plan_outlook import Outlook, block_of, normal_share
from mansard.analytics.decide.records import Objective
from mansard.analytics.scaling.network_bounds import latency_bounds, least_power_w
from mansard.analytics.scaling.network_fit import NetworkFit
from mansard.analytics.scaling.network_terms import (
    Array,
    evaluate,
    power_basis,
    time_basis,
    varying,
)
from mansard.analytics.scaling.term_fit import PRIOR_SCATTER, estimate, information_inverse

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
