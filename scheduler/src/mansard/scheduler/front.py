"""The Pareto front of time and energy of one network alone.

Label setting along the chain: for each accelerator and number of changes so far, the times and
energies that none of the others beats; what is beaten there is beaten at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mansard.core.errors import InputError
from mansard.core.records.schedule import Problem
from mansard.scheduler.chains import (
    ENERGY,
    ENTER,
    LEAVE,
    TIME,
    Floats,
    Ints,
    ProblemArrays,
    build_arrays,
)


@dataclass(frozen=True)
class FrontPoint:
    """One assignment of the front."""

    time_s: float
    energy_j: float  # with the constant power over that time, where it is known
    accelerators: tuple[str, ...]  # of each group


@dataclass(frozen=True)
class _Labels:
    """Times and energies by ascending time, and where each comes from: label, accelerator."""

    time: Floats
    energy: Floats
    label: Ints
    before: Ints


def front(problem: Problem, network: str) -> tuple[FrontPoint, ...]:
    """The exact front of time and energy of one network, by ascending time.

    Raises InputError for a network that is not there, and where an energy is not known.
    """
    wanted = [chain for chain in problem.networks if chain.name == network]
    if not wanted:
        raise InputError("no network of the problem has this name", where=network)
    arrays = build_arrays(_alone(problem, wanted[0].name))
    steps = _steps(arrays)
    idle = arrays.instance.limits[3]
    ends = [(key, labels) for key, labels in steps[-1].items()]
    if not ends:
        raise InputError(
            "its groups cannot be assigned with so few changes of accelerator, at known costs",
            where=network,
            fix="raise max_transitions, or measure what changes cost",
        )
    time = np.concatenate([labels.time for _, labels in ends])
    energy = np.concatenate([labels.energy for _, labels in ends])
    owner = np.concatenate([np.full(len(e.time), at) for at, (_, e) in enumerate(ends)])
    label = np.concatenate([np.arange(len(e.time)) for _, e in ends])
    on_front = _unbeaten(time, energy + idle * time)
    return tuple(
        FrontPoint(
            float(time[i]),
            float(energy[i] + idle * time[i]),
            _path(arrays, steps, ends[owner[i]][0], int(label[i])),
        )
        for i in on_front
    )


def _alone(problem: Problem, network: str) -> Problem:
    """The problem with this network only, and energy as its goal."""
    from msgspec.structs import replace

    chosen = tuple(chain for chain in problem.networks if chain.name == network)
    return replace(problem, networks=chosen, goal="energy", is_steady=False)


def _steps(arrays: ProblemArrays) -> list[dict[tuple[int, int], _Labels]]:
    """The non-dominated labels after each group, by accelerator and number of changes."""
    alone, most = arrays.instance.alone, arrays.max_transitions[0]
    takes = np.isfinite(alone[TIME])
    accelerators = range(len(arrays.names))
    none = np.zeros(1, np.int64)
    steps = [
        {
            (a, 0): _Labels(alone[TIME, 0, a, None], alone[ENERGY, 0, a, None], none, none)
            for a in accelerators
            if takes[0, a]
        }
    ]
    for g in range(1, alone.shape[1]):
        labels = {}
        for a in accelerators:
            for count in range(most + 1):
                sources = [
                    (b, steps[-1].get((b, count - (a != b))))
                    for b in accelerators
                    if a == b or arrays.is_offered(g - 1, b, a)
                ]
                merged = _merge(alone[:, g - 1 : g + 1], a, sources)
                if takes[g, a] and merged is not None:
                    labels[a, count] = merged
        steps.append(labels)
    return steps


def _merge(alone: Floats, a: int, sources: list[tuple[int, _Labels | None]]) -> _Labels | None:
    """The labels of a group on accelerator ``a``, from those of the group before."""
    parts = [(b, labels) for b, labels in sources if labels is not None]
    if not parts:
        return None
    moves = [0.0 if b == a else alone[LEAVE, 0, b] + alone[ENTER, 1, a] for b, _ in parts]
    time = np.concatenate([labels.time + m for (_, labels), m in zip(parts, moves, strict=True)])
    energy = np.concatenate([labels.energy for _, labels in parts])
    label = np.concatenate([np.arange(len(labels.time)) for _, labels in parts])
    before = np.concatenate([np.full(len(labels.time), b) for b, labels in parts])
    on_front = _unbeaten(time, energy)
    return _Labels(
        time[on_front] + alone[TIME, 1, a],
        energy[on_front] + alone[ENERGY, 1, a],
        label[on_front],
        before[on_front],
    )


def _unbeaten(time: Floats, energy: Floats) -> Ints:
    """Indices of the non-dominated points, by ascending time."""
    order = np.lexsort((energy, time))
    ordered = energy[order]
    least = np.minimum.accumulate(ordered)
    is_kept = np.ones(len(order), bool)
    is_kept[1:] = ordered[1:] < least[:-1]
    return order[is_kept]


def _path(
    arrays: ProblemArrays,
    steps: list[dict[tuple[int, int], _Labels]],
    end: tuple[int, int],
    label: int,
) -> tuple[str, ...]:
    (at, count), names = end, []
    for labels in reversed(steps):
        names.append(arrays.names[at])
        here = labels[at, count]
        before = int(here.before[label])
        label = int(here.label[label])
        at, count = before, count - (before != at)
    return tuple(reversed(names))
