"""What a choice is compared with: the highest mode, the board's default, and near candidates.

Near candidates are those on the Pareto front of time, energy and power, and those whose intervals
do not separate them from the choice.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.data.statistics import are_near
from mansard.analytics.decisions.limits import Mask, Screen, interval_of
from mansard.analytics.decisions.records import Candidate, Quantity, Saving, Wanted
from mansard.analytics.decisions.values import NO_INTERVAL, Array, Values
from mansard.core.hardware import (
    SETTINGS,
    KnownMode,
    LowerSetting,
    NamedModes,
    boards_called,
    lower_settings,
)
from mansard.core.units import ROOF_TIE, Interval

BOARD_HIGHEST = "the board's highest mode"
MEASURED_HIGHEST = "the highest measured mode"
COMPARED_HIGHEST = "the highest of these modes"
DEFAULT = "the board's default mode"
_UNLIMITED = ("MAXN_SUPER", "MAXN")  # what NVIDIA calls its unlimited modes
_CLOCKS = ("n_sms", "gpu_hz", "memory_hz", "n_cpus", "cpu_hz", "power_limit_w")
_OF_A_CPU = ("n_cpus", "cpu_hz", "memory_hz", "power_limit_w")
_MOST = {
    "n_sms": "the mode with the most SMs",
    "gpu_hz": "the mode with the highest GPU clock",
    "memory_hz": "the mode with the highest memory clock",
    "n_cpus": "the mode with the most cores",
    "cpu_hz": "the mode with the highest CPU clock",
    "power_limit_w": "the mode with the highest power limit",
}


@dataclass(frozen=True)
class Baseline:
    """Another mode to compare the choice with; ``label`` says what it is."""

    label: str
    mode: str


def highest_mode(modes: pl.DataFrame) -> str | None:
    """The mode of one device (MODE_SCHEMA) that is called unlimited, else the highest by clocks.

    That is by SMs, then GPU clock, memory clock, cores, CPU clock and power limit, of a CPU by
    cores and its clock first; what is unknown counts as lowest. None where there is no mode, and
    where nothing is known of several.
    """
    if modes.is_empty():
        return None
    names = {str(name).upper(): str(name) for name in modes["mode"].sort(descending=True)}
    for unlimited in _UNLIMITED:
        if unlimited in names:
            return names[unlimited]
    if modes.height > 1 and all(modes[name].null_count() == modes.height for name in _CLOCKS):
        return None
    return str(_ranked(modes)["mode"][0])


def _ranked(modes: pl.DataFrame) -> pl.DataFrame:
    order = _order(modes)
    descending = [*(True for _ in order), False]
    return modes.sort(*order, "mode", descending=descending, nulls_last=True)


def _order(modes: pl.DataFrame) -> tuple[str, ...]:
    is_cpu = all(modes[name].null_count() == modes.height for name in ("n_sms", "gpu_hz"))
    return _OF_A_CPU if is_cpu else _CLOCKS


def highest_label(modes: pl.DataFrame, mode: str, *, is_measured: bool) -> str:
    """What ``mode``, the highest of ``modes`` of one device, is: of the board, or of these alone.

    Of the board where NVIDIA's table says so, or it is called unlimited; else the highest where no
    other mode exceeds it in any setting. ``is_measured``: the network was measured in it.
    """
    boards = boards_called(str(modes["device"][0]))
    of_boards = {_board_highest(board) for board in boards}
    names = {None if (its := board.find(mode)) is None else its.name for board in boards}
    if boards and names == of_boards:
        return BOARD_HIGHEST
    if not boards and mode.upper() in _UNLIMITED:
        return BOARD_HIGHEST
    exceeded = [name for name in _order(modes) if _is_exceeded(modes, mode, name)]
    if not exceeded:
        return MEASURED_HIGHEST if is_measured else COMPARED_HIGHEST
    leads = (name for name in _order(modes) if name not in exceeded and modes[name].n_unique() > 1)
    return next((_MOST[name] for name in leads), "another mode")


def _is_exceeded(modes: pl.DataFrame, mode: str, name: str) -> bool:
    """Whether another mode has more of a setting, or may have."""
    values = modes[name].cast(pl.Float64)
    if values.null_count():
        return bool(values.null_count() < modes.height)
    its = float(values.filter(modes["mode"] == mode)[0])
    return any(value > its * (1 + _SAME) for value in values.to_list())


_SAME = 1e-3  # relative: clocks are read back to a few kHz


def _board_highest(board: NamedModes) -> str | None:
    rows = [
        {"device": board.board, "mode": mode.name}
        | {name: getattr(mode, name, None) for name in _CLOCKS}
        for mode in map(board.uncapped, board.modes)
    ]
    return highest_mode(pl.DataFrame(rows, schema=MODE_SCHEMA))


def find_lower_settings(
    modes: pl.DataFrame, among: Collection[str] | None = None
) -> tuple[LowerSetting, ...]:
    """Modes of one device (MODE_SCHEMA) whose settings contradict their nominal powers.

    ``among``: as in ``lower_settings``.
    """
    named = _named_after_powers(modes)
    if named.height < 2:
        return ()
    rows = named.select("mode", *SETTINGS).rows()
    known = (KnownMode(name, dict(zip(SETTINGS, values, strict=True))) for name, *values in rows)
    return lower_settings(known, among)


def find_left_out(modes: pl.DataFrame) -> tuple[str, ...]:
    """The named modes of the board that are none of ``modes`` (MODE_SCHEMA of one device).

    Empty where none of ``modes`` is named, or the board is unknown or may be one of several whose
    modes differ.
    """
    boards = () if modes.is_empty() else boards_called(str(modes["device"][0]))
    if len({tuple(mode.name for mode in board.modes) for board in boards}) != 1:
        return ()
    found = (boards[0].find(name) for name in _named_after_powers(modes)["mode"])
    present = {mode.name for mode in found if mode is not None}
    return tuple(mode.name for mode in boards[0].modes if present and mode.name not in present)


def _named_after_powers(modes: pl.DataFrame) -> pl.DataFrame:
    """The modes with a power in their name: of a grid of a million modes none becomes a record."""
    return modes.filter(pl.col("mode").str.contains(r"(?i)[0-9][\s_]*w|max"))


def find_baselines(modes: pl.DataFrame, rows: pl.DataFrame, default: str | None) -> list[Baseline]:
    """The highest of ``modes``, and the ``default``; ``rows``: predictions of one network."""
    highest = highest_mode(modes) if modes.height > 1 else None
    baselines = []
    if highest is not None:
        ran = rows.filter(pl.col("mode") == highest, pl.col("source") != "modelled")
        baselines = [Baseline(highest_label(modes, highest, is_measured=ran.height > 0), highest)]
    if default is not None and default == highest:
        label = baselines[0].label
        its = "its" if label == BOARD_HIGHEST else "the board's"
        return [Baseline(f"{label} and {its} default", default)]
    return baselines if default is None else [*baselines, Baseline(DEFAULT, default)]


def find_savings(
    values: Values, choice: Candidate, baselines: Sequence[Baseline]
) -> tuple[Saving, ...]:
    """The choice beside each baseline, at the choice's own batch and precision."""
    return tuple(_saving(values, choice, baseline) for baseline in baselines)


