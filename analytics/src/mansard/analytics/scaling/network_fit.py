"""A network's time and power between modes, from measurements in a few of them.

Terms get weights from few measurements; the form of the terms is chosen by leaving out what is then
predicted. Errors are relative: each equation is divided by what was measured, as a clock or a meter
errs by a share of what it reads. The uncertainty of a prediction is that of linear regression with
a weak prior: scatter² · (1 + φ·A⁻¹·φ), with A = ΦᵀΦ + ridge over the rows that were measured
(C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, PREDICTION_KEY
from mansard.analytics.energy.least_squares import solve_active_set, student_quantile
from mansard.analytics.scaling.network_terms import (
    POWER_FORMS,
    SETTINGS,
    Array,
    Basis,
    evaluate,
    power_basis,
    setting_values,
    time_basis,
    usable,
    varying,
)
from mansard.analytics.scaling.repeats import pool_repeats
from mansard.core.errors import InputError

FEWEST_MODES = 3  # fewer leave nothing to test a form on
PRIOR_SCATTER = 0.02  # of a time or a power, before measurements tell; a choice
LEAST_SCATTER = 1e-4  # no clock and no meter is better
_MOST_FOLDS = 20  # from so many modes on several are left out at once
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class TermFit:
    """Weights of the terms of ``basis``; value = ``level`` · terms @ ``weights``.

    ``left_out``: the natural logarithms of predicted over measured when a mode is left out, by
    the form that was chosen. ``scatter``: their root mean square. ``inverse``: A⁻¹.
    """

    form: str
    basis: Basis
    weights: Array
    level: float  # seconds or watts: the geometric mean of what was measured
    left_out: Array
    scatter: float
    inverse: Array

    @property
    def n_modes(self) -> int:
        """How many modes it was fitted on."""
        return int(self.left_out.size)

    @property
    def error(self) -> float:
        """Median relative error when a mode is left out."""
        return float(np.median(np.abs(np.expm1(self.left_out))))

    @property
    def quantile(self) -> float:
        """Half width of a 95 % interval in standard deviations."""
        return student_quantile(max(1, self.n_modes - 1))


def fit_terms(forms: Mapping[str, tuple[Basis, Array]], measured: Array) -> TermFit:
    """The form whose left-out modes are predicted best; the first of equals.

    ``forms``: by name, a basis and its terms in the measured modes, without NaN. ``measured``:
    positive, at least FEWEST_MODES.
    """
    level = float(np.exp(np.log(measured).mean()))
    wanted = measured / level
    tried = {form: _left_out(terms / wanted[:, None]) for form, (_, terms) in forms.items()}
    # Rounded, so that forms that say the same are equal on every machine.
    form = min(tried, key=lambda name: round(_spread(tried[name]), _DIGITS))
    left_out, (basis, terms) = tried[form], forms[form]
    rows = terms / wanted[:, None]
    scatter = max(LEAST_SCATTER, _spread(left_out))
    inverse = information_inverse(rows, scatter)
    weights = solve_active_set(rows, np.ones(len(wanted)))
    return TermFit(form, basis, weights, level, left_out, scatter, inverse)


def information_inverse(rows: Array, scatter: float) -> Array:
    """A⁻¹ of relative rows (modes × terms): the covariance of the weights over scatter².

    Before any row the weights, together about 1, are as uncertain as that: 1 over their number
    each, and so the ridge is their number times scatter².
    """
    n_terms = rows.shape[1]
    ridge = n_terms * scatter**2 * np.eye(n_terms)
    inverse: Array = np.linalg.inv(rows.T @ rows + ridge)
    return inverse


def leverage(rows: Array, inverse: Array) -> Array:
    """φ·A⁻¹·φ of each relative row: the variance of its prediction over scatter²."""
    return np.asarray(((rows @ inverse) * rows).sum(axis=1), dtype=np.float64)


def estimate(
    fit: TermFit, values: Mapping[str, Array], rate: Array | None = None
) -> tuple[Array, Array]:
    """Predicted values, and the standard deviation of their logarithms; NaN where unknown."""
    terms = evaluate(fit.basis, values, rate)
    relative = terms @ fit.weights
    relative = np.where(relative > 0, relative, np.nan)
    variance = 1 + leverage(terms / relative[:, None], fit.inverse)
    return fit.level * relative, fit.scatter * np.sqrt(variance)


def _spread(left_out: Array) -> float:
    return float(np.sqrt((left_out**2).mean()))


def _left_out(rows: Array) -> Array:
    """log(predicted / measured) of each mode, by a fit that has not seen it."""
    n_modes = len(rows)
    n_folds = min(n_modes, _MOST_FOLDS)
    errors = np.zeros(n_modes)
    for fold in range(n_folds):
        is_out = np.arange(n_modes) % n_folds == fold
        weights = solve_active_set(rows[~is_out], np.ones(int((~is_out).sum())))
        # A form that predicts nothing there is as wrong as can be, but not infinitely.
        errors[is_out] = np.log(np.maximum(rows[is_out] @ weights, 1e-3))
    return errors


_TRUST = ("measured", "simulated", "published", "modelled")  # of one network only the first
# How much of a layer's arithmetic and traffic overlap: nothing, most of it, all of it.
OVERLAPS = (1.0, 2.0, 4.0, math.inf)


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """What was measured of one network on one device, and what follows from it.

    ``measured``: a row for each mode, SETTINGS, ``latency_s`` and ``power_w`` (pooled where
    it was measured more than once; null where it was not). ``time`` or ``power`` are None for
    the reason beside them. ``notes``: what was left out.
    """

    device: str
    network: str
    batch: int | None  # null, as the others, where the table does not say
    precision: str | None
    phase: str | None
    measured: pl.DataFrame
    time: TermFit | None
    time_reason: str
    power: TermFit | None
    power_reason: str
    notes: tuple[str, ...] = ()


def fit_networks(observations: pl.DataFrame, modes: pl.DataFrame) -> tuple[NetworkFit, ...]:
    """A fit for each network of ``observations`` (OBSERVATION_SCHEMA), in their order.

    ``modes``: MODE_SCHEMA. What was measured, what was published and what is modelled are never
    fitted together: of one network the first of these is taken, and a note says so.
    """
    return tuple(
        fit_network(rows, modes)
        for rows in observations.partition_by(*PREDICTION_KEY, maintain_order=True)
    )


def fit_network(observations: pl.DataFrame, modes: pl.DataFrame) -> NetworkFit:
    """The fit of one network on one device; raises InputError where there are several."""
    identities = observations.select(PREDICTION_KEY).unique(maintain_order=True)
    if identities.height != 1:
        raise InputError(
            f"{identities.height} networks or devices where one is fitted",
            fix="choose one network of one device, batch and precision",
        )
    kept, notes = _one_source(observations)
    measured, more = join_modes(kept, modes)
    time, time_reason = fit_times(measured)
    power, power_reason = fit_power(measured)
    return NetworkFit(
        **identities.row(0, named=True),
        measured=measured,
        time=time,
        time_reason=time_reason,
        power=power,
        power_reason=power_reason,
        notes=(*notes, *more),
    )


def join_modes(
    observations: pl.DataFrame, modes: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """One row per mode with its settings, pooled time and power, and notes on what is left out.

    A time or power that is not a positive number is no measurement.
    """
    known = modes.select(*MODE_SCHEMA).unique(["device", "mode"], keep="first", maintain_order=True)
    known = known.with_columns(usable(name) for name in SETTINGS)
    pooled = pool_repeats(observations, ["device", "mode"])
    pooled = pooled.select("device", "mode", "latency_s", "power_w")
    joined = pooled.join(known, on=["device", "mode"], how="inner").sort(
        *SETTINGS, "mode", nulls_last=True
    )
    lost = pooled.join(known, on=["device", "mode"], how="anti").get_column("mode").to_list()
    notes = []
    if lost:
        named = ", ".join(lost[:5]) + (", …" if len(lost) > 5 else "")
        notes.append(f"left out, their clocks are unknown: {named}")
    n_timeless = joined.get_column("latency_s").null_count()
    if n_timeless:
        notes.append(f"left out, no positive time: {n_timeless} of {joined.height} modes")
    timed = joined.filter(pl.col("latency_s").is_not_null())
    for name in SETTINGS:
        n_lacking = timed.get_column(name).null_count()
        if 0 < n_lacking < timed.height:
            notes.append(f"{name} is in no term: {n_lacking} of {timed.height} modes lack it")
    return timed, tuple(notes)


def fit_times(measured: pl.DataFrame) -> tuple[TermFit | None, str]:
    """The fit of ``latency_s`` over the modes of ``measured``, or None and the reason."""
    values = setting_values(measured)
    reason = _why_not(measured.height, values, "time")
    if reason:
        return None, reason
    forms = {}
    for p in OVERLAPS:
        basis = time_basis(values, p)
        forms[f"overlap {p:g}"] = (basis, evaluate(basis, values))
    return fit_terms(forms, measured.get_column("latency_s").to_numpy()), ""


def fit_power(measured: pl.DataFrame) -> tuple[TermFit | None, str]:
    """The fit of ``power_w`` over those modes of ``measured`` that have it, or the reason."""
    metered = measured.filter(pl.col("power_w").is_not_null())
    values = setting_values(metered)
    reason = _why_not(metered.height, values, "power")
    if reason:
        return None, reason
    # Rates are relative to the typical time of all measured modes, as predictions will be.
    rate = typical_latency_s(measured) / metered.get_column("latency_s").to_numpy()
    forms = {}
    for form in POWER_FORMS:
        basis = power_basis(values, form)
        forms[form] = (basis, evaluate(basis, values, rate))
    return fit_terms(forms, metered.get_column("power_w").to_numpy()), ""


def typical_latency_s(measured: pl.DataFrame) -> float:
    """The geometric mean of the times that were measured, seconds."""
    return float(np.exp(np.log(measured.get_column("latency_s").to_numpy()).mean()))


def _one_source(observations: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    sources = observations.get_column("source").unique(maintain_order=True).to_list()
    if len(sources) < 2:
        return observations, ()
    best, *others = (source for source in _TRUST if source in sources)
    kept = observations.filter(pl.col("source") == best)
    return kept, (f"only {best} rows are fitted, not those that are {', '.join(others)}",)


def _why_not(n_modes: int, values: Mapping[str, Array], what: str) -> str:
    if n_modes < FEWEST_MODES:
        have = "no mode" if n_modes == 0 else f"{n_modes} mode{'s' if n_modes > 1 else ''}"
        return f"{what} was measured in {have}, a fit takes {FEWEST_MODES}"
    varies = [name for name in varying(values) if name != "power_limit_w"]
    if not varies:
        return "no clock that is known differs between the measured modes"
    return ""
