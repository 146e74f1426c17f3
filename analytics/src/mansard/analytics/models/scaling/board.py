"""From the coefficients of the modes that were measured to those of all modes of a board.

Of the laws that a coefficient may follow the simplest comes first; docs/understand/scaling.md
derives them. A board's voltage is not known, but it rises about linearly with the clock, so that
what goes with f · V² is between f and f³, and what goes with V² between 1 and f².

The law and its error are found by leaving modes out. The error that is reported leaves a mode out
before the law is chosen, so that choosing cannot make it look better than it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, SETTING_WORDS
from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.scaling.laws import (
    Array,
    Columns,
    Fitted,
    Law,
    Least,
    Monomial,
    Sum,
    columns_in,
    columns_of,
    is_outside,
    known_columns,
    parts_of,
    varied_columns,
)
from mansard.core.text import listed

ONE = Monomial()
GPU, GPU_2, GPU_3 = (Monomial((("gpu_hz", power),)) for power in (1, 2, 3))
CPU, CPU_2, CPU_3 = (Monomial((("cpu_hz", power),)) for power in (1, 2, 3))
GPU_TIME, CPU_TIME = Monomial((("gpu_hz", -1),)), Monomial((("cpu_hz", -1),))
MEMORY = Monomial((("memory_hz", 1),))
SMS_GPU = Monomial((("n_sms", 1), ("gpu_hz", 1)))
SMS_GPU_TIME = Monomial((("n_sms", -1), ("gpu_hz", -1)))
CORES_CPU = Monomial((("n_cpus", 1), ("cpu_hz", 1)))
CORES_CPU_TIME = Monomial((("n_cpus", -1), ("cpu_hz", -1)))

CONSTANT = Sum((ONE,))
# An energy goes with V², and V² with 1, f and f² where V is a line.
_GPU_ENERGY: tuple[Law, ...] = (CONSTANT, Sum((ONE, GPU_2)), Sum((ONE, GPU, GPU_2)))
_CPU_ENERGY: tuple[Law, ...] = (CONSTANT, Sum((ONE, CPU_2)), Sum((ONE, CPU, CPU_2)))
_GPU: dict[str, tuple[Law, ...]] = {
    "peak": (
        Sum((SMS_GPU,)),
        # What all SMs share, such as their L2, goes with the clock alone.
        Least(SMS_GPU, GPU, is_second_sure=False),
        # 1/P = a / (SMs · f) + b: a part at another clock than the SMs'.
        Sum((SMS_GPU_TIME, ONE), is_reciprocal=True),
        # A limit on power holds the clock, whatever its cap.
        Least(SMS_GPU, ONE, is_second_sure=False),
    ),
    "bandwidth": (Least(MEMORY, GPU),),
    "launch": (
        CONSTANT,
        Sum((ONE, CPU_TIME)),
        Sum((ONE, GPU_TIME)),
        Sum((ONE, CPU_TIME, GPU_TIME)),
    ),
    "flop_energy": _GPU_ENERGY,
    "byte_energy": _GPU_ENERGY,
    # Leakage and what is always on, clock trees that go with f or f · V², and the memory.
    "constant_power": (
        CONSTANT,
        Sum((ONE, GPU)),
        Sum((ONE, GPU_3)),
        Sum((ONE, SMS_GPU)),
        Sum((ONE, GPU, MEMORY)),
        Sum((ONE, GPU_3, MEMORY)),
        Sum((ONE, GPU, GPU_3, MEMORY)),
    ),
}
_CPU: dict[str, tuple[Law, ...]] = {
    "peak": (
        Sum((CORES_CPU,)),
        Sum((CORES_CPU_TIME, ONE), is_reciprocal=True),
        Least(CORES_CPU, ONE, is_second_sure=False),
    ),
    "bandwidth": (Least(MEMORY, CORES_CPU), Least(ONE, CORES_CPU)),
    "launch": (CONSTANT, Sum((ONE, CPU_TIME))),
    "flop_energy": _CPU_ENERGY,
    "byte_energy": _CPU_ENERGY,
    "constant_power": (
        CONSTANT,
        Sum((ONE, CPU)),
        Sum((ONE, CPU_3)),
        Sum((ONE, CORES_CPU)),
        Sum((ONE, CORES_CPU, MEMORY)),
    ),
}
# Caches run at the clock of what they serve; a GPU's L2 serves all SMs through one port.
_GPU_L1: tuple[Law, ...] = (Sum((SMS_GPU,)),)
_GPU_L2: tuple[Law, ...] = (Sum((GPU,)), Sum((SMS_GPU,)), Least(GPU, SMS_GPU))
_CPU_CACHE: tuple[Law, ...] = (Sum((CORES_CPU,)), Sum((CPU,)), Least(CPU, CORES_CPU))


def candidates(quantity: str, subject: str, *, is_gpu: bool) -> tuple[Law, ...]:
    """The laws for a quantity of COEFFICIENT_SCHEMA; none for one that is not known."""
    if quantity == "bandwidth" and subject != DRAM:
        if not is_gpu:
            return _CPU_CACHE
        return _GPU_L1 if subject == "L1" else _GPU_L2
    return (_GPU if is_gpu else _CPU).get(quantity, ())


def usable(laws: tuple[Law, ...], known: frozenset[str], varied: frozenset[str]) -> Iterator[Law]:
    """The laws in the columns that are ``known``, each once.

    A column that is known in no mode is taken to be the same in all of them and dropped. A sum
    of several terms must have a term more that varies for each: what does not change between
    the modes measured cannot be told from a constant.
    """
    seen: list[Law] = []
    for law in laws:
        kept = _without(law, known)
        is_sum = isinstance(kept, Sum) and len(kept.monomials) > 1
        if is_sum and any(m != ONE and not _varies(m, varied) for m in kept.monomials):
            continue
        if len(set(kept.monomials)) == len(kept.monomials) and kept not in seen:
            seen.append(kept)
            yield kept


def _without(law: Law, known: frozenset[str]) -> Law:
    kept = [
        Monomial(tuple(part for part in each.powers if part[0] in known)) for each in law.monomials
    ]
    if isinstance(law, Least):
        return replace(law, first=kept[0], second=kept[1])
    return Sum(tuple(kept), isinstance(law, Sum) and law.is_reciprocal)


def _varies(monomial: Monomial, varied: frozenset[str]) -> bool:
    return any(name in varied for name, _ in monomial.powers)


N_FOLDS = 8  # more modes are left out in groups: one by one costs the square of their number
_GOOD_ENOUGH = 0.01  # as well as ceilings are known: no law of more terms is looked for then
_BETTER = 0.9  # a law of more terms must bring the error below this share of a simpler one's

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Choice:
    """The law that was chosen, fitted on all modes; ``errors``: ln(predicted / true), left out."""

    law: Law
    fitted: Fitted
    errors: Array

    def predict(self, columns: Columns) -> tuple[Array, Array]:
        """The value in each mode, and the most that it might be; NaN: unknown, or no such end."""
        return self.fitted.predict(parts_of(self.law, columns))


def choose(laws: Sequence[Law], columns: Columns, values: Array) -> Choice | None:
    """The best of ``laws``, which come simplest first; None where none can be fitted.

    ``values`` are positive, one for each mode of ``columns``; no column of a law has a NaN.
    """
    if not len(values):
        return None
    tried = [_Tried(law, parts_of(law, columns), values, {}) for law in laws]
    everything = np.ones(len(values), dtype=np.bool_)
    best = _best(tried, everything)
    fitted = None if best is None else best.fit(everything)
    if best is None or fitted is None:
        return None
    found = [np.empty(0)]
    for left_out in folds(everything):
        inner = _best(tried, ~left_out) if len(tried) > 1 else best
        if inner is not None:
            found.append(inner.errors(~left_out, left_out))
    errors = np.concatenate(found)
    return Choice(best.law, fitted, errors[np.isfinite(errors)])


def folds(kept: Mask) -> Iterator[Mask]:
    """Which of the ``kept`` modes are left out together; none where there is but one."""
    members = np.flatnonzero(kept)
    n_folds = min(len(members), N_FOLDS)
    for fold in range(n_folds if len(members) > 1 else 0):
        left_out = np.zeros_like(kept)
        left_out[members[fold::n_folds]] = True
        yield left_out


@dataclass(frozen=True, eq=False)
class _Tried:
    """A law over the values of all modes; what is left out twice is fitted once."""

    law: Law
    parts: Array
    values: Array
    fits: dict[bytes, Fitted | None]

    def fit(self, kept: Mask) -> Fitted | None:
        """From the ``kept`` modes; None where they do not determine it."""
        key = kept.tobytes()
        if key not in self.fits:
            can_fit = kept.sum() >= self.law.n_least
            self.fits[key] = self.law.fit(self.parts[kept], self.values[kept]) if can_fit else None
        return self.fits[key]

    def errors(self, kept: Mask, left_out: Mask) -> Array:
        """ln(predicted / true) of the modes left out; NaN where the law cannot be fitted."""
        fitted = self.fit(kept)
        if fitted is None:
            return np.full(int(left_out.sum()), np.nan)
        value, _ = fitted.predict(self.parts[left_out])
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Array = np.log(value / self.values[left_out])
        return found

    def score(self, kept: Mask) -> float:
        """Mean size of the errors of the ``kept`` modes, each left out; inf if one has none."""
        sizes = [np.abs(self.errors(kept & ~out, out)) for out in folds(kept)]
        mean = float(np.concatenate(sizes).mean()) if sizes else np.inf
        return mean if np.isfinite(mean) else np.inf


def _best(tried: Sequence[_Tried], kept: Mask) -> _Tried | None:
    """The law with the least error of leaving one of the ``kept`` modes out."""
    best, least, n_kept = None, np.inf, int(kept.sum())
    for each in tried:
        if each.fit(kept) is None:
            continue
        if best is None:
            best, least = each, each.score(kept)
        elif least > _GOOD_ENOUGH and n_kept > each.law.n_least:
            score = each.score(kept)
            if score < _BETTER * least:
                best, least = each, score
    return best


_KEY = ("quantity", "subject", "unit")
_NORMAL = 1.96  # half of an interval of 95 %, in standard deviations
_UNSAID = 0.05  # half width of a value without an interval: the widest tolerance of a plateau
_ONE_MODE = "only one mode has a value: the error of the law elsewhere is unknown"


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
        for part in _device_parts(
            *(f.filter(pl.col("device") == device) for f in (modes, coefficients, wanted))
        )
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=COEFFICIENT_SCHEMA)


def _device_parts(
    modes: pl.DataFrame, coefficients: pl.DataFrame, wanted: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    modes = modes.unique("mode", keep="first", maintain_order=True)
    is_gpu = modes["n_sms"].is_not_null().any() or modes["gpu_hz"].is_not_null().any()
    everywhere = columns_of(wanted)
    has_value = ((pl.col("value") > 0) & pl.col("value").is_finite()).fill_null(value=False)
    is_wanted = pl.col("mode").is_in(wanted["mode"].implode())
    coefficients = coefficients.with_columns(has_value=has_value, is_wanted=is_wanted)
    valued = coefficients.filter("has_value").join(modes, on="mode", maintain_order="left")
    by_key = valued.partition_by(_KEY, as_dict=True)
    for key, rows in coefficients.group_by(*_KEY, maintain_order=True):
        known = by_key.get(key, valued.clear())
        fit = _fit(known, str(key[0]), str(key[1]), is_gpu=bool(is_gpu))
        # Where there is no law, a mode that was measured in vain keeps its own reason.
        is_kept = pl.col("is_wanted") if fit is None else pl.col("is_wanted") & pl.col("has_value")
        kept = rows.filter(is_kept)
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
    complete = np.broadcast_to(complete, len(valued))
    rows = valued.filter(pl.Series(complete))
    columns = {name: values[complete] for name, values in columns.items()}
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
    without = pl.Series([f"unknown in this mode: its {each}" for each in lacking], dtype=pl.String)
    with_value = pl.lit(_ONE_MODE if fit.half is None else None, dtype=pl.String)
    return pl.when(pl.col("value").is_null()).then(without).otherwise(with_value).alias("reason")