_RATIOS: tuple[Quantity, ...] = ("latency", "energy", "power")


def _saving(values: Values, choice: Candidate, baseline: Baseline) -> Saving:
    rows = (
        values.frame.with_row_index("_at")
        .filter(
            pl.col("mode") == baseline.mode,
            pl.col("batch") == choice.batch,
            pl.col("precision") == choice.precision,
            pl.col("phase") == choice.phase,
        )["_at"]
        .to_list()
    )
    other = values.candidate(rows[0]) if rows else None
    ratios: dict[str, float | None] = {}
    unknown: dict[str, str] = {}
    for kind in _RATIOS:
        fields = [f"{kind}_ratio{end}" for end in ("", "_low", "_high")]
        if other is None:
            why = f"mode {baseline.mode} has no prediction at batch {choice.batch}"
            ratios |= dict.fromkeys(fields)
            unknown |= dict.fromkeys(("other", *fields), why)
            continue
        span, why = _ratio(choice, other, kind)
        ratios |= dict(zip(fields, span, strict=True))
        unknown |= {
            name: why or NO_INTERVAL
            for name, value in zip(fields, span, strict=True)
            if value is None
        }
    return Saving(
        baseline=baseline.label, mode=baseline.mode, other=other, **ratios, unknown=unknown
    )


