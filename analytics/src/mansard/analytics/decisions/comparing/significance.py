"""Whether two recordings differ by more than their scatter and by more than matters.

Samples that follow each other are alike: a recording of times of one engine has a correlation of
0.65 over 100 samples. So a recording counts as many independent samples as its autocorrelation
leaves. It is cut into at most 16 stretches of equal length; xᵢ are the logarithms of their
medians. With ρ their lag-1 autocorrelation, corrected for its bias in a short series by
ρ̂ + (1 + 3ρ̂)/n (M. G. Kendall, Biometrika 41, 1954), an autoregressive series of order 1 has the
integrated autocorrelation time τ = (1 + ρ)/(1 − ρ), and n/τ independent samples. The variance of
its mean is then s²/(n/τ − 1) with n/τ − 1 degrees of freedom, s² the mean square of xᵢ − x̄
(A. D. Sokal, Monte Carlo methods in statistical mechanics, 1997, sections 2 and 3).

A recording shorter than τ cannot tell its τ. The slowest that noise can be is a random walk. Means
of two adjacent stretches of one differ with a variance of 4·s² (2/3 of its own over a stretch, and
s² is 1/6 of that), and s² has (1/6)²/(1/90) = 2.5 degrees of freedom, the sum and the sum of
squares of 1/(kπ)². So n/τ is taken to be at least 1.5, the degrees of freedom at least 2.5.

d = ln(second/first) is compared with Student's t of Welch's degrees of freedom. The hypothesis is
|d| ≤ Δ = ln(1 + threshold); its p is P(T ≥ (|d| − Δ)/s) + P(T ≥ (|d| + Δ)/s) (J. L. Hodges, E. L.
Lehmann, Journal of the Royal Statistical Society B 16, 1954).

Of several runs of the same thing the run is the sample: with yᵢ their levels, n₁ and n₂ of them,
the variance of the difference of means is s²(1/n₁ + 1/n₂), s² the pooled variance of y with
n₁ + n₂ − 2 degrees of freedom, and no less than what scatter within the runs makes it. Of one run a
side it sees the scatter within the recordings alone: a machine that was slower during a whole run
differs significantly.

A limit λ = ln(1 ± allowed) is tested from one side: P(T ≥ (d − λ)/s) is the p of a level that keeps
it. The repetitions that would settle it are the fewest n′ > n with

    |d − λ| ≥ (t(1 − α, f′) + t(0.8, f′)) · s √(n/n′)

so that four of five would, were d the true difference (J. M. Lachin, Controlled Clinical Trials 2,
1981, with Student's quantiles). α is 5 %; where d exceeds λ it is 2 % over the number of tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from mansard.analytics.decisions.values import Z95, Array

N_STRETCHES = 16
FEWEST_STRETCHES = 4  # of a side
THRESHOLD = 0.01  # a smaller share does not matter, unless the user says so
LEVEL = 0.05
WORSE_LEVEL = 0.02  # of a limit that is exceeded: an equal build is to be stopped rarely
_LEAST_INDEPENDENT, _LEAST_FREEDOM = 1.5, 2.5  # of a random walk
_MOST_CORRELATED = 0.999
_NORMAL = 1e12  # degrees of freedom with which Student's distribution is the normal one
_POWER = 0.8  # of a comparison that is to be settled
_MOST_TIMES = 10_000  # the repetitions: where that is too few, the level is at the limit
_ROUNDING = 1e-12
_STEP = 1.05  # of numbers of repetitions that are tried
Stratum = tuple[Array, Array]
Recording = Mapping[str, Array]  # of one run: what was seen of each experiment, above 0, in order
Span = tuple[float, float | None, float | None]  # value, low, high


@dataclass(frozen=True)
class Centre:
    """The logarithm of a level, with its standard error and its degrees of freedom."""

    log: float
    deviation: float
    freedom: float

    @property
    def half(self) -> float:
        """Half the width of its 95 % interval; e^100, which is nothing known, at most."""
        return min(float(stdtrit(self.freedom, 0.975)) * self.deviation, 100.0)


def find_centre(values: Array) -> Centre | None:
    """The level of a recording, above 0 and in the order of time; None for fewer than two values.

    The level is the median of the medians of stretches.
    """
    if len(values) < 2:
        return None
    parts = np.array_split(values, min(N_STRETCHES, len(values)))
    logs = np.log([float(np.median(part)) for part in parts])
    n, away = len(logs), logs - logs.mean()
    squares = float(away @ away)
    # Rounding alone is no scatter: equal values are equal.
    is_flat = squares <= 1e-24 * n * max(1.0, float(logs[0] ** 2))
    lag = 0.0 if is_flat else float(away[:-1] @ away[1:]) / squares
    rho = min(max(lag + (1 + 3 * lag) / n, 0.0), _MOST_CORRELATED)
    independent = max(n * (1 - rho) / (1 + rho), _LEAST_INDEPENDENT)
    return Centre(
        log=float(np.median(logs)),
        deviation=0.0 if is_flat else math.sqrt(squares / n / (independent - 1)),
        freedom=min(n - 1, max(independent - 1, _LEAST_FREEDOM)),
    )


def find_shift(strata: Sequence[Stratum]) -> Centre | None:
    """ln(second / first), the mean over strata; None for fewer than FEWEST_STRETCHES a side.

    A stratum holds the recordings of one experiment on both sides. Variances of strata add up;
    degrees of freedom are those of Welch and Satterthwaite.
    """
    pairs = [
        (ours, theirs)
        for first, second in strata
        if (ours := find_centre(first)) is not None and (theirs := find_centre(second)) is not None
    ]
    counts = [
        sum(min(len(side), N_STRETCHES) for side in sides) for sides in zip(*strata, strict=True)
    ]
    if not pairs or min(counts) < FEWEST_STRETCHES:
        return None
    variances = [(one.deviation**2, one.freedom) for pair in pairs for one in pair]
    total = sum(variance for variance, _ in variances)
    smaller = sum(variance**2 / freedom for variance, freedom in variances)
    return Centre(
        log=float(np.mean([theirs.log - ours.log for ours, theirs in pairs])),
        deviation=math.sqrt(total) / len(pairs),
        freedom=total**2 / smaller if smaller > 0 else math.inf,
    )


def find_difference(first: Sequence[Recording], second: Sequence[Recording]) -> Centre | None:
    """ln(second / first) of the runs of two sides; None where its scatter is not known.

    Each side has a run at least. With one run a side the scatter is that within the runs, with
    several that between them. Experiments that all runs have are compared one by one; where there
    are none, all of a run is one.
    """
    runs = [*first, *second]
    common = [key for key in runs[0] if all(key in run for run in runs)]
    strata = [
        [run[key] for key in common] if common else [np.concatenate(list(run.values()))]
        for run in runs
    ]
    if len(runs) == 2:
        return find_shift(list(zip(*strata, strict=True)))
    levels = [run_level(parts) for parts in strata]
    sides = levels[: len(first)], levels[len(first) :]
    logs = [np.array([log for log, _ in side]) for side in sides]
    freedom = len(runs) - 2
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in logs)
    between = squares / freedom * sum(1 / len(side) for side in logs)
    within = sum(sum(variance for _, variance in side) / len(side) ** 2 for side in sides)
    return Centre(
        log=float(logs[1].mean() - logs[0].mean()),
        deviation=math.sqrt(max(between, within)),
        freedom=freedom,
    )


def run_level(parts: Sequence[Array]) -> tuple[float, float]:
    """The mean logarithm of the levels of one run's experiments, and its variance by the scatter
    within the run; 0 where no experiment has two values."""
    centres = [find_centre(values) for values in parts]
    logs = [
        math.log(float(values[0])) if centre is None else centre.log
        for centre, values in zip(centres, parts, strict=True)
    ]
    variances = [centre.deviation**2 for centre in centres if centre is not None]
    return float(np.mean(logs)), sum(variances) / len(parts) ** 2


def find_interval_difference(first: Span, second: Span) -> Centre | None:
    """ln(second / first) of two values by their 95 % intervals; None without one.

    The standard error is the root of the sum of the squares of the logarithmic half widths that
    face each other, over 1.96; the distribution is normal.
    """
    ratio = ratio_span(first, second)
    if ratio[1] is None or ratio[2] is None:
        return None
    end = ratio[1] if ratio[0] > 1 else ratio[2]
    return Centre(math.log(ratio[0]), abs(math.log(end / ratio[0])) / Z95, _NORMAL)


def shift_test(shift: Centre, threshold: float) -> float:
    """p that the levels differ by ``threshold`` (a share) at most."""
    distance, allowed = abs(shift.log), math.log1p(threshold)
    if shift.deviation == 0:
        return 1.0 if distance <= allowed + _ROUNDING else 0.0
    ends = [-(distance - allowed) / shift.deviation, -(distance + allowed) / shift.deviation]
    return float(sum(stdtr(shift.freedom, ends)))


def excess_test(shift: Centre, limit: float) -> float:
    """p that ``shift`` is at most ``limit``, a logarithm; 1 − p that it is at least ``limit``."""
    if shift.deviation == 0:
        return 1.0 if shift.log <= limit + _ROUNDING else 0.0
    return float(stdtr(shift.freedom, (limit - shift.log) / shift.deviation))


def needed_repetitions(
    shift: Centre, limit: float, n: float, freedom: Callable[[int], float], n_tests: int = 1
) -> int | None:
    """The repetitions a side, instead of ``n``, that would show on which side of ``limit`` it is.

    ``limit``: a logarithm. ``freedom``: the degrees of freedom of a number of repetitions.
    ``n_tests``: the tests that are corrected together. None where 10,000 times ``n`` are too few.
    """
    distance = abs(shift.log - limit)
    level = WORSE_LEVEL / n_tests if shift.log > limit else LEVEL
    count, most = float(n), n * _MOST_TIMES
    while count < most:
        count = max(count + 1, count * _STEP)
        quantiles = stdtrit(freedom(int(count)), [1 - level, _POWER])
        if distance >= float(sum(quantiles)) * shift.deviation * math.sqrt(n / int(count)):
            return int(count)
    return None


def ratio_span(first: Span, second: Span) -> Span:
    """second / first with its 95 % interval, the errors of both taken as independent.

    Logarithmic half widths add in squares. No interval where a side has none or reaches 0.
    """
    ratio = second[0] / first[0]
    ends = (first[1], first[2], second[1], second[2])
    if any(end is None or end <= 0 for end in ends):
        return ratio, None, None
    low_1, high_1, low_2, high_2 = (float(end) for end in ends if end is not None)
    down = math.hypot(math.log(second[0] / low_2), math.log(high_1 / first[0]))
    up = math.hypot(math.log(high_2 / second[0]), math.log(first[0] / low_1))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's correction for many tests, in the order given.

    The k-th smallest of n is multiplied by n - k + 1, never falls below the one before, and
    never exceeds 1 (S. Holm, Scandinavian Journal of Statistics 6, 1979).
    """
    corrected = [0.0] * len(ps)
    floor = 0.0
    for place, at in enumerate(sorted(range(len(ps)), key=lambda one: ps[one])):
        floor = max(floor, min(1.0, (len(ps) - place) * ps[at]))
        corrected[at] = floor
    return corrected
