"""The time of one network in many modes, without starting its kernels: docs/prediction.md."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.predict.coefficient_table import BANDWIDTH, Array, Key
from mansard.analytics.predict.groups import CUDA
from mansard.analytics.predict.mode_parts import Rates
from mansard.analytics.predict.time_sums import bound_sums
from mansard.analytics.predict.work_table import NONE, Codes, Placement, WorkTable


def needed_keys(work: WorkTable, placement: Placement) -> tuple[Key, ...]:
    """The peaks that the work of ``work`` runs under, and the bandwidth if it moves anything."""
    used = [work.tensor[work.tensor != NONE], work.cuda[work.cuda != NONE]]
    places = {*placement.tensor[used[0]].tolist(), *placement.cuda[used[1]].tolist()}
    peaks = tuple(placement.keys[at] for at in sorted(places))
    return (*peaks, BANDWIDTH) if (work.traffic_bytes > 0).any() else peaks


def flop_by_key(work: WorkTable, placement: Placement) -> dict[Key, float]:
    """The work in FLOP under each ceiling."""
    found: dict[Key, float] = {}
    for codes, flop, places in (
        (work.tensor, work.tensor_flop, placement.tensor),
        (work.cuda, work.cuda_flop, placement.cuda),
    ):
        for code in np.unique(codes[codes != NONE]):
            key = placement.keys[places[code]]
            found[key] = found.get(key, 0.0) + float(flop[codes == code].sum())
    return found


def split_times(work: WorkTable, placement: Placement, rates: Rates) -> tuple[Array, Array]:
    """Seconds in compute-bound and in memory-bound groups, for each mode of ``rates``.

    Every key of ``needed_keys`` must be known in ``rates``, and all work and traffic.
    """
    moved = work.traffic_bytes * work.factor
    at, flop, is_mixed = _ceilings(work, placement, rates)
    compute_s = np.zeros(rates.n_modes)
    memory_s = moved[(at == NONE) & ~is_mixed].sum() * rates.second_per_byte
    for place in np.unique(at[(at != NONE) & ~is_mixed]):
        inside = (at == place) & ~is_mixed
        key = placement.keys[place]
        bound_flop, n_bytes = bound_sums(flop[inside], moved[inside], rates.ridges(key))
        compute_s = compute_s + bound_flop * rates.costs[key]
        memory_s = memory_s + n_bytes * rates.second_per_byte
    for group in np.flatnonzero(is_mixed):
        own_s = work_time(work, placement, rates, int(group)) * work.factor[group]
        traffic_s = moved[group] * rates.second_per_byte
        is_compute = own_s >= traffic_s
        compute_s += np.where(is_compute, own_s, 0.0)
        memory_s += np.where(is_compute, 0.0, traffic_s)
    return compute_s, memory_s


def work_time(work: WorkTable, placement: Placement, rates: Rates, group: int) -> Array:
    """Seconds of the work of one group at its peaks: both units at once, or one after the other.

    Tensor cores and CUDA cores work side by side; where both kinds of work are on CUDA cores
    they add.
    """
    parts: list[tuple[str, Array]] = []
    for code, flop, places in (
        (work.tensor[group], work.tensor_flop[group], placement.tensor),
        (work.cuda[group], work.cuda_flop[group], placement.cuda),
    ):
        if code != NONE:
            key = placement.keys[places[code]]
            parts.append((key[2], flop * rates.costs[key]))
    if not parts:
        return np.zeros(rates.n_modes)
    (unit, first_s), *others = parts
    if not others:
        return first_s
    (_, second_s) = others[0]
    return first_s + second_s if unit == CUDA else np.maximum(first_s, second_s)


def _ceilings(
    work: WorkTable, placement: Placement, rates: Rates
) -> tuple[Codes, Array, NDArray[np.bool_]]:
    """For each group the one ceiling that its work is timed by in all modes, and the work there.

    True in the last where there is no such one: the two kinds of work of a group are under
    different ceilings, and add, or which of them is the slower depends on the mode.
    """
    tensor, cuda = placement.tensor[work.tensor], placement.cuda[work.cuda]
    by_tensor, by_cuda = work.tensor_flop * work.factor, work.cuda_flop * work.factor
    at = np.where(tensor == NONE, cuda, tensor)
    flop = np.where(tensor == NONE, by_cuda, by_tensor)
    flop = np.where((tensor == cuda) & (tensor != NONE), by_tensor + by_cuda, flop)
    is_mixed = (tensor != NONE) & (cuda != NONE) & (tensor != cuda)
    pairs = {*zip(tensor[is_mixed].tolist(), cuda[is_mixed].tolist(), strict=True)}
    for one, other in pairs:
        if placement.keys[one][2] == CUDA:
            continue
        least, most = rates.ratios(placement.keys[other], placement.keys[one])
        is_pair = is_mixed & (tensor == one) & (cuda == other)
        is_mixed &= ~(is_pair & (by_tensor >= by_cuda * most))
        by_other = is_pair & is_mixed & (by_tensor <= by_cuda * least)
        at[by_other], flop[by_other] = other, by_cuda[by_other]
        is_mixed &= ~by_other
    return at, flop, is_mixed
