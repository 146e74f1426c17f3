"""Times that hold a transient: repeats that lie apart, and means that a few calls carry.

The first repeat after a switch of the power mode, or before clocks have risen, may take many times
as long as the rest (112 ms against 13.2 to 14.2 ms on a recorded AGX Xavier). The mean of such
repeats is the time of nothing. Where all repeats are known, those that lie apart are set aside;
where only their mean and standard deviation are, the mean is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import msgspec

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import seconds
from mansard.core.records import Measurement, ProgramRun

_APART, _FEW_APART = 1.5, 2.0  # factors between repeats that lie apart; of two or three repeats
_NEAR, _APART_FROM_NEAR, _LEAST_NEAR = 1.1, 1.25, 4  # of repeats that agree: see ``_gap``
_MAJORITY = 2 / 3
_MOST_SHARE = 0.5  # of a deviation, of its mean, whatever else is known
_SETTLED_SHARE = 0.1  # settled repetitions have less
_MOST_USUAL = 8.0  # times what the deviations of the same author usually are
LEAST_USUAL = 4  # deviations that tell what is usual
# Of the deviation, over the distance from the mean to p95 (p90, p99: less and more). It is 0.61 of
# a normal distribution, 0.64 of a uniform one, 0.5 of an exponential one, 1 of two equal states.
_MOST_OVER_TAIL = 3.0
_ABOVE_TAIL = 1.02  # a mean over a percentile: what tables round
_TRANSIENT = "as the first after a switch of the mode is"


_OUTLYING = 2.0  # of what was measured here: other work alone scatters by less
_FEW = 12  # of so many samples a third may be set aside, of more a tenth


def outlying(times_s: Sequence[float]) -> dict[int, str]:
    """The times of one measurement that are twice the others or half of them, and why.

    Empty where they are no few: then it has two states, which its interval tells.
    """
    doubts = repeat_doubts(times_s, least=_OUTLYING)
    n = len(times_s)
    return doubts if len(doubts) <= (n // 3 if n <= _FEW else n // 10) else {}


def repeat_doubts(
    times_s: Sequence[float],
    text: Callable[[float], str] = seconds,
    *,
    least: float = 1.0,
) -> dict[int, str]:
    """The repeats that differ from the others, by their place, and why.

    Where two thirds of them and more agree, the rest is set aside: as after a switch of the mode,
    wherever it stands. Where no such majority does, they are of several states and none is used.
    ``text``: of one of them, which may be powers too. ``least``: the factor by which they have to
    lie apart, at least.
    """
    order = sorted(range(len(times_s)), key=times_s.__getitem__)
    clusters = _clusters([times_s[place] for place in order], least)
    if len(clusters) < 2:
        return {}
    most = max(clusters, key=len)
    low, high = times_s[order[most[0]]], times_s[order[most[-1]]]
    if len(most) < max(2, _MAJORITY * len(times_s)):
        states = " and ".join(
            f"{len(c)} near {text(median(times_s[order[at]] for at in c))}" for c in clusters
        )
        why = f"the {len(times_s)} repeats disagree ({states}): two modes or states are in them"
        return dict.fromkeys(range(len(times_s)), why)
    others = f"{len(most)} others have {text(low)} to {text(high)}"
    return {
        (place := order[at]): f"repeat {place + 1} of {len(times_s)} has "
        f"{text(times_s[place])} and {others}: set aside as a transient"
        + (f", {_TRANSIENT}" if place == 0 else "")
        for cluster in clusters
        if cluster is not most
        for at in cluster
    }


def _clusters(ordered_s: Sequence[float], least: float) -> list[list[int]]:
    """Clusters of the places of ascending times, split at gaps."""
    gap = max(_gap(ordered_s), least)
    clusters = [[0]] if ordered_s else []
    for at, (less, more) in enumerate(pairwise(ordered_s), start=1):
        if more > gap * less:
            clusters.append([])
        clusters[-1].append(at)
    return clusters


def _gap(ordered_s: Sequence[float]) -> float:
    """A smaller gap counts where two thirds of the repeats, and four of them, lie near."""
    n = max(math.ceil(_MAJORITY * len(ordered_s)), _LEAST_NEAR)
    windows = zip(ordered_s, ordered_s[n - 1 :], strict=False)
    is_near = any(last <= _NEAR * first for first, last in windows)
    if is_near:
        return _APART_FROM_NEAR
    return _APART if len(ordered_s) >= _LEAST_NEAR else _FEW_APART


class MeanSpread(NamedTuple):
    """A mean with what is known of its repetitions. ``tails_s``: ``p95_s`` and the like."""

    mean_s: float
    deviation_s: float | None
    tails_s: Mapping[str, float]


def spread_doubt(spread: MeanSpread, usual_share: float | None = None) -> str | None:
    """Why a mean holds a transient; None where nothing shows one.

    A mean above its 95th percentile is carried by fewer than one call in twenty. A deviation far
    above what the percentile allows comes from calls beyond it, or from a few fast ones.
    ``usual_share``: the deviation of such times over their mean, where several tell.
    """
    mean_s, deviation_s = spread.mean_s, spread.deviation_s or 0.0
    share = deviation_s / mean_s
    end = f"a few repetitions were disturbed ({_TRANSIENT}), and the mean is of both"
    has = f"its standard deviation of {seconds(deviation_s)} is {share:.0%} of its mean of "
    has += seconds(mean_s)
    if share > _MOST_SHARE:
        return f"{has}: {end}"
    for name, tail_s in spread.tails_s.items():
        tail = name.removesuffix("_s")
        if mean_s > _ABOVE_TAIL * tail_s:
            return f"its mean of {seconds(mean_s)} is above its {tail} of {seconds(tail_s)}: {end}"
        if share > _SETTLED_SHARE and deviation_s > _MOST_OVER_TAIL * abs(tail_s - mean_s):
            return f"{has}, far more than its {tail} of {seconds(tail_s)} allows: {end}"
    if usual_share is not None and share > max(_SETTLED_SHARE, _MOST_USUAL * usual_share):
        return f"{has}, where {usual_share:.1%} is usual beside it: {end}"
    return None


# Rows of what was measured here: files keep every sample and every run.


def settled_network(row: Measurement) -> Measurement:
    """``row`` with outlying samples among those that are rejected, each with its reason."""
    doubts = outlying(row.seconds_s)
    if not doubts:
        return row
    used = [at for at in range(len(row.seconds_s)) if at not in doubts]
    return msgspec.structs.replace(
        row,
        seconds_s=tuple(row.seconds_s[at] for at in used),
        block=tuple(row.block[at] for at in used),
        rejected_s=(*row.rejected_s, *(row.seconds_s[at] for at in doubts)),
        rejected_reason=(*row.rejected_reason, *doubts.values()),
    )


def settled_program(row: ProgramRun) -> ProgramRun:
    """``row`` without runs of the program that took twice as long as the others, or half."""
    doubts = outlying([run.wall_s for run in row.repetitions])
    if not doubts:
        return row
    used = tuple(run for at, run in enumerate(row.repetitions) if at not in doubts)
    return msgspec.structs.replace(row, repetitions=used)


def transient_notes(row: Measurement | ProgramRun) -> tuple[str, ...]:
    """What is set aside of a row as it was recorded, in a line; empty where nothing is."""
    if isinstance(row, Measurement):
        name, what, times_s = row.model, "sample", row.seconds_s
    else:
        name, what = row.workload, "run"
        times_s = tuple(run.wall_s for run in row.repetitions)
    doubts = outlying(times_s)
    if not doubts:
        return ()
    n = f"{len(doubts)} {what}{'s' if len(doubts) > 1 else ''}"
    return (
        f"{display_name(name)}: {n} of {len(times_s)} not used for predictions: "
        f"{next(iter(doubts.values()))}",
    )
