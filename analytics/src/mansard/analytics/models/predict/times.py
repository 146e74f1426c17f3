"""The time of one network in many modes, before its launches: docs/understand/prediction.md.

Modes for which the same coefficients are known form one part. Evaluated directly,
Σ max(work / peak, traffic / bandwidth) over the groups of a network costs groups × modes
evaluations. With x = 1/P and y = 1/B a group of work w and traffic q is compute-bound in the modes
where w·x ≥ q·y, which is q/w ≤ x/y. With the groups sorted by q/w and the modes by x/y, in each
mode the first k groups are compute-bound, and the sum is x · Σ(w of the first k) + y · Σ(q of the
others): two entries of cumulative sums that all modes share. After sorting that costs groups +
modes steps, and the sum is the same to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.models.predict.columns import (
    BANDWIDTH,
    NONE,
    Array,
    CeilingAssignment,
    Codes,
    CoefficientTable,
    Key,
    WorkTable,
    assign_ceilings,
)
from mansard.analytics.models.predict.groups import CUDA


@dataclass(frozen=True, eq=False)
class Ridges:
    """Modes sorted by x/y, so by decreasing ridge point P/B.

    ``ratio``: x/y in that order; ``places``: the position of each mode in it.
    """

    ratio: Array
    places: NDArray[np.int64]


def ridges(second_per_flop: Array, second_per_byte: Array) -> Ridges:
    """Sort modes; both arrays are above 0, or ``second_per_byte`` is 0 if there is no traffic."""
    with np.errstate(divide="ignore"):
        ratio = second_per_flop / second_per_byte
    order = np.argsort(ratio)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return Ridges(ratio[order], places)


def bound_sums(flop: Array, n_bytes: Array, modes: Ridges) -> tuple[Array, Array]:
    """For each mode the work of the compute-bound groups, and the traffic of the others.

    ``flop``, above 0, and ``n_bytes``: of each group.
    """
    ratio = n_bytes / flop
    groups = np.argsort(ratio)
    # From this position in the sorted modes on, the group is compute-bound.
    firsts = np.searchsorted(modes.ratio, ratio[groups])
    stretches = np.diff(firsts, prepend=0, append=len(modes.ratio))
    n_bound = np.repeat(np.arange(len(groups) + 1), stretches)[modes.places]
    bound_flop = np.concatenate([[0.0], np.cumsum(flop[groups])])
    moved = n_bytes[groups][::-1]
    other_bytes = np.concatenate([np.cumsum(moved)[::-1], [0.0]])
    return bound_flop[n_bound], other_bytes[n_bound]


@dataclass(frozen=True, eq=False)
class Rates:
    """The coefficients of some modes at one end of their intervals, or at their values.

    ``costs``: by key, in s, J/FLOP, J/B and W; peaks and the bandwidth are inverted, to seconds
    per FLOP and per byte.
    """

    costs: Mapping[Key, Array]
    n_modes: int
    _ridges: dict[Key, Ridges] = field(default_factory=dict, init=False)
    _ratios: dict[tuple[Key, Key], tuple[float, float]] = field(default_factory=dict, init=False)

    @property
    def second_per_byte(self) -> Array:
        """Of main memory; 0 if the bandwidth is unknown, for work without traffic."""
        found = self.costs.get(BANDWIDTH)
        return np.zeros(self.n_modes) if found is None else found

    def ridges(self, peak: Key) -> Ridges:
        """The modes sorted by their ridge points for ``peak``."""
        if peak not in self._ridges:
            self._ridges[peak] = ridges(self.costs[peak], self.second_per_byte)
        return self._ridges[peak]

    def ratios(self, one: Key, other: Key) -> tuple[float, float]:
        """The least and greatest ratio of the time per FLOP at one peak to that at the other."""
        if (one, other) not in self._ratios:
            found = self.costs[one] / self.costs[other]
            self._ratios[one, other] = (float(found.min()), float(found.max()))
        return self._ratios[one, other]


@dataclass(frozen=True, eq=False)
class ModePart:
    """Modes for which the same coefficients are known; ``at``: their indices in the table.

    ``fast``: the fastest and cheapest ends of the intervals; ``slow``: the slowest and most
    expensive ones. Both are without the coefficients that have no interval.
    """

    at: NDArray[np.int64]
    ceilings: CeilingAssignment
    middle: Rates
    fast: Rates
    slow: Rates
    limit_w: Array

    @cached_property
    def has_limit(self) -> bool:
        """Whether any of the modes has a power limit."""
        return bool(np.isfinite(self.limit_w).any())


def mode_parts(table: CoefficientTable, precisions: tuple[str, ...]) -> tuple[ModePart, ...]:
    """All modes of ``table``, grouped by which coefficients and intervals are known."""
    keys = tuple(table.columns)
    if not table.n_modes:
        return ()
    columns = [table.columns[key] for key in keys]
    gaps = [np.isnan(column.value) for column in columns]
    gaps += [np.isnan(column.low) for column in columns]
    gaps += [column.is_given for column in columns]
    places = _alike(np.stack(gaps, axis=1) if gaps else np.zeros((table.n_modes, 1), bool))
    return tuple(_part(table, precisions, at) for at in places)


def _alike(gaps: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """The indices of the rows of ``gaps``, grouped by equal rows."""
    packed = np.ascontiguousarray(np.packbits(gaps, axis=1))
    rows = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, kinds = np.unique(rows, return_inverse=True)
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(np.bincount(kinds))[:-1]
    return np.split(order, ends)


def _part(table: CoefficientTable, precisions: tuple[str, ...], at: NDArray[np.int64]) -> ModePart:
    middle: dict[Key, Array] = {}
    fast: dict[Key, Array] = {}
    slow: dict[Key, Array] = {}
    for key, column in table.columns.items():
        value, low, high = column.value[at], column.low[at], column.high[at]
        if np.isnan(value[0]):
            continue
        is_rate = key[0] in ("peak", "bandwidth")
        middle[key] = 1.0 / value if is_rate else value
        if not np.isnan(low[0]):
            fast[key], slow[key] = (1.0 / high, 1.0 / low) if is_rate else (low, high)
    given = frozenset(
        key for key, column in table.columns.items() if key[0] == "peak" and column.is_given[at[0]]
    )
    n_modes = len(at)
    return ModePart(
        at,
        assign_ceilings(precisions, given),
        Rates(middle, n_modes),
        Rates(fast, n_modes),
        Rates(slow, n_modes),
        table.limit_w[at],
    )


def needed_keys(work: WorkTable, ceilings: CeilingAssignment) -> tuple[Key, ...]:
    """The peaks that bound the work, and the bandwidth if there is traffic."""
    used = [work.tensor[work.tensor != NONE], work.cuda[work.cuda != NONE]]
    places = {*ceilings.tensor[used[0]].tolist(), *ceilings.cuda[used[1]].tolist()}
    peaks = tuple(ceilings.keys[at] for at in sorted(places))
    return (*peaks, BANDWIDTH) if (work.traffic_bytes > 0).any() else peaks


def flop_by_key(work: WorkTable, ceilings: CeilingAssignment) -> dict[Key, float]:
    """The work in FLOP under each ceiling."""
    found: dict[Key, float] = {}
    for codes, flop, places in (
        (work.tensor, work.tensor_flop, ceilings.tensor),
        (work.cuda, work.cuda_flop, ceilings.cuda),
    ):
        for code in np.unique(codes[codes != NONE]):
            key = ceilings.keys[places[code]]
            found[key] = found.get(key, 0.0) + float(flop[codes == code].sum())
    return found


def split_times(work: WorkTable, ceilings: CeilingAssignment, rates: Rates) -> tuple[Array, Array]:
    """Seconds in compute-bound and in memory-bound groups, for each mode of ``rates``.

    Every key of ``needed_keys`` must be known in ``rates``, and all work and traffic.
    """
    moved = work.traffic_bytes * work.factor
    at, flop, is_mixed = _ceilings(work, ceilings, rates)
    compute_s = np.zeros(rates.n_modes)
    memory_s = moved[(at == NONE) & ~is_mixed].sum() * rates.second_per_byte
    for index in np.unique(at[(at != NONE) & ~is_mixed]):
        inside = (at == index) & ~is_mixed
        key = ceilings.keys[index]
        bound_flop, n_bytes = bound_sums(flop[inside], moved[inside], rates.ridges(key))
        compute_s = compute_s + bound_flop * rates.costs[key]
        memory_s = memory_s + n_bytes * rates.second_per_byte
    for group in np.flatnonzero(is_mixed):
        own_s = work_time(work, ceilings, rates, int(group)) * work.factor[group]
        traffic_s = moved[group] * rates.second_per_byte
        is_compute = own_s >= traffic_s
        compute_s += np.where(is_compute, own_s, 0.0)
        memory_s += np.where(is_compute, 0.0, traffic_s)
    return compute_s, memory_s


def work_time(work: WorkTable, ceilings: CeilingAssignment, rates: Rates, group: int) -> Array:
    """Seconds of the work of one group at its peaks.

    Tensor cores and CUDA cores run concurrently: the longer time counts. Where both kinds of work
    run on CUDA cores their times add.
    """
    parts: list[tuple[str, Array]] = []
    for code, flop, places in (
        (work.tensor[group], work.tensor_flop[group], ceilings.tensor),
        (work.cuda[group], work.cuda_flop[group], ceilings.cuda),
    ):
        if code != NONE:
            key = ceilings.keys[places[code]]
            parts.append((key[2], flop * rates.costs[key]))
    if not parts:
        return np.zeros(rates.n_modes)
    (unit, first_s), *others = parts
    if not others:
        return first_s
    (_, second_s) = others[0]
    return first_s + second_s if unit == CUDA else np.maximum(first_s, second_s)


def _ceilings(
    work: WorkTable, ceilings: CeilingAssignment, rates: Rates
) -> tuple[Codes, Array, NDArray[np.bool_]]:
    """For each group the index of the ceiling that times it, the work there, and ``is_mixed``.

    ``is_mixed``: no single ceiling times the group in all modes. Its two kinds of work are under
    different ceilings, and their times add or the mode decides which one is longer.
    """
    tensor, cuda = ceilings.tensor[work.tensor], ceilings.cuda[work.cuda]
    by_tensor, by_cuda = work.tensor_flop * work.factor, work.cuda_flop * work.factor
    at = np.where(tensor == NONE, cuda, tensor)
    flop = np.where(tensor == NONE, by_cuda, by_tensor)
    flop = np.where((tensor == cuda) & (tensor != NONE), by_tensor + by_cuda, flop)
    is_mixed = (tensor != NONE) & (cuda != NONE) & (tensor != cuda)
    pairs = {*zip(tensor[is_mixed].tolist(), cuda[is_mixed].tolist(), strict=True)}
    for one, other in pairs:
        if ceilings.keys[one][2] == CUDA:
            continue
        least, most = rates.ratios(ceilings.keys[other], ceilings.keys[one])
        is_pair = is_mixed & (tensor == one) & (cuda == other)
        is_mixed &= ~(is_pair & (by_tensor >= by_cuda * most))
        by_other = is_pair & is_mixed & (by_tensor <= by_cuda * least)
        at[by_other], flop[by_other] = other, by_cuda[by_other]
        is_mixed &= ~by_other
    return at, flop, is_mixed
