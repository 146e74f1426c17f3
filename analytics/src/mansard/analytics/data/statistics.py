"""Pooled measurements of one network in one mode, with their uncertainty.

Quantiles of Student's distribution are made without SciPy, which takes long to import.

The value is the median of k rows. Times and powers err by a share, so errors are of logarithms. The
variance of one row is taken from the rows and from what runs scatter by anyhow:

    s² = (ν (d² + w²) + Σ (ln x − mean ln x)²) / (ν + k − 1),   half width t(ν + k − 1) · s √(c / k)

with d the scatter between runs of other networks, which counts as ν rows, w² the mean square of the
deviations that the rows have of their own repetitions, and c = π/2 for a median of three and more,
which is its variance over that of a mean for many rows, and no less than for few. The repetitions
of one run share its temperature, clocks and memory: they never tell how far the next run is off
(docs/understand/prediction.md). Here is also what tells two values with intervals from each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import polars as pl

# Standard deviations of the logarithm between runs of one network in one mode, as recorded.
RUN_LATENCY = 0.012
RUN_POWER = 0.008
_RUN_ROWS = 4  # as many rows the recorded scatter counts: networks differ in theirs; a choice
_MOST_BLOCKS = 10
_SCATTERS = (("latency_s", RUN_LATENCY), ("power_w", RUN_POWER))


def pool_repeats(observations: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """One row for each group of ``observations`` (OBSERVATION_SCHEMA) that is alike in ``by``.

    ``latency_s`` and ``power_w`` are medians of those that are positive numbers, null where there
    is none; ``latency_deviation`` and ``power_deviation`` the standard deviations of their
    logarithms, ``latency_half`` and ``power_half`` the half widths of 95 % intervals of these;
    ``latency_n`` and ``power_n`` how many rows they are of. ``energy_j``: as ``power_w``.
    ``reason``: the first.
    """
    import polars as pl

    columns = [column for name, scatter in _SCATTERS for column in _pooled(name, scatter)]
    energy = pl.col("energy_j").filter(_is_usable("energy_j")).median()
    reason = pl.col("reason").drop_nulls().first()
    pooled = observations.group_by(*by, maintain_order=True).agg(*columns, energy, reason)
    return pooled.with_columns(
        (pl.col(f"{name}_deviation") * _quantiles(pooled.get_column(f"{name}_n"))).alias(
            f"{name}_half"
        )
        for name in ("latency", "power")
    )


def _pooled(column: str, scatter: float) -> list[pl.Expr]:
    import polars as pl

    name = column.rpartition("_")[0]
    is_usable = _is_usable(column)
    usable = pl.col(column).filter(is_usable)
    logs = usable.log()
    within = pl.col(f"{name}_deviation").filter(is_usable).fill_null(0.0)
    n, n_prior = logs.len(), _RUN_ROWS
    squares = (logs - logs.mean()).pow(2).sum()
    variance = (n_prior * (scatter**2 + within.pow(2).mean()) + squares) / (n_prior + n - 1)
    of_median = pl.when(n > 2).then(math.pi / 2).otherwise(1.0) / n
    return [
        usable.median().alias(column),
        (variance * of_median).sqrt().alias(f"{name}_deviation"),
        n.alias(f"{name}_n"),
    ]


def _is_usable(column: str) -> pl.Expr:
    import polars as pl

    value = pl.col(column)
    return (value.is_finite() & (value > 0)).fill_null(value=False)


def _quantiles(n_rows: pl.Series) -> pl.Series:
    import polars as pl

    factors = {n: student_quantile(_RUN_ROWS + max(n, 1) - 1) for n in n_rows.unique().to_list()}
    return pl.Series([factors[n] for n in n_rows.to_list()], dtype=pl.Float64)


def single_half(scatter: float, deviation: float | None = None) -> float:
    """Half width of the 95 % interval of one row, of the logarithm, as ``pool_repeats`` gives it.

    ``deviation``: of its own repetitions, where they tell one.
    """
    return math.hypot(scatter, deviation or 0.0) * student_quantile(_RUN_ROWS)


def repetition_deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of the logarithm of the median of ``values``, in their order; positive.

    From the medians of at most ten blocks one after the other: repetitions near each other are
    alike. None of fewer than two values.
    """
    if len(values) < 2:
        return None
    blocks = np.array_split(np.asarray(values, dtype=np.float64), min(len(values), _MOST_BLOCKS))
    logs = np.log([float(np.median(block)) for block in blocks])
    return float(logs.std(ddof=1) / math.sqrt(len(logs)))


CONFIDENCE = 0.95


@cache
def student_quantile(n_free: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t with ``n_free`` degrees of freedom, within 1e-6.

    By its distribution (M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, 26.7.3
    and 26.7.4); from 100 on by its expansion in 1/n, 26.7.5.
    """
    if n_free >= 100:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        )
        return z + math.fsum(term / n_free**power for power, term in enumerate(terms, 1))
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / √n
    for _ in range(60):
        middle = (low + high) / 2
        is_less = _share_within(middle, n_free) < confidence
        low, high = (middle, high) if is_less else (low, middle)
    return math.sqrt(n_free) * math.tan(low)


def are_near(
    one: tuple[ArrayLike, ArrayLike, ArrayLike], other: tuple[ArrayLike, ArrayLike, ArrayLike]
) -> NDArray[np.bool_]:
    """Whether two values, each with the ends of its 95 % interval, do not differ clearly.

    The logarithm of their ratio is at most the root of the sum of the squares of the half intervals
    that face each other: errors are taken as independent. Scalars, or arrays that broadcast.
    """
    (value, low, high), (its, its_low, its_high) = (map(np.asarray, span) for span in (one, other))
    is_above = value >= its
    down = np.where(is_above, value / low, its / its_low)
    up = np.where(is_above, its_high / its, high / value)
    return np.asarray(np.abs(np.log(value / its)) <= np.hypot(np.log(down), np.log(up)))


def _share_within(angle: float, n_free: int) -> float:
    """The share of Student's distribution between ± √n · tan(angle)."""
    cosine = math.cos(angle)
    is_odd = n_free % 2 == 1
    term, total = cosine if is_odd else 1.0, 0.0
    for power in range(int(is_odd), n_free - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total
