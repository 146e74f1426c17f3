"""The line from times of networks on one board to their times on another.

ln t_B = m_B + s · (ln t_A - m_A), where m are the means of ln t over the anchors, the networks that
were measured on both boards. It is a Bayesian regression in closed form (A. Gelman and others,
Bayesian Data Analysis, 3rd ed., 2013, chapter 14) with these beliefs before any anchor:

- the slope is exp(0.1 · ρ), where ρ = m_B - m_A, ± one standard deviation of the scatter. A small
  network leaves most of a fast GPU idle, so it loses less on a slow board than a large one does;
- the scatter of ln t_B about the line is sqrt(0.08² + (0.1 · ρ)²): boards that are far apart
  differ in more than their speed;
- what is believed of the scatter counts as four networks.

Where two and more anchors are scored, so that their work and traffic are known, each board also has
a line T = a + b · compute + c · memory + d · launches through the anchors (``totals_fit``), and a
network takes ln t_A plus what these lines differ by: a depthwise network gains less from tensor
cores than another. Of k anchors this counts 1 - 1/k, the line above 1/k.

The most likely numbers for left-out networks on three Orins and six other boards are 0.09, 0.056,
0.093 and 4. The scatter is wider, so that 95 % intervals hold where the narrowest of several boards
is chosen (benchmarks/board_transfer.py, docs/understand/board-transfer.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.models.predict.totals_fit import Array, fit_totals

_SLOPE_PER_RATIO = 0.1  # of ln of the slope, by ln of how much slower the board is
_SCATTER, _SCATTER_PER_RATIO = 0.08, 0.1  # of ln t, networks alone and by ln of the ratio
_SLOPE_WEIGHT = 1.0  # the prior of the slope, as squared distances of anchors in ln t
_FEWEST_COUNTED = 2  # anchors: one says nothing of work beside traffic
_N_PRIOR = 4  # networks that the prior of the scatter counts as


class Carried(NamedTuple):
    """Seconds on the other board, and half the width of the 95 % interval of their ln."""

    seconds: Array
    half: Array


@dataclass(frozen=True, kw_only=True)
class BoardLine:
    """The line of ``n_anchors`` networks. ``slope``: of ln t_B over ln t_A; ``scatter``: about it.

    ``spread``: the sum of squared distances of the anchors' ln t_A, and the weight of the prior.
    """

    mean_log_a_s: float
    mean_log_b_s: float
    slope: float
    scatter: float
    spread: float
    n_anchors: int

    @property
    def ratio(self) -> float:
        """How many times as long networks like the anchors take on board B."""
        return float(np.exp(self.mean_log_b_s - self.mean_log_a_s))

    def carry(self, seconds_a: Array) -> Carried:
        """What networks that take ``seconds_a`` on board A take on board B."""
        away = np.log(seconds_a) - self.mean_log_a_s
        log_s = self.mean_log_b_s + self.slope * away
        deviation = self.scatter * relative_deviation(away, self.spread, self.n_anchors)
        quantile = student_quantile(_N_PRIOR + self.n_anchors - 1)
        return Carried(np.exp(log_s), quantile * deviation)


@dataclass(frozen=True, eq=False)
class CountedAnchors:
    """Anchors that are scored: their times on both boards, and ``parts`` (anchors × PARTS)."""

    seconds_a: Array
    seconds_b: Array
    parts: Array


def relative_deviation(away: Array, spread: float, n_anchors: int) -> Array:
    """The deviation of ln t_B at ``away`` (ln) from the mean of the anchors, over the scatter."""
    return np.asarray(np.sqrt(1 + 1 / n_anchors + away**2 / spread), dtype=np.float64)


def spread_of(log_a_s: Array) -> float:
    """``BoardLine.spread`` of anchors with these ln t_A."""
    return float(((log_a_s - log_a_s.mean()) ** 2).sum()) + _SLOPE_WEIGHT


def fit_board_line(seconds_a: Array, seconds_b: Array) -> BoardLine:
    """The line through at least one anchor, from its times on both boards."""
    log_a, log_b = np.log(seconds_a), np.log(seconds_b)
    mean_a, mean_b = float(log_a.mean()), float(log_b.mean())
    away_a, away_b = log_a - mean_a, log_b - mean_b
    log_ratio, spread = mean_b - mean_a, spread_of(log_a)
    believed = float(np.exp(_SLOPE_PER_RATIO * log_ratio))
    slope = (float(away_a @ away_b) + _SLOPE_WEIGHT * believed) / spread
    misses = float(((away_b - slope * away_a) ** 2).sum())
    misses += _SLOPE_WEIGHT * (slope - believed) ** 2
    prior = _SCATTER**2 + (_SCATTER_PER_RATIO * log_ratio) ** 2
    n_free = _N_PRIOR + len(log_a) - 1
    return BoardLine(
        mean_log_a_s=mean_a,
        mean_log_b_s=mean_b,
        slope=slope,
        scatter=float(np.sqrt((_N_PRIOR * prior + misses) / n_free)),
        spread=spread,
        n_anchors=len(log_a),
    )


def carry_counted(
    carried: Carried, seconds_a: Array, anchors: CountedAnchors, parts: Array
) -> Carried:
    """``carried`` of networks with these ``parts``, brought nearer to lines of work and traffic.

    ``parts``: networks × PARTS of ``totals_fit``. The interval keeps its width: on networks left
    out such times were nearer.
    """
    n_anchors = len(anchors.parts)
    if n_anchors < _FEWEST_COUNTED:
        return carried
    weights = np.ones(n_anchors)
    on_a, on_b = (
        fit_totals(anchors.parts, seconds, weights).seconds(parts)
        for seconds in (anchors.seconds_a, anchors.seconds_b)
    )
    by_work = np.log(seconds_a) + np.log(on_b / on_a)
    share = 1 - 1 / n_anchors
    log_s = (1 - share) * np.log(carried.seconds) + share * by_work
    return Carried(np.exp(log_s), carried.half)


def best_anchor(log_a_s: Array, wanted_log_a_s: Array, anchors_log_a_s: Array) -> int:
    """Which of ``log_a_s`` to measure on board B, so that the ``wanted`` are known best.

    ``anchors_log_a_s``: of those that were measured on both. All are ln of seconds on board A. A
    wanted network that is measured itself has no error left. The first of equals.
    """
    errors = []
    for candidate in log_a_s:
        anchors = np.append(anchors_log_a_s, candidate)
        away = wanted_log_a_s - anchors.mean()
        deviation = relative_deviation(away, spread_of(anchors), len(anchors))
        errors.append(float(np.where(wanted_log_a_s == candidate, 0.0, deviation).sum()))
    return int(np.argmin(np.round(errors, 9)))
