"""Which modes to take: the most promising one after the other, or a set that is best together.

A designed set makes the expected error of the modes that are not measured as small as can be (an
I-optimal design; A. C. Atkinson, A. N. Donev, R. D. Tobias, Optimum Experimental Designs, 2007,
chapter 10), and reaches to both ends of every setting, so that the other modes lie between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.outlook import Outlook
from mansard.analytics.models.scaling.network_terms import Array, varying

Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

DESIGN_SIZE = 4  # with fewer modes no law of the clocks can be told from another
_MOST_SWEEPS = 5  # of exchanges in a design; two are nearly always enough
_MOST_EXCHANGES = 200  # a set so large that it takes more is good without them
_DIGITS = 9  # scores that agree so far are equal on every machine; the earlier mode wins
_SAME = 1e-6  # relative: a clock so close to an end is at the end


@dataclass(frozen=True)
class PlanStep:
    """One mode that was chosen, by its index, and what is expected of it; means of networks.

    ``improvement``: relative, None where no measured mode can be improved on. ``chance``: that it
    is the first within the limit on time, None where another is or there is none.
    """

    at: int
    improvement: float | None
    chance: float | None
    error_before: float
    error_after: float


def choose(outlook: Outlook, free: Indices, n: int) -> tuple[tuple[PlanStep, ...], Outlook]:
    """``n`` of the modes ``free``, the most promising first, and what is expected after them.

    Each counts as measured for those after it.
    """
    steps: list[PlanStep] = []
    is_open = _mask(free, outlook.start.size)
    for _ in range(n):
        at = _best(_score(outlook), is_open)
        after = outlook.measured(at)
        steps.append(
            PlanStep(
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
    """``n`` of the modes ``free`` that are best together.

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
    """Ends × modes: which modes have a setting at its least, or at its most.

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
    """Of each mode what it may improve and how much surer it makes."""
    score = outlook.improvement() + outlook.hope() + outlook.information()
    return np.asarray(score.round(_DIGITS), dtype=np.float64)
