"""Which of the candidates that keep the limits to recommend, and what to measure next.

Values are compared by a cost that grows with their uncertainty (``ValueBand.cost``), so a measured
value is preferred to a modelled one that is only slightly better. A mode outside the measured ones
is chosen only for a gain that exceeds its uncertainty: among many modelled values, the one with the
luckiest error looks best.

A claim is limited to the rows that were compared. Where another row may need less energy, or could
not be compared, the claim names the rows for which it is true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.limits import Mask, Screen
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.values import UNDECIDED, Array, ValueBand, Values

Certainty = Literal["is", "predicted", "may"]
_ROUNDING = 1e-12  # of a value: less is no difference


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A superlative, and the modes among which it is true.

    ``is_measured``: it holds among measured modes only; ``is_beyond_bounds``: only among those with
    more than bounds. ``is_counted``: it holds with uncertainty counted, not for the values alone.
    ``is_only``: there is no other such mode. ``missing``: a quantity that is unknown for modes that
    were not compared; empty if all were. ``limits``: "kept" if the compared modes are all that keep
    the ``n_limits`` limits, "known" if others might; empty if every mode was compared.
    """

    minimise: Objective
    certainty: Certainty
    noun: str
    is_measured: bool
    is_beyond_bounds: bool
    is_counted: bool
    is_only: bool
    missing: Literal["", "energy", "power", "time"]
    limits: Literal["", "kept", "known"]
    n_limits: int


def find_claim(
    values: Values, screened: Screen, wanted: Wanted, at: int, among: Mask, noun: str
) -> Claim:
    """The claim for row ``at``, which was chosen from the rows ``among``.

    ``noun``: "mode", or "candidate" where several are of one mode.
    """
    band = values.objective(wanted.minimise)
    others = among.copy()
    others[at] = False
    is_bounded = (band.interval == "bounds") | (band.interval == "roof")
    least, surely = _least(band), _surely(band)
    if band.is_power and band.interval[at] != "roof":
        least = np.where(band.interval == "roof", 0.0, least)  # a power there may be anything
    may_be_less = others & (least < surely[at] * (1 - _ROUNDING))
    is_measured = bool(values.is_measured[at]) and bool((may_be_less & ~values.is_measured).any())
    group = others & values.is_measured if is_measured else others
    is_beyond = not values.is_measured[at] and not is_bounded[at]
    is_beyond &= bool((may_be_less & is_bounded).any())
    group = group & ~is_bounded if is_beyond else group
    is_less = group & ~is_bounded & (band.value < band.value[at] * (1 - _ROUNDING))
    is_open = band.interval[at] == "bounds" and bool((group & may_be_less).any())
    is_sure = bool(values.is_measured[at]) or band.interval[at] == "roof"
    return Claim(
        minimise=wanted.minimise,
        certainty="is" if is_sure else "may" if is_open else "predicted",
        noun=noun,
        is_measured=is_measured,
        is_beyond_bounds=is_beyond,
        is_counted=not is_bounded[at] and bool(is_less.any()),
        is_only=not group.any(),
        missing=_missing_quantity(values, screened, wanted, band),
        limits=_limits(values, screened, among),
        n_limits=len(screened.limits),
    )


def _least(band: ValueBand) -> Array:
    """The lower end of each interval; at a roof its value, by which modes are compared there."""
    return np.where(band.interval == "roof", band.value, band.ends()[0])


def _surely(band: ValueBand) -> Array:
    """The threshold for another value to be less: upper ends of bounds, else the value."""
    return np.where(band.interval == "bounds", band.ends()[1], band.value)


def _missing_quantity(
    values: Values, screened: Screen, wanted: Wanted, band: ValueBand
) -> Literal["", "energy", "power", "time"]:
    """The quantity that is unknown for some rows that may keep the limits; empty for none."""
    if (np.isnan(band.value) & ~screened.is_broken).any():
        return "power" if wanted.minimise == "power" else "energy"
    return "time" if values.n_timeless and not screened.limits else ""


def _limits(values: Values, screened: Screen, feasible: Mask) -> Literal["", "kept", "known"]:
    """Whether the compared rows keep the limits; empty without limits, or if all rows keep them."""
    is_all = feasible.all() and not values.n_timeless
    if not screened.limits or is_all:
        return ""
    is_known = not values.n_timeless and screened.is_broken[~screened.is_kept].all()
    return "kept" if is_known else "known"


