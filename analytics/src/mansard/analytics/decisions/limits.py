"""Whether each candidate keeps each limit: kept, broken, or unknown.

If no mode keeps them: the nearest ones, and which limit would have to be loosened.

A limit on the drop of accuracy selects precisions before anything is compared: the drop depends on
the network and its precision, not on the mode or the batch. It is relative to fp32, and has to hold
with ``Wanted.probability``, as other limits do. Precisions whose drop is unknown are left out.

Also what an answer is missing, and why: quantities, and modes without a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.accuracies import REFERENCE, NetworkAccuracy
from mansard.analytics.decisions.records import (
    Candidate,
    Holds,
    LimitCheck,
    Quantity,
    Relaxation,
    Wanted,
)
from mansard.analytics.decisions.roof_times import expected_span_s
from mansard.analytics.decisions.values import (
    BOUNDS_Z,
    BROKEN,
    KEPT,
    NO_INTERVAL,
    UNKNOWN,
    Array,
    ValueBand,
    Values,
    probability_at_most,
)
from mansard.core.errors import UsageError
from mansard.core.units import Interval

_NO_ROW = "no measurement gives it"


def unknown_modes(
    predictions: pl.DataFrame, modes: Sequence[str], batches: Sequence[int] | None = None
) -> dict[str, str]:
    """Those of ``modes`` in which no row of ``predictions`` has a time, with the reason.

    ``predictions``: PREDICTION_SCHEMA of one network on one device; ``batches``: those to choose
    from, None for any.
    """
    rows = predictions
    if batches is not None:
        rows = rows.filter(pl.col("batch").fill_null(1).is_in(list(batches)))
    has_time = pl.col("latency_s").is_finite() & (pl.col("latency_s") > 0)
    known = set(rows.filter(has_time.fill_null(value=False))["mode"].to_list())
    said = dict(rows.filter(pl.col("reason").is_not_null()).select("mode", "reason").iter_rows())
    missing = (mode for mode in dict.fromkeys(modes) if mode not in known)
    return {mode: said.get(mode, _NO_ROW) for mode in missing}


def why_missing(values: Values, rows: Mask) -> str:
    """The most frequent reason of ``rows``; empty if no row has one."""
    reasons = values.frame["reason"].to_list()
    said = [reasons[at] for at in np.flatnonzero(rows) if reasons[at]]
    return max(sorted(set(said)), key=said.count) if said else ""


def missing_quantity(values: Values, screened: Screen, wanted: Wanted, rows: Mask) -> str:
    """The quantity that ``rows`` need to be compared: "power", "energy", or both."""
    limited = {quantity for quantity, _ in screened.limits}
    lacks = []
    for name, band in (("energy", values.energy), ("power", values.power)):
        is_used = name in limited or wanted.minimise in (name, "edp" if name == "energy" else name)
        if is_used and np.isnan(band.value[rows]).any():
            lacks.append(name)
    return " and ".join(lacks) or wanted.minimise


def without_energy(predictions: pl.DataFrame, whys: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    """PREDICTION_SCHEMA without the energies and powers that are impossible.

    ``whys``: the reason by device and network.
    """
    for (device, network), why in whys.items():
        is_it = (pl.col("device") == device) & (pl.col("network") == network)
        lost = [name for name in predictions.columns if name.startswith(("energy_", "power_"))]
        predictions = predictions.with_columns(
            *(pl.when(~is_it).then(pl.col(name)).alias(name) for name in lost),
            reason=pl.when(is_it).then(pl.lit(why)).otherwise("reason"),
        )
    return predictions


Accuracies = Mapping[str, NetworkAccuracy]  # of one network on one device, by precision


@dataclass(frozen=True)
class DropScreen:
    """The precisions of a network compared with a limit on the drop of its accuracy.

    ``left_out``: precisions whose drop does not keep the limit ``most`` with ``probability``, and
    what is known of their accuracy. ``is_partial``: some rows have no precision, so the limit does
    not apply to them.
    """

    network: str
    most: float
    probability: float
    left_out: Mapping[str, NetworkAccuracy | None]
    is_partial: bool


def without_drops(
    predictions: pl.DataFrame, wanted: Wanted, known: Accuracies
) -> tuple[pl.DataFrame, DropScreen | None]:
    """``predictions`` of one network and device without the precisions that may lose too much.

    None without a limit. Programs, which have no precision, stay. Raises UsageError unless the
    limit is between 0 and 1.
    """
    most = wanted.max_drop
    if most is None:
        return predictions, None
    if not (math.isfinite(most) and 0 <= most < 1):
        raise UsageError(
            f"a limit on the drop of accuracy cannot be {most:g}", fix="give 1%, or 0.01"
        )
    precisions = predictions["precision"].drop_nulls().unique().sort().to_list()
    left_out = {
        precision: known.get(precision)
        for precision in precisions
        if not _keeps_drop(precision, most, wanted.probability, known.get(precision))
    }
    is_allowed = pl.col("precision").is_null() | ~pl.col("precision").is_in(list(left_out))
    network = "" if predictions.is_empty() else str(predictions["network"][0])
    is_partial = predictions["precision"].null_count() > 0
    drops = DropScreen(network, most, wanted.probability, left_out, is_partial)
    return predictions.filter(is_allowed), drops


def _keeps_drop(
    precision: str, most: float, probability: float, known: NetworkAccuracy | None
) -> bool:
    """Whether the drop of a precision is at most ``most`` with ``probability``."""
    if precision == REFERENCE:
        return True
    if known is None or known.drop is None:
        return False
    return known.drop.probability_at_most(most) >= probability


Mask = NDArray[np.bool_]
_ROUNDING = 1e-9  # 1 / (1 / x) need not be x


@dataclass(frozen=True, eq=False)
class Screen:
    """Every row of Values compared with every limit; ``excess`` and ``holds`` are limits × rows.

    ``excess``: the share by which the value breaks a limit, NaN where it is unknown; ``holds``:
    KEPT, BROKEN or UNKNOWN, at the requested probability. ``is_known``: every limited quantity has
    a value; ``is_kept``: every limit is kept; ``is_broken``: at least one is broken; ``may_be``:
    the interval does not exclude that every limit is kept; ``is_ample``: every limit is kept, of
    those known by their roofs even at the longest time of ``expected_span_s``. ``margin``: the
    smallest distance to a limit, in standard deviations of the value's logarithm; negative if the
    value breaks it.
    """

    limits: tuple[tuple[Quantity, float], ...]
    excess: Array
    holds: NDArray[np.int8]
    is_known: Mask
    is_kept: Mask
    is_broken: Mask
    may_be: Mask
    is_ample: Mask
    margin: Array


def limits_of(wanted: Wanted) -> tuple[tuple[Quantity, float], ...]:
    """The requested limits; raises UsageError for one that is not a positive number."""
    given: tuple[tuple[Quantity, float | None], ...] = (
        ("latency", wanted.max_latency_s),
        ("power", wanted.max_power_w),
        ("energy", wanted.max_energy_j),
        ("rate", wanted.min_fps),
    )
    limits = tuple((quantity, limit) for quantity, limit in given if limit is not None)
    for quantity, limit in limits:
        if not (math.isfinite(limit) and limit > 0):
            raise UsageError(
                f"a limit on {quantity} cannot be {limit:g}", fix="give a number above 0"
            )
    if not 0 < wanted.probability < 1:
        raise UsageError(
            f"a limit cannot hold with probability {wanted.probability}",
            fix="give one between 0 and 1, such as 0.9",
        )
    return limits


def screen(values: Values, wanted: Wanted, *, has_ratios: bool = False) -> Screen:
    """Compare every row with every limit; raises UsageError as ``limits_of``.

    ``has_ratios``: ratios of real times to such roofs are recorded.
    """
    limits = limits_of(wanted)
    excess = np.zeros((len(limits), len(values)))
    holds = np.full(excess.shape, KEPT, dtype=np.int8)
    may_be = np.ones(len(values), dtype=np.bool_)
    is_ample = np.ones(len(values), dtype=np.bool_)
    margin = np.full(len(values), np.inf)
    for row, (quantity, limit) in enumerate(limits):
        band, bound = values.of(quantity), upper_bound(quantity, limit)
        excess[row] = np.where(band.value <= bound, 0.0, band.value / bound - 1.0)
        holds[row] = band.holds(bound, wanted.probability)
        may_be &= (band.ends()[0] <= bound) | (band.is_power & (band.interval == "roof"))
        keeps = holds[row] == KEPT
        if has_ratios:
            keeps = keeps | _keeps_at_slowest(values, quantity, bound)
        is_ample &= keeps
        margin = np.fmin(margin, _margin(band, bound))
    is_known: Mask = np.logical_not(np.isnan(excess).any(axis=0))
    is_broken: Mask = (holds == BROKEN).any(axis=0)
    is_kept: Mask = (holds == KEPT).all(axis=0)
    may_be &= is_known
    return Screen(
        limits, excess, holds, is_known, is_kept, is_broken, may_be, is_ample & is_known, margin
    )


def _keeps_at_slowest(values: Values, quantity: Quantity, bound: float) -> Mask:
    """Which rows are known by their roofs, and keep a limit of time at their slowest."""
    if quantity not in ("latency", "rate"):  # the only ones with recorded ratios
        return np.zeros(len(values), dtype=np.bool_)
    roof_s = values.latency.value
    slowest = values.of(quantity).value * expected_span_s(roof_s)[1] / roof_s
    return np.asarray((values.latency.interval == "roof") & (slowest <= bound))


def _margin(band: ValueBand, bound: float) -> Array:
    """Distance from each value up to ``bound`` in standard deviations; infinite if that is 0.

    With a probability it is the standard deviation on the side of the bound. The
    standard deviation of a roof, and of a value without an interval, is a factor of LEAST_KNOWN.
    """
    is_bare = (band.interval == "roof") | (band.interval == "")
    low, high = band.ends()
    side = np.abs(np.log(np.where(band.value <= bound, high, low) / band.value))
    deviation = np.where(band.has_chance, side / band.ends_z, band.deviation())
    deviation = np.where(is_bare, math.log(LEAST_KNOWN), deviation)
    distance = np.log(bound / band.value)
    endless = np.where(distance >= 0, np.inf, -np.inf)
    margin: Array = np.divide(distance, deviation, out=endless, where=deviation > 0)
    return margin


LEAST_KNOWN = 4.0  # measured times of networks are 0.65 to 16 times the roof's


def check_limits(candidate: Candidate, wanted: Wanted) -> tuple[LimitCheck, ...]:
    """Each limit compared with the predicted value of ``candidate``."""
    return tuple(
        _check(candidate, quantity, limit, wanted) for quantity, limit in limits_of(wanted)
    )


def upper_bound(quantity: Quantity, limit: float) -> float:
    """The upper bound of ``Values.of(quantity)``, with a tolerance for rounding."""
    # The reciprocal of a minimum rate is the maximum time of one item.
    bound = 1.0 / limit if quantity == "rate" else limit
    return bound * (1.0 + _ROUNDING)


def _check(candidate: Candidate, quantity: Quantity, limit: float, wanted: Wanted) -> LimitCheck:
    interval = interval_of(candidate, quantity)
    if interval is None:
        reason = candidate.unknown[f"{quantity}_{'w' if quantity == 'power' else 'j'}"]
        unknown = dict.fromkeys(("value", "excess", "probability"), reason)
        return LimitCheck(
            quantity=quantity, limit=limit, value=None, excess=None, holds="unknown",
            probability=None, unknown=unknown,
        )  # fmt: skip
    value, low, high = interval.value, interval.low, interval.high
    bound, kind = upper_bound(quantity, limit), candidate.certainty or ""
    low_end, high_end = (np.array([math.nan if end is None else end]) for end in (low, high))
    is_power = quantity == "power"
    fitted_z = BOUNDS_Z.get(quantity, BOUNDS_Z["latency"])
    bounds_z = fitted_z if candidate.interval == "bounds" and candidate.is_calibrated else math.nan
    band = ValueBand(np.array([value]), low_end, high_end, np.array([kind]), is_power, bounds_z)
    probability = probability_at_most(value, low, high, bound, float(band.ends_z[0]))
    return LimitCheck(
        quantity=quantity,
        limit=limit,
        value=candidate.fps if quantity == "rate" else value,
        excess=max(0.0, value / bound - 1.0),
        holds=_HOLDS[int(band.holds(bound, wanted.probability)[0])],
        probability=probability,
        unknown={}
        if probability is not None
        else {"probability": _NO_CHANCE.get(kind, NO_INTERVAL)},
    )


_HOLDS: dict[int, Holds] = {KEPT: "kept", UNKNOWN: "unknown", BROKEN: "broken"}
_NO_CHANCE = {
    "bounds": "only its bounds are known",
    "roof": "no measurement yet: real values may be several times higher",
}


def interval_of(candidate: Candidate, quantity: Quantity) -> Interval | None:
    """The value that a limit bounds, for a rate the seconds of one item; None: it is unknown."""
    of, kind = candidate, candidate.interval
    if quantity == "power":
        value, low, high = of.power_w, of.power_low_w, of.power_high_w
    elif quantity == "energy":
        value, low, high = of.energy_j, of.energy_low_j, of.energy_high_j
    else:
        value, low, high = of.latency_s, of.latency_low_s, of.latency_high_s
    if value is None:
        return None
    interval = Interval(value, low, high, kind)
    return interval.over(of.batch) if quantity == "rate" else interval


_SHOWN = 8


def find_nearest(values: Values, screened: Screen, wanted: Wanted, among: Mask) -> tuple[int, ...]:
    """The rows that break the limits least, the best first, by the product of their excesses.

    With limits a and b that is max(1, x / a) · max(1, y / b): a mode that breaks one limit a little
    less and the other one much more is not nearer. Bounds count by their upper ends. Ties are
    broken by the objective, then by name. Rows with an unknown quantity that is limited come last,
    ordered by their other quantities.
    """
    rows = np.flatnonzero(among)
    total = np.nan_to_num(_total_excess(values, screened)[1][rows], nan=0.0)
    objective = np.nan_to_num(values.objective(wanted.minimise).value[rows], nan=np.inf)
    order = np.lexsort((rows, objective, total, ~screened.is_known[rows]))
    return tuple(int(row) for row in rows[order[: None if wanted.lists_all else _SHOWN]])


Nearness = Literal["sure", "known", "bounds", "roof"]


def nearness(values: Values, screened: Screen, at: int, among: Mask) -> Nearness:
    """How certain it is that row ``at`` is the one of ``among`` that breaks the limits least.

    "sure": certain; "known": judging by the known values; "bounds": the intervals allow it;
    "roof": judging by the roofs alone.
    """
    least, most = _total_excess(values, screened)
    others = among.copy()
    others[at] = False
    if values.latency.interval[at] == "roof":
        return "roof" if others.any() else "sure"
    if screened.is_known[at] and (least[others] >= most[at] * (1 - _ROUNDING)).all():
        return "sure"
    return "bounds" if values.latency.interval[at] == "bounds" else "known"


def _total_excess(values: Values, screened: Screen) -> tuple[Array, Array]:
    """ln of the product of each row's values over the limits that it breaks, at least and at most.

    The two differ only for bounds. Roofs count by their values, by which modes are compared there.
    """
    ends = []
    for quantity, limit in screened.limits:
        band, bound = values.of(quantity), upper_bound(quantity, limit)
        is_bounded = band.interval == "bounds"
        both = (np.where(is_bounded, end, band.value) for end in band.ends())
        ends.append([np.log(np.maximum(1.0, end / bound)) for end in both])
    # An unknown quantity counts as breaking no limit.
    total = np.nan_to_num(np.array(ends), nan=0.0).sum(axis=0)
    return total[0], total[1]


def find_relaxations(
    values: Values, screened: Screen, wanted: Wanted, among: Mask
) -> tuple[Relaxation, ...]:
    """For each limit: the value to which it alone would have to be loosened, if that is enough.

    Of the rows that keep all other limits, it is the least value that one of them keeps with the
    required probability. A roof, or a value without an interval, keeps no limit, however loose.
    """
    relaxations = []
    for number, (quantity, present) in enumerate(screened.limits):
        others = np.delete(screened.holds, number, axis=0)
        band = values.of(quantity)
        can_keep = (band.interval == "spread") | (band.interval == "bounds")
        rows = np.flatnonzero(among & can_keep & (others == KEPT).all(axis=0))
        if not len(rows):
            continue
        quantile = band.quantile(max(wanted.probability, 0.5))
        at = int(rows[np.lexsort((rows, quantile[rows]))[0]])
        limit = float(quantile[at])
        relaxations.append(
            Relaxation(
                quantity=quantity,
                asked=present,
                limit=1.0 / limit if quantity == "rate" else limit,
                candidate=values.candidate(at),
            )
        )
    return tuple(relaxations)
