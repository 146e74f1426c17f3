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

from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.analytics.scaling.network_fit import NetworkFit, TermFit, estimate, fit_networks
from mansard.analytics.scaling.network_terms import SETTINGS, Array, latency_bounds, setting_values
from mansard.analytics.scaling.repeats import (
    RUN_LATENCY,
    RUN_POWER,
    pool_repeats,
    single_half,
)
from mansard.core.hashing import content_hash

Mask: TypeAlias = "NDArray[np.bool_]"


@dataclass(frozen=True, eq=False)
class NetworkEstimate:
    """Values of modes and the ends of their 95 % intervals, in one unit; NaN where unknown."""

    value: Array
    low: Array
    high: Array


def predict_modes(fit: NetworkFit, modes: pl.DataFrame) -> pl.DataFrame:
    """A row of PREDICTION_SCHEMA for each mode of the fit's device, all "modelled".

    ``modes``: MODE_SCHEMA; those of other devices are left out. Intervals come from the errors
    of leaving a mode out. With fewer measured modes than a fit takes, the time is the geometric
    middle of what any network can do, and the interval its ends. ``energy_bound`` is null: a fit
    of whole networks cannot tell work from traffic.
    """
    modes = modes.filter(pl.col("device") == fit.device)
    values = setting_values(modes)
    latency = _latency(fit, values, modes.height)
    power = _power(fit, values, latency, modes.height)
    energy = _product(latency, power)
    columns: dict[str, object] = {
        "device": modes.get_column("device"),
        "mode": modes.get_column("mode"),
        **_columns("latency", "s", latency),
        **_columns("energy", "j", energy),
        **_columns("power", "w", power),
        "time_bound": _time_bounds(fit, values, modes.height),
        "interval": _interval_kinds(fit, latency),
        "is_extrapolated": is_outside(fit.measured, values),
        "reason": _reasons(fit, values, latency, power),
    }
    frame = pl.DataFrame(columns).with_columns(
        pl.lit(value, dtype=PREDICTION_SCHEMA[name]).alias(name)
        for name, value in _same_in_all(fit).items()
    )
    return frame.select(
        pl.col(name).cast(kind).fill_nan(None) if kind == pl.Float64 else pl.col(name).cast(kind)
        for name, kind in PREDICTION_SCHEMA.items()
    )


def _interval_kinds(fit: NetworkFit, latency: NetworkEstimate) -> pl.Series:
    kind = "bounds" if fit.time is None else "spread"
    return pl.Series(
        [None if is_open else kind for is_open in np.isnan(latency.low)], dtype=pl.String
    )


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


def is_outside(measured: pl.DataFrame, values: Mapping[str, Array]) -> Mask:
    """Whether a mode has a setting below the least or above the most of the measured modes.

    A setting that no measured mode names is outside wherever it is set.
    """
    known = setting_values(measured)
    found = np.zeros(next(iter(values.values())).size, dtype=bool)
    for name in SETTINGS:
        seen = known[name][~np.isnan(known[name])]
        low, high = (seen.min(), seen.max()) if seen.size else (math.inf, -math.inf)
        with np.errstate(invalid="ignore"):
            found |= (values[name] < low * (1 - 1e-6)) | (values[name] > high * (1 + 1e-6))
    return found


def _latency(fit: NetworkFit, values: Mapping[str, Array], n_modes: int) -> NetworkEstimate:
    if fit.time is None:
        return NetworkEstimate(*latency_bounds(fit.measured, values, n_modes))
    return _interval(fit.time, *estimate(fit.time, values))


def _power(
    fit: NetworkFit, values: Mapping[str, Array], latency: NetworkEstimate, n_modes: int
) -> NetworkEstimate:
    if fit.power is None or fit.time is None:
        nothing = np.full(n_modes, math.nan)
        return NetworkEstimate(nothing, nothing, nothing)
    rate = fit.time.level / latency.value
    return _interval(fit.power, *estimate(fit.power, values, rate))


def _interval(fit: TermFit, value: Array, deviation: Array) -> NetworkEstimate:
    # Errors are of logarithms, so that no interval reaches below zero. Beyond e^±50 they say
    # nothing, and would overflow.
    half = np.minimum(fit.quantile * deviation, 50.0)
    return NetworkEstimate(value, value * np.exp(-half), value * np.exp(half))


def _product(latency: NetworkEstimate, power: NetworkEstimate) -> NetworkEstimate:
    """Energy: errors of time and power are taken to be independent, of logarithms."""
    value = latency.value * power.value
    half = np.hypot(np.log(latency.high / latency.value), np.log(power.high / power.value))
    return NetworkEstimate(value, value * np.exp(-half), value * np.exp(half))