# How many standard deviations the gain of a mode outside the measured ones has to be; of recorded
# boards the regret is least about here (benchmarks/recorded/regret.py).
NEEDED_OUTSIDE = 0.5
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
    """The rows whose objective is below that of ``best`` by more than the uncertainty of both."""
    deviation = band.deviation()
    gain = np.log(band.value[best] / band.value)
    return np.asarray(gain > NEEDED_OUTSIDE * np.hypot(deviation, deviation[best]))


def without_roofs(values: Values, among: Mask) -> Mask:
    """``among`` without the rows that are known only by a roof, unless there are no others."""
    known: Mask = among & (values.latency.interval != "roof")
    return known if known.any() else among


def ranked(values: Values, key: Array, among: Mask) -> NDArray[np.int64]:
    """Rows of ``among`` by ``key``, the least first.

    Ties go to the shorter time, then to less energy and power, then by name, which is the order
    of the rows.
    """
    rows = np.flatnonzero(among)
    keys = (values.power.value, values.energy.value, values.latency.value, key)
    order = np.lexsort([np.nan_to_num(column[rows], nan=np.inf) for column in keys])
    return rows[order].astype(np.int64)


def choose_likeliest(values: Values, screened: Screen, wanted: Wanted, among: Mask) -> int:
    """The row of ``among`` with the greatest margin to its nearest limit.

    Of rows that keep the limits amply (``Screen.is_ample``) the one with the least objective: there
    a greater margin has no worth.
    """
    among = without_roofs(values, among)
    order = ranked(values, values.objective(wanted.minimise).cost(), among)
    ample = order[screened.is_ample[order]]
    return int(ample[0] if len(ample) else order[np.argmax(screened.margin[order])])


def is_likeliest(values: Values, screened: Screen, at: int, among: Mask) -> bool:
    """Whether no row of ``among`` keeps the only limit with a greater probability than ``at``.

    False with several limits, and where a row has no probability.
    """
    if len(screened.limits) != 1:
        return False
    has_chance = values.of(screened.limits[0][0]).has_chance[among]
    margins = screened.margin[among]
    return bool(has_chance.all() and (margins <= screened.margin[at] + _TIE).all())


def best_measured(values: Values, screened: Screen, wanted: Wanted, among: Mask) -> int | None:
    """The best measured row that keeps the limits, else that may keep them, else of all.

    None if no row is measured. Compared by value, without the penalty for uncertainty.
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

    ``at``: the choice. If it may break a limit, the answer is open, and it is the row that is
    expected to settle it best (``_find_settling``). If the choice is known only by its roof, it is
    the choice itself. Otherwise it is
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
    if not screened.is_kept[at]:
        return _find_settling(values, screened, wanted, at, among)
    if is_modelled and not is_open[at]:
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


def _find_settling(values: Values, screened: Screen, wanted: Wanted, at: int, among: Mask) -> int:
    """The row of ``among`` whose measurement has the largest expected gain of an open answer.

    That is the probability that it keeps the limits, which makes the answer definite, times the
    gain in the logarithm of the objective over an open answer. What was measured counts only where
    every row was: more repetitions narrow its interval. ``at``: the likeliest, of equal ones it.
    """
    unmeasured = among & ~values.is_measured
    rows = np.flatnonzero(unmeasured if unmeasured.any() else among)
    objective = np.log(values.objective(wanted.minimise).value)
    gain = UNDECIDED + np.max(objective[among]) - objective[rows]
    expected = _share_below(np.clip(screened.margin[rows], -30, 30)) * gain
    best = rows[expected >= expected.max() * (1 - _ROUNDING)]
    return at if at in best else int(best[0])


def _is_uncertain(band: ValueBand) -> Mask:
    return np.asarray((band.interval == "spread") | (band.interval == "bounds"))


def expected_gain(gain: Array, deviation: Array) -> Array:
    """E[max(0, G)] of a normal G of that mean and standard deviation."""
    deviation = np.maximum(deviation, 1e-9)
    z = np.clip(gain / deviation, -30, 30)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(gain * _share_below(z) + deviation * density)


def _share_below(z: Array) -> Array:
    return np.array([math.erfc(-score / math.sqrt(2)) / 2 for score in z])
