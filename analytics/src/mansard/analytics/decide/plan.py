"""Which modes to measure next: those that tell most, and those that may be the best.

Before anything is known the modes are a design: together they make the expected error of the
modes that are not measured as small as can be (an I-optimal design; A. C. Atkinson, A. N. Donev,
R. D. Tobias, Optimum Experimental Designs, 2007, chapter 10), with the weights of the terms of
``scaling.network_terms`` unknown. With measurements each mode counts by the expected improvement
of the objective plus the expected lessening of the error, both relative. A mode that was picked
counts as measured, with what is predicted there, for those after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decide.plan_candidates import plan_modes
from mansard.analytics.decide.plan_choice import Step, choose, exchange
from mansard.analytics.decide.plan_expecting import fitted_outlook, prior_outlook
from mansard.analytics.decide.plan_outlook import Outlook
from mansard.analytics.decide.plan_words import place_of, reason_of
from mansard.analytics.decide.records import Objective
from mansard.analytics.scaling.network_fit import NetworkFit, fit_networks
from mansard.analytics.scaling.network_terms import SETTINGS, setting_values
from mansard.core.errors import UsageError
from mansard.core.records import Record

MOST_PICKS = 1000
_NO_BEST = "no mode is measured yet whose objective is known and within the limit"


class Pick(Record, frozen=True, kw_only=True):
    """A mode to measure, and why.

    ``improvement``: expected relative improvement of the objective over the best measured mode.
    ``error_before`` and ``error_after``: expected relative error of the objective over all
    modes, before and after this one is measured.
    """

    device: str
    mode: str
    settings: dict[str, float]  # those that are known: Hz, counts, W
    reason: str
    improvement: float | None
    error_before: float
    error_after: float


class Plan(Record, frozen=True, kw_only=True):
    """Modes to measure, the most telling first. ``networks``: whose measurements were used."""

    picks: tuple[Pick, ...]
    minimise: str
    networks: tuple[str, ...]
    n_candidates: int
    n_measured: int
    notes: tuple[str, ...]


def plan_next(
    candidates: pl.DataFrame,
    observations: pl.DataFrame | None = None,
    *,
    n: int = 10,
    minimise: Objective = "energy",
    max_latency_s: float | None = None,
    measured: pl.DataFrame | None = None,
) -> Plan:
    """The ``n`` modes of ``candidates`` (MODE_SCHEMA, one device) to measure next.

    ``observations``: OBSERVATION_SCHEMA rows of networks on that device. ``measured``: MODE_SCHEMA
    of modes that were measured, whether a network ran in them or not. Neither is picked again.
    The same rows give the same plan, whatever their order. Raises UsageError.
    """
    _check(n, max_latency_s)
    known = plan_modes(candidates, measured)
    modes = known.modes
    fits = () if observations is None else fit_networks(_as_device(observations, modes), modes)
    taken = known.measured.union(*(fit.measured.get_column("mode").to_list() for fit in fits))
    is_taken = modes.get_column("mode").is_in(sorted(taken)).to_numpy()
    outlooks, notes = _outlooks(fits, modes, minimise, max_latency_s, is_taken)
    free = np.flatnonzero(~is_taken)
    if n > free.size:
        notes = (*notes, f"{free.size} of {modes.height} modes are left to measure")
    steps = choose(outlooks, free, min(n, free.size))
    if all(outlook.mean is None for outlook in outlooks):
        if max_latency_s is not None:
            notes = (*notes, "the limit on time has no say yet: no time can be predicted")
        design = exchange(outlooks, free, [step.at for step in steps])
        steps = choose(outlooks, design, design.size)
    return Plan(
        picks=tuple(_pick(modes, step, minimise) for step in steps),
        minimise=minimise,
        networks=tuple(dict.fromkeys(fit.network for fit in fits)),
        n_candidates=modes.height,
        n_measured=int(is_taken.sum()),
        notes=(*known.notes, *dict.fromkeys(note for fit in fits for note in fit.notes), *notes),
    )


def _check(n: int, max_latency_s: float | None) -> None:
    if not 1 <= n <= MOST_PICKS:
        raise UsageError(f"cannot plan {n} modes", fix=f"ask for 1 to {MOST_PICKS}")
    if max_latency_s is not None and not 0 < max_latency_s < math.inf:
        raise UsageError(f"no time is at most {max_latency_s} s", fix="give a positive limit")


def _as_device(observations: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    """The observations under the name that the modes give their device."""
    return observations.with_columns(pl.lit(modes.get_column("device")[0]).alias("device"))


def _outlooks(
    fits: Sequence[NetworkFit],
    modes: pl.DataFrame,
    minimise: Objective,
    max_latency_s: float | None,
    is_taken: NDArray[np.bool_],
) -> tuple[tuple[Outlook, ...], tuple[str, ...]]:
    values = setting_values(modes)
    index = {mode: at for at, mode in enumerate(modes.get_column("mode").to_list())}
    found: list[Outlook] = []
    blind: dict[str, list[str]] = {}  # reason -> networks whose objective cannot be predicted
    for fit in fits:
        at = np.array([index[mode] for mode in fit.measured.get_column("mode").to_list()], int)
        outlook = fitted_outlook(fit, values, minimise, at, max_latency_s)
        if outlook is None:
            blind.setdefault(fit.time_reason or fit.power_reason, []).append(fit.network)
        else:
            found.append(outlook)
    notes = tuple(
        f"{minimise} of {', '.join(dict.fromkeys(networks))} cannot be predicted: {reason}"
        for reason, networks in blind.items()
    )
    return tuple(found) or (prior_outlook(values, minimise, is_taken),), notes


def _pick(modes: pl.DataFrame, step: Step, minimise: Objective) -> Pick:
    row = modes.row(step.at, named=True)
    return Pick(
        device=row["device"],
        mode=row["mode"],
        settings={name: float(row[name]) for name in SETTINGS if row[name] is not None},
        reason=reason_of(step, place_of(modes, step.at), minimise),
        improvement=step.improvement,
        error_before=step.error_before,
        error_after=step.error_after,
        unknown={} if step.improvement is not None else {"improvement": _NO_BEST},
    )