def _ratio(
    choice: Candidate, other: Candidate, kind: Quantity
) -> tuple[tuple[float | None, float | None, float | None], str]:
    """Choice / other with its ends, and why there is no value."""
    mine, its = interval_of(choice, kind), interval_of(other, kind)
    if mine is None or its is None:
        return (None, None, None), f"{kind} is unknown in one of the two"
    roofs = [candidate.interval == "roof" for candidate in (choice, other)]
    if any(roofs) and not all(roofs):
        return (None, None, None), "one of the two is known by its roof alone"
    bounded = is_bounded(choice, other)
    if choice == other:
        return (1.0, 1.0, 1.0), ""
    span = ratio_span(mine, its, is_bounded=bounded)
    if bounded:
        return (None, *span[1:]), "only bounds are known of one of the two"
    return ((span[0], None, None) if all(roofs) else span), ""


def is_bounded(*of: Candidate) -> bool:
    """Whether one of them is known by bounds alone."""
    return any(candidate.certainty == "bounds" for candidate in of)


def ratio_span(
    mine: Interval, its: Interval, *, is_bounded: bool
) -> tuple[float, float | None, float | None]:
    """Mine over its: the value, and the ends of its 95 %, or of what is possible of bounds.

    Errors of two spreads are taken as independent.
    """
    value, other = mine.value, its.value
    ratio = value / other
    if None in (mine.low, mine.high, its.low, its.high):
        return ratio, None, None
    (low, high), (other_low, other_high) = mine.ends, its.ends
    if is_bounded:
        return ratio, low / other_high, high / other_low
    down = math.hypot(math.log(value / low), math.log(other_high / other))
    up = math.hypot(math.log(high / value), math.log(other / other_low))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up)


_GROUP = ("device", "network", "precision", "phase")


def pareto_mask(points: Array) -> Mask:
    """Which rows of ``points`` (n × k with k up to 3, smaller is better) no other row dominates.

    A row dominates another that is nowhere smaller and somewhere greater; of equal rows none
    does. Rows that hold NaN can be compared with nothing and are not on the front. Takes
    n log n steps however long the front is [Kung, Luccio, Preparata 1975].
    """
    is_on_front: Mask = np.zeros(len(points), dtype=np.bool_)
    usable = np.flatnonzero(~np.isnan(points).any(axis=1))
    missing = np.zeros((len(usable), 3 - points.shape[1]))
    rows = np.column_stack([points[usable], missing])
    # Sorted by the first column, then the next: a later row can no more dominate an earlier one.
    order = np.lexsort(rows.T[::-1])
    is_on_front[usable[order]] = _unbeaten(rows[order].tolist())
    return is_on_front


def _unbeaten(rows: list[list[float]]) -> list[bool]:
    """For each of the sorted ``rows`` of three values, whether no other row dominates it."""
    is_unbeaten: list[bool] = []
    # Of the rows so far the front in the last two: the second rises and the third falls.
    seconds: list[float] = []
    thirds: list[float] = []
    before: list[float] = []
    for row in rows:
        if row == before:
            is_unbeaten.append(is_unbeaten[-1])
            continue
        before = row
        _, second, third = row
        at = bisect_right(seconds, second)
        is_free = at == 0 or thirds[at - 1] > third
        is_unbeaten.append(is_free)
        if is_free:
            start = end = bisect_left(seconds, second)
            while end < len(thirds) and thirds[end] >= third:
                end += 1
            seconds[start:end], thirds[start:end] = [second], [third]
    return is_unbeaten


def pareto_front(predictions: pl.DataFrame) -> pl.DataFrame:
    """The rows of PREDICTION_SCHEMA on the front of (latency, energy of one item, power).

    One front for each device, network, precision and phase; batch sizes compete. Rows without
    a latency are on none. Where no row of a front has an energy and a power, it is the fastest
    alone; where some have, those without are left out. The order is that of ``predictions``.
    """
    if predictions.is_empty():
        return predictions
    numbered = predictions.with_row_index("_row")
    rows: list[NDArray[np.int64]] = []
    for group in numbered.partition_by(*_GROUP):
        points = group.select(
            "latency_s", item_j=pl.col("energy_j") / pl.col("batch"), power_w="power_w"
        )
        columns = ["latency_s"] if points.drop_nulls().is_empty() else points.columns
        mask = pareto_mask(points.select(pl.col(columns).cast(pl.Float64)).to_numpy())
        rows.append(group["_row"].to_numpy()[mask].astype(np.int64))
    front = np.sort(np.concatenate(rows))
    return predictions[front]


_SHOWN = 5
_FEW = 8  # candidates: a list of at most that many is shown whole


