"""Time, power and energy in any number of modes of networks of which only times are known.

In a mode in which a network was measured the measurement stands; in the others its fit speaks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA, SETTING_WORDS
from mansard.analytics.data.statistics import (
    RUN_LATENCY,
    RUN_POWER,
    pool_repeats,
    single_half,
)
from mansard.analytics.models.scaling.network_bounds import Growths, network_bounds
from mansard.analytics.models.scaling.network_fit import (
    FormFit,
    NetworkFit,
    TermFit,
    estimate,
    fit_networks,
    typical_latency_s,
)
from mansard.analytics.models.scaling.network_terms import (
    Array,
    evaluate,
    is_outside,
    known_settings,
    setting_values,
)
from mansard.core.hardware import SETTINGS
from mansard.core.hashing import content_hash
from mansard.core.power_mode import nominal_w
from mansard.core.text import listed

Mask: TypeAlias = "NDArray[np.bool_]"


@dataclass(frozen=True, eq=False)
class NetworkEstimate:
    """Values of modes and the ends of their intervals, in one unit; NaN where unknown."""

    value: Array
    low: Array
    high: Array


def predict_modes(fit: NetworkFit, modes: pl.DataFrame) -> pl.DataFrame:
    """A row of PREDICTION_SCHEMA for each mode of the fit's device, all "modelled".

    ``modes``: MODE_SCHEMA; those of other devices are left out. Between the measured modes an
    interval comes from the posterior of the fit and the errors of leaving a mode out ("spread");
    beyond them it is what any network can do ("bounds"). ``energy_bound`` is null: a fit of whole
    networks cannot tell work from traffic.
    """
    modes = modes.filter(pl.col("device") == fit.device)
    values = setting_values(modes)
    outside = is_outside(fit.settings, values)
    hiding = _hidden_settings(modes, values)
    is_hiding = outside & (hiding != "")
    latency, power, energy = (_unknown_at(each, is_hiding) for each in estimate_modes(fit, values))
    kinds = np.where(outside, "bounds", "spread")
    columns: dict[str, object] = {
        "device": modes.get_column("device"),
        "mode": modes.get_column("mode"),
        **_columns("latency", "s", latency),
        **_columns("energy", "j", energy),
        **_columns("power", "w", power),
        "time_bound": _time_bounds(fit, values, modes.height),
        "interval": pl.Series(
            [
                None if is_open else kind
                for kind, is_open in zip(kinds.tolist(), np.isnan(latency.low), strict=True)
            ],
            dtype=pl.String,
        ),
        "is_extrapolated": outside,
        "reason": _reasons(fit, values, (latency, power), np.where(is_hiding, hiding, "")),
    }
    frame = pl.DataFrame(columns).with_columns(
        pl.lit(value, dtype=PREDICTION_SCHEMA[name]).alias(name)
        for name, value in _same_in_all(fit).items()
    )
    return frame.select(
        pl.col(name).cast(kind).fill_nan(None) if kind == pl.Float64 else pl.col(name).cast(kind)
        for name, kind in PREDICTION_SCHEMA.items()
    )


def _hidden_settings(modes: pl.DataFrame, values: Mapping[str, Array]) -> NDArray[np.object_]:
    """What NVIDIA's modes, by their names, change and do not say; empty for other modes.

    Such modes differ in more than a clock: nothing bounds what else they change.
    """
    is_unknown = {name: np.isnan(value) for name, value in values.items()}
    of_gpu = ~is_unknown["gpu_hz"] & (is_unknown["n_sms"] | is_unknown["memory_hz"])
    of_cpu = is_unknown["gpu_hz"] & is_unknown["n_sms"] & ~is_unknown["cpu_hz"]
    of_cpu &= is_unknown["n_cpus"] | is_unknown["memory_hz"]
    found = np.full(of_gpu.size, "", dtype=np.object_)
    found[of_cpu], found[of_gpu] = _HIDING.format("cores"), _HIDING.format("SMs")
    hiding = np.flatnonzero(of_gpu | of_cpu)
    names = modes.get_column("mode").gather(hiding).to_list()
    found[hiding[np.isnan([nominal_w(name) for name in names])]] = ""
    return found


_HIDING = (
    "the mode's {} or memory clock are unknown: name the device, or give the table these columns"
)


def _unknown_at(found: NetworkEstimate, at: Mask) -> NetworkEstimate:
    value, low, high = (np.where(at, np.nan, e) for e in (found.value, found.low, found.high))
    return NetworkEstimate(value, low, high)


def _same_in_all(fit: NetworkFit) -> dict[str, object]:
    return {
        "score_id": content_hash([fit.network, fit.batch, fit.precision, fit.phase]),
        "network": fit.network,
        "batch": fit.batch,
        "precision": fit.precision,
        "phase": fit.phase,
        "source": "modelled",
        "is_calibrated": True,  # fitted to measurements of this very network
        "energy_bound": None,
        "notes": _note(fit),
    }


def estimate_modes(
    fit: NetworkFit, values: Mapping[str, Array], growths: Growths | None = None
) -> tuple[NetworkEstimate, NetworkEstimate, NetworkEstimate]:
    """Time, power and energy in the modes of ``values``.

    ``growths``: of other networks in the same modes, as of ``network_bounds``.

    Where ln T is off by d, the rate of work is off by -d. With the share s of the power that goes
    with the rate, ln P is off by -s · d, and ln E = ln T + ln P by (1 - s) · d.
    """
    outside = is_outside(fit.settings, values)
    nothing = np.full(outside.size, math.nan)
    unknown = NetworkEstimate(nothing, nothing, nothing)
    if fit.time is None:
        return unknown, unknown, unknown
    margin = max(_LEAST_MARGIN, _MARGIN * fit.time.scatter)
    if not {"gpu_hz", "n_sms"} & set(known_settings(fit.settings)):
        margin = min(margin, _MOST_MARGIN)
    bounds = network_bounds(fit.measured, values, margin, growths)
    time = estimate(fit.time, values)
    half = fit.time.quantile * time.deviation
    latency = _interval(time.value, half, bounds.latency_s, outside)
    if fit.power is None:
        return latency, unknown, unknown
    drawn = estimate(fit.power, values, typical_latency_s(fit.measured) / latency.value)
    own = fit.power.quantile * drawn.deviation
    power_half = np.hypot(own, drawn.rate_share * half)
    power = _interval(drawn.value, power_half, bounds.power_w, outside)
    energy_half = np.hypot(own, (1 - drawn.rate_share) * half)
    energy = _interval(latency.value * power.value, energy_half, bounds.energy_j, outside)
    return latency, power, energy


# Scatters that a measurement may lie beside the bounds of the others: where a governor moved the
# clocks of recorded boards, 95 % of times beyond the measured modes are within.
_MARGIN = 2.25
_LEAST_MARGIN = 0.03  # of a time or a power that was measured once
_MOST_MARGIN = 0.15  # of a CPU, whose cores scatter about the terms more than measurements do


def _interval(
    value: Array, half: Array, bounds: tuple[Array, Array], outside: Mask
) -> NetworkEstimate:
    """``half``: of the 95 % interval of the logarithm. No network leaves its bounds, NaN where
    there are none; outside what was measured only these hold, and there is nothing without."""
    half = np.minimum(half, 50.0)  # beyond e^±50 they say nothing, and would overflow
    low, high = bounds
    inner_low, inner_high = np.fmax(value * np.exp(-half), low), np.fmin(value * np.exp(half), high)
    found = np.clip(value, np.where(outside, low, -np.inf), np.where(outside, high, np.inf))
    return NetworkEstimate(
        found,
        np.where(outside, low, np.minimum(inner_low, found)),
        np.where(outside, high, np.maximum(inner_high, found)),
    )


def _columns(name: str, unit: str, found: NetworkEstimate) -> dict[str, Array]:
    return {
        f"{name}_{unit}": found.value,
        f"{name}_low_{unit}": found.low,
        f"{name}_high_{unit}": found.high,
    }


_STEP = 0.01  # how much slower a clock is made to see what the time depends on
_CLEARLY = 1.64  # standard deviations that the largest share must be above the others: 95 %
_SIDES = (("compute", ("gpu_hz", "cpu_hz")), ("memory", ("memory_hz",)))


def _time_bounds(fit: NetworkFit, values: Mapping[str, Array], n_modes: int) -> pl.Series:
    """What the time depends on most: the clock of the engine, the memory's, or none ("launch").

    Null where the measured modes do not tell: where their clocks rose together, or one of them is
    in no term. A share is the mean of all forms by their odds, and its variance has that between
    the forms in it.
    """
    if fit.time is None or not {"memory_hz"} < set(fit.time.settings):
        return pl.Series([None] * n_modes, dtype=pl.String)
    forms = [form for form in fit.time.forms if form.odds > _RARE]
    odds = np.array([form.odds for form in forms])
    odds /= odds.sum()
    shares, inner = zip(*(_shares(form, values) for form in forms), strict=True)
    typical = np.einsum("f,fsm->sm", odds, np.stack(shares))
    most, at = np.nan_to_num(typical).argmax(axis=0), np.arange(n_modes)
    is_clear = np.ones(n_modes, dtype=bool)
    for other in range(len(typical)):
        ahead = typical[most, at] - typical[other]
        variance = np.zeros(n_modes)
        for odd, share, of in zip(odds, shares, inner, strict=True):
            own = of[most, most, at] + of[other, other] - 2 * of[most, other, at]
            between = share[most, at] - share[other] - ahead
            variance += odd * (fit.time.inflation**2 * own + between**2)
        with np.errstate(invalid="ignore"):
            is_clear &= (most == other) | (ahead > _CLEARLY * np.sqrt(variance))
    words = np.array([*(name for name, _ in _SIDES), "launch"])[most]
    return pl.Series(words, dtype=pl.String).set(pl.Series(~is_clear), None)


_RARE = 0.05  # odds of a form that tells little of what the time depends on


def _shares(form: FormFit, values: Mapping[str, Array]) -> tuple[Array, Array]:
    """The share of the time that goes with each side's clocks, and at last with none (3 × modes);
    and their covariance (3 × 3 × modes)."""
    terms = evaluate(form.basis, values).T
    slower = (evaluate(form.basis, _slower(values, names)).T for _, names in _SIDES)
    steps = [(stepped - terms) / _STEP for stepped in slower]
    rows = np.stack([*steps, terms - steps[0] - steps[1]]) / (form.weights @ terms)
    covariance = np.einsum("stm,rtm->srm", form.covariance @ rows, rows)
    return np.asarray(form.weights @ rows), np.asarray(covariance)


def _slower(values: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, Array]:
    return {name: v / (1 + _STEP) if name in names else v for name, v in values.items()}


def _reasons(
    fit: NetworkFit,
    values: Mapping[str, Array],
    of: tuple[NetworkEstimate, NetworkEstimate],
    hiding: NDArray[np.object_],
) -> pl.Series:
    """Why a row has no time, or no power and energy; null where it has all.

    ``of``: time and power. ``hiding``: why nothing is said of a mode, empty where something is.
    """
    reasons: list[str | None] = [None] * hiding.size
    sides = ((of[1], fit.power, fit.power_reason), (of[0], fit.time, fit.time_reason))
    for estimated, term_fit, why in sides:  # that of the time, where both lack
        for at in np.flatnonzero(np.isnan(estimated.value)).tolist():
            reasons[at] = str(hiding[at]) or why or _unlike(fit, term_fit, values, at)
    return pl.Series(reasons, dtype=pl.String)


def _unlike(fit: NetworkFit, term_fit: TermFit | None, values: Mapping[str, Array], at: int) -> str:
    """Which settings keep a mode from being compared with the measured ones."""
    is_known = {name: values[name][at] > 0 for name in SETTINGS}
    needed = () if term_fit is None else term_fit.settings
    lacking = [SETTING_WORDS[name] for name in needed if not is_known[name]]
    if lacking:
        return f"its {listed(lacking)} {'is' if len(lacking) == 1 else 'are'} unknown"
    measured = fit.settings
    only_here = [
        SETTING_WORDS[name]
        for name in SETTINGS
        if is_known[name] and not (measured[name] > 0).any() and name != "power_limit_w"
    ]
    if only_here:
        return f"no measured mode of this network says its {listed(only_here, 'or')}"
    some = [name for name in SETTINGS if not is_known[name] and (measured[name] > 0).any()]
    if some:
        words = listed([SETTING_WORDS[name] for name in some])
        return f"its {words} {'is' if len(some) == 1 else 'are'} unknown"
    return "it differs from the measured modes in its power limit alone, and that has no law"


def _note(fit: NetworkFit) -> str | None:
    """How good the numbers are: the errors of leaving a mode out."""
    parts = [] if fit.time is None else [f"time {_quality(fit.time)}"]
    if fit.time is not None and fit.time.is_same:
        parts.append("no setting changes it")
    if fit.power is not None:
        parts.append(f"power {_quality(fit.power)}")
    return "; ".join([*parts, *fit.notes]) or None


def _quality(fit: TermFit) -> str:
    if fit.error is None:
        return "from one measured mode: measure in four or more"
    return f"fitted on {fit.n_modes} modes, {100 * fit.error:.2g} % off when one is left out"


_HALVES = (single_half(RUN_LATENCY), single_half(RUN_POWER))
_FILLED = "the power is modelled, beside times that were measured"
_SINGLE = (
    f"single measurement: ± {100 * _HALVES[0]:.2g} % of time and ± {100 * _HALVES[1]:.2g} % of "
    "power, at least, as recorded runs of one network differ"
)


def predict_observed(
    observations: pl.DataFrame, modes: pl.DataFrame, wanted: pl.DataFrame
) -> pl.DataFrame:
    """PREDICTION_SCHEMA of every network of ``observations`` in each ``wanted`` mode of its device.

    ``observations``: OBSERVATION_SCHEMA; ``modes``, of those that were seen, and ``wanted``:
    MODE_SCHEMA. In a mode in which a network was seen, that stands with its source and an interval
    of its repeats; in all others it is modelled by a fit to what was seen. Where only the time was
    seen and the fit knows the power, that is taken, and the row is modelled.
    """
    fitted = [
        predict_modes(fit, rows).select(list(PREDICTION_SCHEMA))
        for fit in fit_networks(observations, modes)
        if not (rows := wanted.filter(pl.col("device") == fit.device)).is_empty()
    ]
    if not fitted:
        return pl.DataFrame(schema=PREDICTION_SCHEMA)
    modelled = pl.concat(fitted)
    key = ["mode", *PREDICTION_KEY]
    seen = _as_seen(observations, modelled)
    return pl.concat([modelled.join(seen, on=key, how="anti", nulls_equal=True), seen])


def _as_seen(observations: pl.DataFrame, modelled: pl.DataFrame) -> pl.DataFrame:
    """The observations in modes of ``modelled`` as rows that take the place of theirs.

    Repeats of one mode are pooled, as they are where a network is fitted; those of another source
    than the first are left out. Errors of time and power are taken to be independent: between
    recorded runs the slower one drew less power, so the interval of energy is rather too wide.
    """
    key = ["mode", *PREDICTION_KEY]
    timed = observations.filter(pl.col("latency_s") > 0)
    timed = timed.filter(pl.col("source") == pl.col("source").first().over(key))
    known = pool_repeats(timed, [*key, "source"])
    own = modelled.select(
        *(*key, "score_id", "time_bound"),
        is_spread=pl.col("interval") == "spread",
        modelled_w="power_w",
        modelled_half=(pl.col("power_high_w") / pl.col("power_w")).log(),
    )
    joined = known.join(own, on=key, nulls_equal=True, maintain_order="left")
    count, is_filled = pl.col("latency_n"), pl.col("is_filled")
    counted = pl.when(count > 1).then(pl.format("pooled from {} measurements", count))
    found = (
        joined.with_columns(
            is_filled=(pl.col("power_w").is_null() & pl.col("is_spread")).fill_null(value=False)
            & pl.col("modelled_w").is_not_null()
        )
        .with_columns(
            power_w=pl.when(is_filled).then("modelled_w").otherwise("power_w"),
            power_half=pl.when(is_filled).then("modelled_half").otherwise("power_half"),
            source=pl.when(is_filled).then(pl.lit("modelled")).otherwise("source"),
        )
        .with_columns(
            energy_j=pl.col("latency_s") * pl.col("power_w"),
            energy_half=(pl.col("latency_half").pow(2) + pl.col("power_half").pow(2)).sqrt(),
            energy_bound=pl.lit(None, pl.String),
            interval=pl.lit("spread"),
            is_extrapolated=pl.lit(value=False),
            is_calibrated=pl.lit(value=True),
            reason=pl.when(pl.col("power_w").is_null()).then("reason"),
            notes=pl.when(is_filled)
            .then(pl.lit(_FILLED))
            .otherwise(counted.otherwise(pl.lit(_SINGLE))),
        )
        .with_columns(
            each
            for name, unit in (("latency", "s"), ("energy", "j"), ("power", "w"))
            for each in _ends(name, unit)
        )
    )
    return found.select(pl.col(name).cast(kind) for name, kind in PREDICTION_SCHEMA.items())


def _ends(name: str, unit: str) -> tuple[pl.Expr, pl.Expr]:
    value, factor = pl.col(f"{name}_{unit}"), pl.col(f"{name}_half").exp()
    return (
        (value / factor).alias(f"{name}_low_{unit}"),
        (value * factor).alias(f"{name}_high_{unit}"),
    )
