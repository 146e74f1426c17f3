"""Which of the candidates that keep the limits to take, and which measurement would tell more.

Values are compared by what they cost with their uncertainty (``ValueBand.cost``), so that what
was measured is preferred to what is modelled unless the gain is greater. What lies outside the
measured modes is taken only for a gain that exceeds its uncertainty: of many modelled values the
one with the luckiest error looks best.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.limits import Mask, Screen
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.values import Array, ValueBand, Values

# How many standard deviations the gain of a mode outside the measured ones has to be. A choice:
# with half as much the regret on recorded boards is less yet (benchmarks/recorded/regret.py), but
# all of them are of three kinds of boards.
NEEDED_OUTSIDE = 1.0
_TIE = 1e-9  # standard deviations
_WORTH = 0.005  # an expected gain of less decides nothing


def choose(values: Values, wanted: Wanted, among: Mask) -> int:
    """The row of ``among``, at least one, to recommend; ties are decided as ``ranked`` does."""
    band = values.objective(wanted.minimise)
    among = without_roofs(values, among)
    inside = among & (values.is_measured | ~values.is_extrapolated)
    if inside.any():
        best = int(ranked(values, band.cost(), inside)[0])
        among = inside | (among & _gains(band, best))
    return int(ranked(values, band.cost(), among)[0])


def _gains(band: ValueBand, best: int) -> Mask:
    """Whose objective is below that of row ``best`` by more than both are uncertain."""
    deviation = band.deviation()
    gain = np.log(band.value[best] / band.value)
    return np.asarray(gain > NEEDED_OUTSIDE * np.hypot(deviation, deviation[best]))


def without_roofs(values: Values, among: Mask) -> Mask:
    """``among`` without what is a roof alone, where there is anything else: it is at best that."""
    known: Mask = among & (values.latency.interval != "roof")
    return known if known.any() else among


def ranked(values: Values, key: Array, among: Mask) -> NDArray[np.int64]:
    """Rows of ``among`` by ``key``, the least first.

    Ties go to the shorter time, then to less energy and power, then by name, which is the order
    of the rows.
    """
    rows = np.flatnonzero(among)
    keys = (values.power.value, values.energy.value, values.latency.value, key)
    order = np.lexsort([np.nan_to_num(each[rows], nan=np.inf) for each in keys])
    return rows[order].astype(np.int64)


def choose_likeliest(values: Values, screened: Screen, wanted: Wanted, among: Mask) -> int:
    """Of ``among``, which may keep the limits, the one that is farthest inside its nearest."""
    among = without_roofs(values, among)
    order = ranked(values, values.objective(wanted.minimise).cost(), among)
    return int(order[np.argmax(screened.margin[order])])


def is_likeliest(values: Values, screened: Screen, at: int, among: Mask) -> bool:
    """Whether no row ``among`` these keeps the only limit with a greater probability than ``at``.

    Of bounds, roofs and values without an interval there is none to compare.
    """
    if len(screened.limits) != 1:
        return False
    interval = values.of(screened.limits[0][0]).interval[among]
    margins = screened.margin[among]
    return bool((interval == "spread").all() and (margins <= screened.margin[at] + _TIE).all())


def best_measured(values: Values, screened: Screen, wanted: Wanted, among: Mask) -> int | None:
    """The best measured row: of those that keep the limits, else may, else of all; or None.

    By its value: none of them is modelled, and the least is told to be the best.
    """
    objective = values.objective(wanted.minimise)
    measured = among & values.is_measured
    for group in (screened.is_kept, ~screened.is_broken, np.ones_like(measured)):
        if (measured & group).any():
            return int(ranked(values, objective.value, measured & group)[0])
    return None


def find_decisive(
    values: Values, screened: Screen, wanted: Wanted, at: int, among: Mask
) -> int | None:
    """The row whose measurement would change the decision most; None if no measurement is worth it.

    ``at``: the choice. If the choice is known only by its roof, or may break a limit, it is the
    choice itself; if it was measured already, more repetitions narrow its interval. Otherwise it is
    the row with the largest expected regret, in natural logarithms of the objective. For another
    row the regret is the expected improvement over the choice (D. R. Jones, M. Schonlau,
    W. J. Welch, Efficient global optimization of expensive black-box functions, Journal of Global
    Optimization 13, 1998, eq. 15), times the probability that it keeps the limits. For a modelled
    choice it is the expected loss against the next best row. If no regret exceeds ``_WORTH``, a
    modelled choice is measured itself.
    """
    is_modelled = not values.is_measured[at]
    band = values.objective(wanted.minimise)
    is_open = among & _is_uncertain(band)
    if not screened.is_kept[at] or (is_modelled and not is_open[at]):
        return at
    others = among.copy()
    others[at] = False
    if not others.any():
        return at if is_modelled and screened.limits else None
    regret = np.zeros(len(values))
    unmeasured = others & is_open & ~values.is_measured & ~screened.is_broken
    gain = np.log(band.value[at] / band.value)
    deviation = band.deviation()
    within = _share_below(np.clip(screened.margin, -30, 30))
    regret[unmeasured] = (expected_gain(gain, deviation) * within)[unmeasured]
    if is_modelled:
        runner_up = int(ranked(values, band.cost(), without_roofs(values, others))[0])
        loss = np.log(band.value[at] / band.value[runner_up])
        regret[at] = expected_gain(np.array([loss]), deviation[[at]])[0]
    best = int(np.argmax(regret))
    if regret[best] <= _WORTH:
        return at if is_modelled else None
    return at if regret[at] == regret[best] else best


def _is_uncertain(band: ValueBand) -> Mask:
    return np.asarray((band.interval == "spread") | (band.interval == "bounds"))


def expected_gain(gain: Array, deviation: Array) -> Array:
    """E[max(0, G)] of a normal G of that mean and standard deviation."""
    deviation = np.maximum(deviation, 1e-9)
    z = np.clip(gain / deviation, -30, 30)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(gain * _share_below(z) + deviation * density)


def _share_below(z: Array) -> Array:
    return np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in z])
