"""Which modes to measure next: those that tell most about the decision that is asked for.

Before DECIDABLE modes are measured, a designed set completes them to DESIGN_SIZE, with the weights
of the terms of time and power unknown. It minimises the expected error of the modes that are not
measured (an I-optimal design; A. C. Atkinson, A. N. Donev, R. D. Tobias, Optimum Experimental
Designs, 2007, chapter 10), and reaches both ends of every setting, so that the other modes lie
between.

Then a mode is scored by the expected lessening of the decision's regret: the expected improvement
of the objective over the best measured mode within the limits, times the chance that it keeps them;
where none is within the limits, what a definite answer is worth. The expected reduction of the
error of all modes counts a tenth of that. For later picks, a picked mode counts as measured, with
its predicted values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decisions.alternatives import find_lower_settings
from mansard.analytics.decisions.modes import SettingGap, comparable_modes
from mansard.analytics.decisions.outlook import (
    Outlook,
    fitted_outlook,
    predicted_networks,
    prior_outlook,
)
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.models.scaling.network_fit import NetworkFit, fit_networks
from mansard.analytics.models.scaling.network_terms import Array, setting_values, varying
from mansard.core.errors import UsageError
from mansard.core.hardware import LowerSetting
from mansard.core.records import Record

Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

DESIGN_SIZE = 4  # with fewer modes the laws of the clocks cannot be told apart
DECIDABLE = (
    2  # from so many measured modes on picks for the decision have less regret than a design
)
OF_THE_MODEL = 0.1  # weight of the model's error beside the decision's regret
_MOST_SWEEPS = 5  # of exchanges in a design; two are nearly always enough
_MOST_EXCHANGES = 200  # a larger set is good without exchanges
_DIGITS = 9  # of scores, so that ties are the same on every machine; the earlier mode wins
_SAME = 1e-6  # relative: a clock so close to an end is at the end


@dataclass(frozen=True)
class ChosenMode:
    """A mode to measure, by its index, and the expected effects; means over networks.

    ``improvement``: relative, None if no measured mode can be improved on. ``chance``: that it is
    the first mode within the limits, None if one was measured or there is no limit.
    """

    at: int
    improvement: float | None
    chance: float | None
    error_before: float
    error_after: float


def choose(outlook: Outlook, free: Indices, n: int) -> tuple[tuple[ChosenMode, ...], Outlook]:
    """The ``n`` best of the modes ``free``, best first, and the outlook after them.

    Each counts as measured for those after it.
    """
    steps: list[ChosenMode] = []
    is_open = _mask(free, outlook.start.size)
    for _ in range(n):
        at = _best(_score(outlook), is_open)
        after = outlook.measured(at)
        steps.append(
            ChosenMode(
                at=at,
                improvement=outlook.improvement_at(at),
                chance=outlook.chance_at(at),
                error_before=outlook.error(),
                error_after=after.error(),
            )
        )
        is_open[at], outlook = False, after
    return tuple(steps), outlook


def design(outlook: Outlook, ends: Mask, free: Indices, n: int) -> Indices:
    """The ``n`` of the modes ``free`` that are best as a set.

    ``ends``: see ``find_ends``, those that measured modes reach left out. Modes at the ends come
    before others until every end is reached; then each mode is tried against all others until
    none is better that reaches as many ends.
    """
    chosen: list[int] = []
    is_open = _mask(free, ends.shape[1])
    for _ in range(n):
        at = _best(_score(outlook), _furthest(ends, chosen, is_open))
        chosen.append(at)
        is_open[at] = False
        outlook = outlook.measured(at)
    for _ in range(min(_MOST_SWEEPS, _MOST_EXCHANGES // max(1, n))):
        before = tuple(chosen)
        for place, at in enumerate(before):
            others = [*chosen[:place], *chosen[place + 1 :]]
            without = outlook.unmeasured(at)
            is_open[at] = True
            score = _score(without)
            rival = _best(score, _furthest(ends, others, is_open))
            chosen[place] = rival if score[rival] > score[at] else at
            is_open[chosen[place]] = False
            outlook = without.measured(chosen[place])
        if tuple(chosen) == before:
            break
    return np.array(chosen, dtype=np.int64)


def find_ends(values: Mapping[str, Array], taken: Mask) -> Mask:
    """Ends × modes: which modes have a setting at its minimum, or at its maximum.

    An end that one of ``taken`` has is left out.
    """
    rows = []
    for name in varying(values):
        value = values[name]
        rows += [value <= value.min() * (1 + _SAME), value >= value.max() * (1 - _SAME)]
    ends = np.array(rows, dtype=bool).reshape(len(rows), taken.size)
    return np.asarray(ends[~ends[:, taken].any(axis=1)])


def _furthest(ends: Mask, chosen: Sequence[int], is_open: Mask) -> Mask:
    """The open modes that reach most of the ends which no chosen mode reaches."""
    missing = ends[~ends[:, list(chosen)].any(axis=1)]
    n_reached = np.where(is_open, missing.sum(axis=0), -1)
    return np.asarray(n_reached == n_reached.max())


def _best(score: Array, allowed: Mask) -> int:
    return int(np.where(allowed, score, -np.inf).argmax())


def _mask(indices: Indices, size: int) -> Mask:
    mask = np.zeros(size, dtype=bool)
    mask[indices] = True
    return mask


def _score(outlook: Outlook) -> Array:
    """The score of each mode: expected gain of the decision, and of the model a tenth."""
    score = outlook.improvement() + outlook.hope() + OF_THE_MODEL * outlook.information()
    return np.asarray(score.round(_DIGITS), dtype=np.float64)


MOST_PICKS = 1000


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
    """Modes to measure, the most telling first. ``networks``: whose measurements were used.

    ``n_designed``: the number of first picks that were chosen together, as the set that is most
    informative; the others were chosen one by one.
    """

    picks: tuple[Pick, ...]
    n_designed: int
    minimise: str
    networks: tuple[str, ...]
    n_candidates: int
    n_measured: int
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NextModes:
    """The modes to measure next: facts, which ``pages.words.next_modes`` puts in words.

    ``modes``: MODE_SCHEMA of all candidates. ``n_wanted``: how many were asked for, of ``n_free``
    that are not measured. ``unpredicted``: reasons why the objective cannot be predicted, with the
    networks. ``is_limit_unused``: the limits have no effect yet, as nothing is predicted.
    ``lower_settings``: of chosen modes of more nominal power that have less of a setting.
    """

    modes: pl.DataFrame
    steps: tuple[ChosenMode, ...]
    n_designed: int
    minimise: Objective
    networks: tuple[str, ...]
    n_wanted: int
    n_free: int
    n_measured: int
    gaps: tuple[SettingGap, ...]
    n_alike: int
    fit_notes: tuple[str, ...]
    unpredicted: Mapping[str, tuple[str, ...]]
    is_limit_unused: bool
    lower_settings: tuple[LowerSetting, ...]


ANY_MODE = Wanted()


def plan_next(
    candidates: pl.DataFrame,
    observations: pl.DataFrame | None = None,
    *,
    n: int = 10,
    wanted: Wanted = ANY_MODE,
    measured: pl.DataFrame | None = None,
) -> NextModes:
    """The ``n`` modes of ``candidates`` (MODE_SCHEMA, one device) to measure next.

    ``wanted``: the decision; its objective, and its limits on time and power. ``observations``:
    OBSERVATION_SCHEMA rows of networks on that device. ``measured``: MODE_SCHEMA of modes that were
    measured, whether a network ran in them or not. Neither is picked again.
    The same rows give the same plan, whatever their order. Raises UsageError.
    """
    _check(n, wanted)
    minimise = wanted.minimise
    known = comparable_modes(candidates, measured)
    modes = known.modes
    fits = () if observations is None else fit_networks(_as_device(observations, modes), modes)
    ran = {mode for fit in fits for mode in fit.measured.get_column("mode").to_list()}
    taken = known.measured.union(ran)
    is_taken = modes.get_column("mode").is_in(sorted(taken)).to_numpy()
    free = np.flatnonzero(~is_taken)
    unpredicted, outlook = _outlook(fits, modes, wanted, is_taken)
    n_taken, n_picked = int(is_taken.sum()), min(n, free.size)
    is_limited = wanted.max_latency_s is not None or wanted.max_power_w is not None
    is_limit_unused = outlook is None and is_limited
    values = setting_values(modes)
    prior = prior_outlook(values, minimise, is_taken)
    n_designed = n_picked
    if outlook is not None:
        n_designed = 0 if len(ran) >= DECIDABLE else min(n_picked, max(0, DESIGN_SIZE - n_taken))
    designed = design(prior, find_ends(values, is_taken), free, n_designed)
    steps, outlook = choose(prior if outlook is None else outlook, designed, n_designed)
    others = np.setdiff1d(free, designed)
    steps += choose(outlook, others, n_picked - n_designed)[0]
    names = modes.get_column("mode")
    return NextModes(
        modes=modes,
        steps=steps,
        n_designed=n_designed,
        minimise=minimise,
        networks=tuple(dict.fromkeys(fit.network for fit in fits)),
        n_wanted=n,
        n_free=free.size,
        n_measured=n_taken,
        gaps=known.gaps,
        n_alike=known.n_alike,
        fit_notes=tuple(dict.fromkeys(note for fit in fits for note in fit.notes)),
        unpredicted=unpredicted,
        is_limit_unused=is_limit_unused,
        lower_settings=find_lower_settings(candidates, {names[step.at] for step in steps}),
    )


def _check(n: int, wanted: Wanted) -> None:
    if not 1 <= n <= MOST_PICKS:
        raise UsageError(f"cannot plan {n} modes", fix=f"ask for 1 to {MOST_PICKS}")
    for noun, limit, unit in (
        ("time", wanted.max_latency_s, "s"),
        ("power", wanted.max_power_w, "W"),
    ):
        if limit is not None and not 0 < limit < math.inf:
            raise UsageError(f"no {noun} is at most {limit} {unit}", fix="give a positive limit")


def _as_device(observations: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    """The observations under the name that the modes give their device."""
    return observations.with_columns(pl.lit(modes.get_column("device")[0]).alias("device"))


def _outlook(
    fits: Sequence[NetworkFit],
    modes: pl.DataFrame,
    wanted: Wanted,
    is_taken: NDArray[np.bool_],
) -> tuple[dict[str, tuple[str, ...]], Outlook | None]:
    """Reasons why networks cannot be predicted, and what is expected by the others.

    None instead of an outlook where no network can be predicted.
    """
    predicted = predicted_networks(fits, modes)
    is_known = predicted.is_known(wanted.minimise)
    unpredicted: dict[str, tuple[str, ...]] = {}
    for fit, known in zip(fits, is_known, strict=True):
        if not known:
            reason = fit.time_reason or fit.power_reason
            networks = (*unpredicted.get(reason, ()), fit.network)
            unpredicted[reason] = tuple(dict.fromkeys(networks))
    if not is_known.any():
        return unpredicted, None
    outlook = fitted_outlook(predicted.of(is_known), setting_values(modes), wanted, is_taken)
    return unpredicted, outlook
