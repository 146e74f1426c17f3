"""A network's time and power between modes, from measurements in a few of them.

The weights w of the terms of ``network_terms`` have a prior, N(m, Λ), and are not negative.
Errors are relative: each equation is divided by what was measured, as a clock or a meter errs by a
share of what it reads. With the rows Φ of the measured modes and a scatter σ the weights minimise
|Φw - 1|² / σ² + (w - m)ᵀ Λ⁻¹ (w - m), and what is predicted by a row φ has the variance
σ² + φ V φᵀ with V = (ΦᵀΦ / σ² + Λ⁻¹)⁻¹ (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes
for Machine Learning, 2006, 2.1). Scatters, and forms of the terms, are averaged by their evidence,
the probability of the measurements. The deviations are then scaled by how large the errors of
leaving one measured mode out were beside those expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, PREDICTION_KEY, SETTING_WORDS
from mansard.analytics.data.statistics import pool_repeats, student_quantile
from mansard.analytics.models.energy.least_squares import solve_active_set
from mansard.analytics.models.scaling.network_terms import (
    Array,
    Forms,
    TermBasis,
    evaluate,
    known_settings,
    power_forms,
    rate_share,
    setting_values,
    time_forms,
    usable,
)
from mansard.core.errors import InputError
from mansard.core.hardware import SETTINGS

SCATTERS = np.array([0.002, 0.005, 0.012, 0.03, 0.07, 0.16, 0.35])  # of measured modes about a fit
_LEAN = 2.0  # weights lean on the measurements: odds of a scatter over the next larger one, ln
LEAST_DEVIATION = 0.004  # no clock and no meter is better
# The prior, before a mode is left out: errors are this many times as large as expected, with the
# weight of _PRIOR_MODES modes. With these 95 % of the intervals hold on recorded sweeps.
_TIME_ERROR, _POWER_ERROR, _PRIOR_MODES = 1.2, 0.9, 2.0
_LIKELY = 0.5
_LEAST_ODDS = 1e-2  # of a form that is evaluated
_ROUNDING = 1e-12  # of the greatest entry: what is below it in a matrix is rounding
_MOST_FOLDS = 20  # with more modes several are left out at once


@dataclass(frozen=True, eq=False)
class FormFit:
    """Weights of the terms of ``basis``: value = ``level`` · terms @ ``weights``.

    ``covariance``: V, of the weights. ``scatter``: σ, of the logarithm. ``odds``: the share of
    this form among all, by its evidence.
    """

    basis: TermBasis
    weights: Array
    level: float  # seconds or watts
    covariance: Array
    scatter: float
    odds: float


@dataclass(frozen=True, eq=False)
class TermFit:
    """Forms by their odds, the likeliest first; "form" is one of ``time_forms``.

    ``left_out``: natural logarithms of predicted over measured when a mode is left out; empty
    with one mode. ``inflation``: by which deviations are scaled. ``n_modes``: fitted on.
    """

    forms: tuple[FormFit, ...]
    left_out: Array
    inflation: float
    n_modes: int

    @property
    def error(self) -> float | None:
        """Median relative error when a mode is left out; None with one mode."""
        return float(np.median(np.abs(np.expm1(self.left_out)))) if self.left_out.size else None

    @property
    def is_same(self) -> bool:
        """Whether it is likelier than not that no setting changes the value."""
        return sum(form.odds for form in self.forms if form.basis.is_same) > _LIKELY

    @property
    def scatter(self) -> float:
        """Standard deviation of the logarithm of a measured mode about the fit."""
        variance = sum(form.odds * form.scatter**2 for form in self.forms)
        return max(LEAST_DEVIATION, self.inflation * math.sqrt(variance))

    @property
    def quantile(self) -> float:
        """Half width of a 95 % interval in standard deviations."""
        return student_quantile(int(_PRIOR_MODES) + self.n_modes - 1)

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that must be known of a mode."""
        used = {name for form in self.forms for name in form.basis.settings}
        return tuple(name for name in SETTINGS if name in used)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values of modes, the standard deviation of their logarithms, and of powers the share that
    goes with the rate of work; NaN where unknown."""

    value: Array
    deviation: Array
    rate_share: Array


def fit_terms(
    bases: Forms,
    terms: Sequence[Array],
    measured: Array,
    prior_error: float,
) -> TermFit:
    """``bases`` with their odds before anything is measured, ``terms`` of each in the measured
    modes, without NaN; ``measured``: positive."""
    forms = _forms(bases, terms, measured)
    n_modes = len(measured)
    n_folds = min(n_modes, _MOST_FOLDS) if n_modes > 1 else 0
    errors, expected = np.zeros(n_modes), np.ones(n_modes)
    for fold in range(n_folds):
        is_out = np.arange(n_modes) % n_folds == fold
        fold_forms = _forms(bases, [each[~is_out] for each in terms], measured[~is_out])
        log, deviation, _ = _mixed(fold_forms, [each[is_out] for each in terms])
        errors[is_out], expected[is_out] = log - np.log(measured[is_out]), deviation
    squares = float(((errors / expected) ** 2).sum())
    inflation = math.sqrt(
        (_PRIOR_MODES * prior_error**2 + squares) / (_PRIOR_MODES + (n_modes if n_folds else 0))
    )
    return TermFit(_likely(forms), errors if n_folds else np.empty(0), inflation, n_modes)


def _likely(forms: Sequence[FormFit]) -> tuple[FormFit, ...]:
    """The forms that count, the likeliest first; together their odds are 1."""
    counted = sorted((f for f in forms if f.odds > _LEAST_ODDS), key=lambda form: -form.odds)
    total = sum(form.odds for form in counted)
    return tuple(replace(form, odds=form.odds / total) for form in counted)


def estimate(fit: TermFit, values: Mapping[str, Array], rate: Array | None = None) -> Estimate:
    """What ``fit`` predicts for the modes of ``values``; ``rate`` as of ``evaluate``."""
    log, deviation, share = _mixed(
        fit.forms, [evaluate(form.basis, values, rate) for form in fit.forms]
    )
    return Estimate(np.exp(log), np.maximum(LEAST_DEVIATION, fit.inflation * deviation), share)


def _forms(bases: Forms, terms: Sequence[Array], measured: Array) -> tuple[FormFit, ...]:
    found, evidence = [], []
    for (basis, odds), rows in zip(bases, terms, strict=True):
        form, log_evidence = _form(basis, rows, measured)
        found.append(form)
        evidence.append(log_evidence + math.log(odds))
    shares = _shares(np.array(evidence)).tolist()
    return tuple(replace(form, odds=share) for form, share in zip(found, shares, strict=True))


def _form(basis: TermBasis, terms: Array, measured: Array) -> tuple[FormFit, float]:
    """The fit of one form, and the logarithm of its evidence."""
    mean, precision, whitening = basis.mean, basis.precision, basis.whitening
    level = float(np.exp(np.log(measured / (terms @ mean)).mean()))
    rows = terms / (measured / level)[:, None]
    evidence = _evidence(rows, mean, precision)
    # Too large a scatter holds the weights at the prior, too small a one makes intervals narrow.
    lean = _shares(evidence - _LEAN * np.arange(len(SCATTERS)))
    scatter = math.sqrt(float(lean @ SCATTERS**2))
    weights = solve_active_set(
        np.concatenate([rows / scatter, whitening]),
        np.concatenate([np.full(len(rows), 1 / scatter), whitening @ mean]),
    )
    scatter = math.sqrt(float(_shares(evidence) @ SCATTERS**2))
    information = _steady(rows.T @ rows / scatter**2 + precision)
    covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
    total = float(evidence.max() + np.log(np.exp(evidence - evidence.max()).sum()))
    return FormFit(basis, weights, level, covariance, scatter, 1.0), total


def _evidence(rows: Array, mean: Array, precision: Array) -> Array:
    """ln N(1; Φm, ΦΛΦᵀ + σ²) for each of SCATTERS, but for a constant; solved in the weights."""
    residual = 1 - rows @ mean
    gram, along = rows.T @ rows, rows.T @ residual
    # All scatters at once: inner = ΦᵀΦ / σ² + Λ⁻¹.
    inner = _steady(np.asarray(gram / SCATTERS[:, None, None] ** 2 + precision))
    prior_size = float(np.linalg.slogdet(precision)[1])
    size = 2 * len(rows) * np.log(SCATTERS) + np.linalg.slogdet(inner)[1] - prior_size
    fitted = np.linalg.solve(inner, along[None, :, None])[:, :, 0] @ along / SCATTERS**4
    found = -(size + float(residual @ residual) / SCATTERS**2 - fitted) / 2
    return np.asarray(found, dtype=np.float64)


def _steady(matrices: Array) -> Array:
    """Positive definite ``matrices`` (… × n × n), also where measurements are 1e9 times apart."""
    most = np.abs(matrices).max(axis=(-2, -1), keepdims=True)
    return np.asarray(matrices + _ROUNDING * most * np.eye(matrices.shape[-1]), dtype=np.float64)


def _shares(logs: Array) -> Array:
    found = np.exp(logs - logs.max())
    return np.asarray(found / found.sum(), dtype=np.float64)


def _mixed(forms: Sequence[FormFit], terms: Sequence[Array]) -> tuple[Array, Array, Array]:
    """The mean logarithm of all forms, its deviation, and the share of the rate in it."""
    log, variance, share = (np.zeros(len(terms[0])) for _ in range(3))
    for form, rows in zip(forms, terms, strict=True):
        relative = rows @ form.weights
        relative = np.where(relative > 0, relative, np.nan)
        own = ((form.covariance @ rows.T) * rows.T).sum(axis=0) / relative**2
        log += form.odds * np.log(form.level * relative)
        variance += form.odds * (form.scatter**2 + own)
        share += form.odds * rate_share(form.basis, rows, form.weights)
    return log, np.sqrt(variance), share


_TRUST = ("measured", "simulated", "published", "modelled")  # of one network only the first


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

    @cached_property
    def settings(self) -> Mapping[str, Array]:
        """The settings of the measured modes."""
        return setting_values(self.measured)


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
    device = str(identities.get_column("device")[0])
    board = setting_values(modes.filter(pl.col("device") == device))
    time, time_reason = fit_times(measured, board)
    power, power_reason = fit_power(measured, board)
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
            lacking = "does" if n_lacking == 1 else "do"
            notes.append(
                f"the {SETTING_WORDS[name]} is left out of the fit: {n_lacking} of {timed.height} "
                f"modes {lacking} not say it"
            )
    return timed, tuple(notes)


def fit_times(measured: pl.DataFrame, board: Mapping[str, Array]) -> tuple[TermFit | None, str]:
    """The fit of ``latency_s`` over the modes of ``measured``, or None and the reason.

    ``board``: the settings of all modes of their board.
    """
    values = setting_values(measured)
    reason = _why_not(values, "time")
    if reason:
        return None, reason
    forms = time_forms(values, board)
    terms = [evaluate(basis, values) for basis, _ in forms]
    seconds = measured.get_column("latency_s").to_numpy()
    return fit_terms(forms, terms, seconds, _TIME_ERROR), ""


def fit_power(measured: pl.DataFrame, board: Mapping[str, Array]) -> tuple[TermFit | None, str]:
    """The fit of ``power_w`` over those modes of ``measured`` that have it, or the reason."""
    metered = measured.filter(pl.col("power_w").is_not_null())
    values = setting_values(metered)
    reason = _why_not(values, "power")
    if reason:
        return None, reason
    # Rates are relative to the typical time of all measured modes, as predictions will be.
    rate = typical_latency_s(measured) / metered.get_column("latency_s").to_numpy()
    forms = power_forms(values, board)
    terms = [evaluate(basis, values, rate) for basis, _ in forms]
    watts = metered.get_column("power_w").to_numpy()
    return fit_terms(forms, terms, watts, _POWER_ERROR), ""


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


def _why_not(values: Mapping[str, Array], what: str) -> str:
    if not values["gpu_hz"].size:
        return f"{what} was measured in no mode"
    if not [name for name in known_settings(values) if name != "power_limit_w"]:
        return "no clock is known of all the measured modes"
    return ""
