"""From the coefficients of the modes that were measured to those of all modes of a board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, SETTING_WORDS
from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.models.scaling.law_choice import Choice, candidates, choose, usable
from mansard.analytics.models.scaling.laws import (
    Array,
    Columns,
    columns_in,
    columns_of,
    is_outside,
    known_columns,
    varied_columns,
)
from mansard.core.text import listed

_KEY = ("quantity", "subject", "unit")
_NORMAL = 1.96  # half of an interval of 95 %, in standard deviations
_UNSAID = 0.05  # half width of a value without an interval: the widest tolerance of a plateau
_ONE_MODE = "only one mode has a value: nothing tells how far the law is off elsewhere"


def scale(modes: pl.DataFrame, coefficients: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: every coefficient of every mode in ``wanted``.

    ``modes`` and ``coefficients`` are what was measured, or published, of some modes (MODE_SCHEMA
    and COEFFICIENT_SCHEMA); ``wanted`` (MODE_SCHEMA) names any number of modes. Devices are never
    mixed: a device without coefficients has no rows. A mode that has a value keeps it as it is;
    all other values are modelled by the law that fits the modes with a value best
    (docs/understand/scaling.md). ``error`` is the median relative error of leaving one of them out;
    ``low`` and ``high`` hold 95 % by those errors and by the intervals measured. With a value from
    one mode alone there is no error and no interval, and ``reason`` says so.
    """
    parts = [
        part
        for device in wanted["device"].unique(maintain_order=True)
        for part in _device_parts(*(_of(frame, device) for frame in (modes, coefficients, wanted)))
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=COEFFICIENT_SCHEMA)


def _of(frame: pl.DataFrame, device: str) -> pl.DataFrame:
    return frame.filter(pl.col("device") == device)


def _device_parts(
    modes: pl.DataFrame, coefficients: pl.DataFrame, wanted: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    modes = modes.unique("mode", keep="first", maintain_order=True)
    is_gpu = modes["n_sms"].is_not_null().any() or modes["gpu_hz"].is_not_null().any()
    everywhere = columns_of(wanted)
    for key, rows in coefficients.group_by(*_KEY, maintain_order=True):
        has_value = (pl.col("value") > 0) & pl.col("value").is_finite()
        valued = rows.filter(has_value.fill_null(value=False))
        fit = _fit(valued.join(modes, on="mode"), str(key[0]), str(key[1]), is_gpu=bool(is_gpu))
        # Where there is no law, a mode that was measured in vain keeps its own reason.
        kept = rows if fit is None else valued
        kept = kept.join(wanted.select("mode"), on="mode", how="semi")
        yield kept.select(list(COEFFICIENT_SCHEMA))
        asked = ~wanted["mode"].is_in(kept["mode"].implode())
        if asked.any():
            mask = asked.to_numpy()
            at = {name: values[mask] for name, values in everywhere.items()}
            yield _modelled(wanted.filter(asked), at, key, fit or _why_not(rows))


@dataclass(frozen=True, eq=False)
class _Fit:
    """A choice of law with what its modes span and how wide its values are."""

    choice: Choice
    columns: Columns
    relevant: frozenset[str]
    half: float | None  # of the interval of 95 %, natural logarithm


def _fit(valued: pl.DataFrame, quantity: str, subject: str, *, is_gpu: bool) -> _Fit | None:
    """The law of one coefficient; None where no mode has both a value and its clocks."""
    columns = columns_of(valued)
    known = known_columns(columns)
    laws = candidates(quantity, subject, is_gpu=is_gpu)
    relevant = columns_in(laws) & known
    complete = np.all([np.isfinite(columns[name]) for name in relevant], axis=0)
    rows = valued.filter(pl.Series(np.broadcast_to(complete, len(valued))))
    columns = columns_of(rows)
    chosen = choose(
        tuple(usable(laws, known, varied_columns(columns))), columns, rows["value"].to_numpy()
    )
    if chosen is None:
        return None
    return _Fit(chosen, columns, relevant, _half_width(chosen.errors, rows))


def _half_width(errors: Array, rows: pl.DataFrame) -> float | None:
    """Half of the 95 % interval of ln(value): errors of modes left out, and of measuring."""
    if not len(errors):
        return None
    above = (rows["high"] / rows["value"]).to_numpy()  # low may be 0
    halves = np.where(above >= 1, np.log(np.fmax(above, 1)), _UNSAID)
    scatter = float((errors**2).mean() + (halves**2).mean() / _NORMAL**2)
    return float(student_quantile(len(errors)) * np.sqrt(scatter))


def _why_not(rows: pl.DataFrame) -> str:
    """Why a coefficient has no law, in one line."""
    reasons = rows.filter(pl.col("value").is_null())["reason"].drop_nulls()
    if len(reasons) == len(rows):
        return f"no mode of this device has it: {reasons[0]}"
    return "no mode of this device has both a value above 0 and known clocks"


def _modelled(
    new: pl.DataFrame, at: Columns, key: Sequence[object], fit: _Fit | str
) -> pl.DataFrame:
    """The rows of one coefficient in modes that have no value of it."""
    n_modes = len(new)
    blank = np.full(n_modes, np.nan)
    value, low, high, outside = blank, blank, blank, np.ones(n_modes, dtype=np.bool_)
    error, n_fitted = None, None
    if isinstance(fit, _Fit):
        value, most = fit.choice.predict(at)
        value = np.where(np.isfinite(value) & (value > 0), value, np.nan)
        outside = is_outside(at, fit.columns, fit.relevant) | np.isfinite(most)
        n_fitted = len(next(iter(fit.columns.values())))
        if fit.half is not None:
            low, high = value * np.exp(-fit.half), np.fmax(value * np.exp(fit.half), most)
            error = float(np.median(np.abs(np.expm1(fit.choice.errors))))
    frame = new.select("device", "mode").with_columns(
        *(pl.lit(str(part)).alias(name) for name, part in zip(_KEY, key, strict=True)),
        pl.Series("value", value, nan_to_null=True),
        pl.Series("low", low, nan_to_null=True),
        pl.Series("high", high, nan_to_null=True),
        pl.lit("modelled").alias("source"),
        pl.lit(error, dtype=pl.Float64).alias("error"),
        pl.lit(n_fitted, dtype=pl.Int64).alias("n_fitted"),
        pl.Series("is_extrapolated", outside),
        pl.lit(None, dtype=pl.String).alias("reason"),
    )
    return frame.with_columns(_reason(fit, at)).select(list(COEFFICIENT_SCHEMA))


def _reason(fit: _Fit | str, at: Columns) -> pl.Expr:
    """Why the value of each mode is unknown, or its interval; null where both are known."""
    if isinstance(fit, str):
        return pl.lit(fit).alias("reason")
    words = {name: word for name, word in SETTING_WORDS.items() if name in fit.relevant}
    lacking = [
        listed([word for name, word in words.items() if np.isnan(at[name][row])])
        for row in range(len(next(iter(at.values()))))
    ]
    without = pl.Series(
        [f"not known of this mode: its {each}" for each in lacking], dtype=pl.String
    )
    with_value = pl.lit(_ONE_MODE if fit.half is None else None, dtype=pl.String)
    return pl.when(pl.col("value").is_null()).then(without).otherwise(with_value).alias("reason")
