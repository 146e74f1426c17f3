"""Chooses modes one after the other, and improves a design by exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decide.plan_outlook import Outlook
from mansard.analytics.scaling.network_terms import Array

Indices: TypeAlias = NDArray[np.int64]

_MOST_SWEEPS = 5  # of exchanges in a design; two are nearly always enough
_DIGITS = 9  # scores that agree so far are equal on every machine; the earlier mode wins


@dataclass(frozen=True)
class Step:
    """One mode that was chosen, by its index, and what is expected of it; means of networks.

    ``improvement``: relative, None where no measured mode can be improved on. ``chance``: that it
    is the first within the limit on time, None where another is or there is none.
    """

    at: int
    improvement: float | None
    chance: float | None
    error_before: float
    error_after: float


def choose(outlooks: Sequence[Outlook], free: Indices, n: int) -> tuple[Step, ...]:
    """``n`` of the modes ``free``, the most promising first; each counts as measured after it."""
    steps: list[Step] = []
    open_modes = np.zeros(outlooks[0].n_modes, dtype=bool)
    open_modes[free] = True
    for _ in range(n):
        at = int(np.where(open_modes, _score(outlooks), -np.inf).argmax())
        after = [outlook.measured(at) for outlook in outlooks]
        steps.append(_step(at, outlooks, after))
        open_modes[at], outlooks = False, after
    return tuple(steps)


def exchange(outlooks: Sequence[Outlook], free: Indices, chosen: Sequence[int]) -> Indices:
    """The design after each of its modes was tried against all others, until none is better."""
    best = list(chosen)
    for at in best:
        outlooks = [outlook.measured(at) for outlook in outlooks]
    for _ in range(_MOST_SWEEPS):
        before = list(best)
        for place, at in enumerate(before):
            without = [outlook.unmeasured(at) for outlook in outlooks]
            candidates = np.setdiff1d(free, best[:place] + best[place + 1 :])
            score = _score(without)
            rival = int(candidates[score[candidates].argmax()])
            if score[rival] > score[at]:
                best[place] = rival
                outlooks = [outlook.measured(rival) for outlook in without]
        if best == before:
            break
    return np.array(sorted(best), dtype=np.int64)


def _score(outlooks: Sequence[Outlook]) -> Array:
    """Of each mode what it may improve and how much surer it makes; the mean of networks."""
    parts = [each.improvement() + each.hope() + each.information() for each in outlooks]
    found: Array = np.stack(parts).mean(axis=0).round(_DIGITS)
    return found


def _step(at: int, before: Sequence[Outlook], after: Sequence[Outlook]) -> Step:
    gains = [float(each.improvement()[at]) for each in before if each.best is not None]
    hopes = [float(each.hope()[at]) for each in before if each.is_seeking]
    return Step(
        at=at,
        improvement=float(np.mean(gains)) if gains else None,
        chance=float(np.mean(hopes)) if hopes else None,
        error_before=float(np.mean([each.error() for each in before])),
        error_after=float(np.mean([each.error() for each in after])),
    )
