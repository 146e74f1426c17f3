"""A grid of modes: every combination of the settings' values but those left out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import msgspec

from mansard.core.errors import UsageError
from mansard.device.choosing.band import Band
from mansard.device.choosing.choices import Settable

# Thirty seconds a mode are ten weeks; a slip in a file is likelier than such a sweep.
MOST_MODES = 200_000


class Grid(msgspec.Struct, frozen=True):
    """Values of each setting, ascending; a mode to which a whole exclusion applies is left out."""

    axes: Mapping[str, tuple[float, ...]]
    exclusions: tuple[Mapping[str, Band], ...] = ()


def grid_points(grid: Grid, choices: Settable) -> tuple[tuple[float, ...], ...]:
    """One value for each axis of ``grid`` in each of its modes, no mode twice; raises UsageError.

    A CPU clock that no core of the mode reaches counts as the highest it does reach.
    """
    n_all = math.prod(len(values) for values in grid.axes.values())
    if n_all > MOST_MODES:
        raise UsageError(
            f"the grid has {n_all:,} modes, more than {MOST_MODES:,}",
            fix="make a step longer, or leave a setting out",
        )
    keys = tuple(grid.axes)
    points = itertools.product(*grid.axes.values())
    if grid.exclusions:
        points = (p for p in points if not _is_excluded(p, keys, grid.exclusions))  # type: ignore[assignment]
    if "cpu" in keys:
        reach = _Reach(keys, choices)
        points = map(reach.reached, points)  # type: ignore[assignment]
    found = tuple(dict.fromkeys(points))
    if not found:
        raise UsageError("the grid has no mode left", fix="exclude less, or name more values")
    return found


def _is_excluded(
    point: tuple[float, ...], keys: tuple[str, ...], exclusions: tuple[Mapping[str, Band], ...]
) -> bool:
    values = dict(zip(keys, point, strict=True))
    return any(
        all(band.holds(values[key]) for key, band in exclusion.items()) for exclusion in exclusions
    )


class _Reach:
    """The highest CPU clock that the cores of a point have, up to the one wanted."""

    def __init__(self, keys: tuple[str, ...], choices: Settable) -> None:
        self._cpu = keys.index("cpu")
        self._cores = keys.index("cores") if "cores" in keys else None
        self._choices = choices
        self._known: dict[tuple[float, float | None], float] = {}

    def reached(self, point: tuple[float, ...]) -> tuple[float, ...]:
        wanted = point[self._cpu]
        cores = None if self._cores is None else point[self._cores]
        hz = self._known.get((wanted, cores))
        if hz is None:
            n_cpus = None if cores is None else int(cores)
            hz = self._choices.reachable_hz(wanted, n_cpus)
            self._known[wanted, cores] = hz
        return (*point[: self._cpu], hz, *point[self._cpu + 1 :])