def find_neighbours(values: Values, wanted: Wanted, at: int, usable: Mask) -> tuple[int, ...]:
    """For time, power and energy: the row of the front that needs less, at the least objective.

    So each neighbour shows what the next step in that direction costs; the same one may be the
    answer for several of them and is named once. Where there are few candidates, or ``wanted``
    lists all, the others follow, those with the least objective first.
    """
    bands = (values.latency.value, values.power.value, values.energy.value)
    known = [band for band in bands if not np.isnan(band[usable]).all()]
    front = usable & pareto_mask(np.where(usable[:, None], np.column_stack(known), np.nan))
    objective = values.objective(wanted.minimise).value
    neighbours: dict[int, None] = {}
    for band in known:
        rows = np.flatnonzero(front & (band < band[at]))
        if len(rows):
            order = np.lexsort((rows, band[rows], objective[rows]))
            neighbours[int(rows[order[0]])] = None
    if wanted.lists_all or len(values) <= _FEW:
        neighbours |= dict.fromkeys(np.argsort(objective, kind="stable").tolist())
        neighbours.pop(at)
    return tuple(neighbours)


def is_of_gpu(modes: pl.DataFrame) -> bool:
    """Whether ``modes`` (MODE_SCHEMA) are those of a GPU, by their settings."""
    return any(modes.select(pl.col("gpu_hz", "n_sms").is_not_null().any()).row(0))


def find_equals(
    values: Values, wanted: Wanted, at: int, feasible: Mask
) -> tuple[tuple[Candidate, ...], int]:
    """Feasible candidates that are not separated from the choice: the best few, and the number.

    Values with spreads are compared by ``are_near``: where a model's errors are common to all
    modes, fewer are equal than it says. Bounds differ if they are disjoint, roofs if their ratio
    is above ROOF_TIE.
    """
    objective = values.objective(wanted.minimise)
    low, high = objective.low, objective.high
    distance = np.abs(np.log(objective.value / objective.value[at]))
    is_near = are_near((objective.value, low, high), (objective.value[at], low[at], high[at]))
    # A value without an interval contains nothing.
    is_roof = objective.interval == "roof"
    is_bounds = objective.interval == "bounds"
    has_ends = (objective.interval == "spread") | is_bounds
    overlap = (low <= high[at]) & (low[at] <= high)
    near = np.where(is_bounds | bool(is_bounds[at]), overlap, is_near)
    equal = has_ends & bool(has_ends[at]) & near
    equal |= is_roof & bool(is_roof[at]) & (distance <= math.log(ROOF_TIE))
    equal &= feasible
    equal[at] = False
    rows = np.flatnonzero(equal)
    ranked = rows[np.argsort(objective.value[rows], kind="stable")]
    return tuple(values.candidate(int(row)) for row in ranked[:_SHOWN]), len(rows)


def find_lowest(values: Values, screened: Screen, modes: pl.DataFrame) -> Candidate | None:
    """The candidate in the lowest of ``modes`` (MODE_SCHEMA) that meets every limit.

    Where no energy or power is known: less hardware at lower clocks draws less power. Candidates
    that are known by their roofs count if they meet the limits amply. None without limits.
    """
    is_met = screened.is_kept | screened.is_ample
    if not screened.limits or not is_met.any() or modes.is_empty():
        return None
    names = _ranked(modes)["mode"].to_list()
    height = {mode: -at for at, mode in enumerate(names)}
    heights = [height.get(mode, 0) for mode in values.frame["mode"].to_list()]
    rows = np.flatnonzero(is_met)
    order = np.lexsort((values.latency.value[rows], np.array(heights)[rows]))
    return values.candidate(int(rows[order[0]]))


def most_excess(values: Values, wanted: Wanted, at: int, may_be: Mask) -> tuple[float | None, str]:
    """By which share the choice is at most worse than the best, and why that is unknown.

    The choice takes at most the high end of its interval, another one that may keep the limits
    at least the low end of its own: the greatest high / low - 1 over these others, never below
    0. True whenever every value lies in its interval, whatever the errors have in common.
    """
    objective = values.objective(wanted.minimise)
    high: float = objective.high[at]
    others: Array = objective.low[_without(may_be, at)]
    rows = may_be.copy()
    rows[at] = True
    if (objective.interval[rows] == "roof").any():
        return None, "some predictions are roofs alone: the network takes at best that"
    if np.isnan(high) or np.isnan(others).any():
        return None, "some predictions have no interval"
    return max(0.0, float(np.max(high / others, initial=1.0)) - 1.0), ""


def _without(mask: Mask, at: int) -> Mask:
    rest: Mask = mask.copy()
    rest[at] = False
    return rest
