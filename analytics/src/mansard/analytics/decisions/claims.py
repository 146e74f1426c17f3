"""What may be said of a choice: only what the rows that it was chosen from bear out.

"Uses the least energy" is true of the rows that were compared, as far as they are known. Where
another one may need less, or was left out of the comparison, the claim names those that it is of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mansard.analytics.decisions.limits import Mask, Screen
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.values import Array, ValueBand, Values

Certainty = Literal["is", "predicted", "may"]
_ROUNDING = 1e-12  # of a value: less is no difference


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A superlative, and of which modes it holds.

    ``is_measured``, ``is_beyond_bounds``: of those that were measured, or are known by more than
    bounds, alone. ``is_counted``: not by the values themselves, but with their uncertainty.
    ``is_only``: there is no other such mode. ``known``: what is not known of others; ``limits``:
    whether those compared keep the ``n_limits`` limits, or are those known to; both empty where
    all are compared.
    """

    minimise: Objective
    certainty: Certainty
    noun: str
    is_measured: bool
    is_beyond_bounds: bool
    is_counted: bool
    is_only: bool
    known: Literal["", "energy", "power", "time"]
    limits: Literal["", "kept", "known"]
    n_limits: int


def find_claim(
    values: Values, screened: Screen, wanted: Wanted, at: int, among: Mask, noun: str
) -> Claim:
    """What may be said of row ``at``, which was chosen ``among`` these.

    ``noun``: "mode", or "candidate" where several are of one mode.
    """
    band = values.objective(wanted.minimise)
    others = among.copy()
    others[at] = False
    is_bounded = (band.interval == "bounds") | (band.interval == "roof")
    least, surely = _least(band), _surely(band)
    if band.is_ratio and band.interval[at] != "roof":
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
        known=_unknown(values, screened, wanted, band),
        limits=_limits(values, screened, among),
        n_limits=len(screened.limits),
    )


def _least(band: ValueBand) -> Array:
    """The least that each may be; a power at a roof is taken as it is."""
    is_ratio = (band.interval == "roof") & band.is_ratio
    return np.where(is_ratio, band.value, band.ends()[0])


def _surely(band: ValueBand) -> Array:
    """What others have to be below to be less: the value, of bounds the upper end."""
    return np.where(
        band.interval == "bounds",
        band.ends()[1],
        np.where(band.interval == "roof", _least(band), band.value),
    )


def _unknown(
    values: Values, screened: Screen, wanted: Wanted, band: ValueBand
) -> Literal["", "energy", "power", "time"]:
    """What is not known of some that may keep the limits; empty where nothing is."""
    if (np.isnan(band.value) & ~screened.is_broken).any():
        return "power" if wanted.minimise == "power" else "energy"
    return "time" if values.n_timeless and not screened.limits else ""


def _limits(values: Values, screened: Screen, kept: Mask) -> Literal["", "kept", "known"]:
    """Which limits the compared ones keep; empty where all rows do, or none is asked for."""
    is_all = kept.all() and not values.n_timeless
    if not screened.limits or is_all:
        return ""
    is_known = not values.n_timeless and screened.is_broken[~screened.is_kept].all()
    return "kept" if is_known else "known"