def _columns(name: str, unit: str, found: NetworkEstimate) -> dict[str, Array]:
    return {
        f"{name}_{unit}": found.value,
        f"{name}_low_{unit}": found.low,
        f"{name}_high_{unit}": found.high,
    }


def _time_bounds(fit: NetworkFit, values: Mapping[str, Array], n_modes: int) -> pl.Series:
    """What the time depends on most: the clock of the engine, the memory's, or none ("launch").

    Where the memory's clock is in no term, what no clock changes may be the memory: null.
    """
    if fit.time is None:
        return pl.Series([None] * n_modes, dtype=pl.String)
    base, _ = estimate(fit.time, values)
    shares = [
        np.log(_slowed(fit.time, values, names) / base)
        for names in (("gpu_hz", "cpu_hz"), ("memory_hz",))
    ]
    rest = math.log1p(_STEP) - shares[0] - shares[1]
    stacked = np.stack([*shares, rest])
    words = np.array(["compute", "memory", "launch"])[np.nan_to_num(stacked).argmax(axis=0)]
    is_unclear = np.isnan(base)
    if "memory_hz" not in fit.time.basis.settings:
        is_unclear |= words == "launch"
    return pl.Series(words, dtype=pl.String).set(pl.Series(is_unclear), None)


_STEP = 0.01  # how much slower a clock is made to see what the time depends on


def _slowed(fit: TermFit, values: Mapping[str, Array], names: tuple[str, ...]) -> Array:
    slower = {name: v / (1 + _STEP) if name in names else v for name, v in values.items()}
    return estimate(fit, slower)[0]


def _reasons(
    fit: NetworkFit, values: Mapping[str, Array], latency: NetworkEstimate, power: NetworkEstimate
) -> pl.Series:
    """Why a row has no time, or no energy; null where it has both."""
    reasons: list[str | None] = [None] * latency.value.size
    for at in np.flatnonzero(np.isnan(power.value)).tolist():
        reasons[at] = _lacking(fit.power, values, at) or fit.power_reason or fit.time_reason
    for at in np.flatnonzero(np.isnan(latency.value)).tolist():
        reasons[at] = _lacking(fit.time, values, at) or fit.time_reason
    return pl.Series(reasons, dtype=pl.String)


def _lacking(fit: TermFit | None, values: Mapping[str, Array], at: int) -> str:
    needed = () if fit is None else fit.basis.settings
    lacking = [name for name in needed if not values[name][at] > 0]
    return f"the mode does not say its {', '.join(lacking)}" if lacking else ""


def _note(fit: NetworkFit) -> str | None:
    """How good the numbers are: the errors of leaving a mode out, or why there are only bounds."""
    parts = [] if fit.time is None else [f"time {_quality(fit.time)}"]
    if fit.time is None and not fit.measured.is_empty():
        parts.append(f"the time is between bounds that hold for every network: {fit.time_reason}")
    if fit.power is not None:
        parts.append(f"power {_quality(fit.power)}")
    return "; ".join([*parts, *fit.notes]) or None


def _quality(fit: TermFit) -> str:
    return f"fitted on {fit.n_modes} modes, {100 * fit.error:.2g} % off when one is left out"


_HALVES = (single_half(RUN_LATENCY), single_half(RUN_POWER))
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
    of its repeats; in all others it is modelled by a fit to what was seen. A mode without a power
    that the fit knows is modelled too.
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
    own = modelled.select(*key, "score_id", modelled_w="power_w", modelled_bound="time_bound")
    joined = known.join(own, on=key, nulls_equal=True, maintain_order="left")
    count = pl.col("latency_n")
    found = (
        joined.filter(pl.col("power_w").is_not_null() | pl.col("modelled_w").is_null())
        .with_columns(
            energy_j=pl.col("latency_s") * pl.col("power_w"),
            energy_half=(pl.col("latency_half").pow(2) + pl.col("power_half").pow(2)).sqrt(),
            time_bound="modelled_bound",
            energy_bound=pl.lit(None, pl.String),
            interval=pl.lit("spread"),
            is_extrapolated=pl.lit(value=False),
            is_calibrated=pl.lit(value=True),
            reason=pl.when(pl.col("power_w").is_null()).then("reason"),
            notes=pl.when(count > 1)
            .then(pl.format("pooled from {} measurements", count))
            .otherwise(pl.lit(_SINGLE)),
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
