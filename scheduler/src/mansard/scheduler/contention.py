"""How fast a group runs while others use the memory: PCCS, or a surface as it was measured.

A speed is the share of the group's speed alone, in (0, 1]. A loss is in points: 100 · (1 − speed).
With x the own demand and y the external one, PCCS (Xu, Belviranli, Shen, Vetter, MICRO 2021) has

    minor      x ≤ normal:     minor_points · y / peak
    normal     between:        rate · (x + min(y, CBP) − TBWDC)   once x + y > TBWDC
    intensive  x ≥ intensive:  rate · (x + CBP − TBWDC) / CBP · min(y, CBP)

How each is fitted, and how far off it is: docs/contention.md.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError
from mansard.core.records.schedule import ContentionSurface, PccsFit, Problem

Array = npt.NDArray[np.float64]

LEAST_SPEED = 0.01  # a fit that is carried too far stops nothing
_NONE, _PCCS, _SURFACE = 0.0, 1.0, 2.0
_GRID, _ZOOM, _STARTS, _ROUNDS = 20, 7, 8, 16


@numba.njit(cache=True)
def _surface_speed(table: Array, own: float, external: float) -> float:
    """Bilinear; full speed without external demand, the nearest edge elsewhere outside."""
    n_own, n_external = int(table[1]), int(table[2])
    rows, columns = table[3 : 3 + n_own], table[3 + n_own : 3 + n_own + n_external]
    speeds = table[3 + n_own + n_external :]
    x, y = min(max(own, rows[0]), rows[-1]), min(external, columns[-1])
    r = min(max(int(np.searchsorted(rows, x)) - 1, 0), max(n_own - 2, 0))
    c = int(np.searchsorted(columns, y)) - 1  # −1: below the first external demand
    share = (x - rows[r]) / (rows[r + 1] - rows[r]) if n_own > 1 else 0.0
    below = r + 1 if n_own > 1 else r
    left, right = 1.0, 0.0
    if c >= 0:
        left = (1 - share) * speeds[r * n_external + c]
        left += share * speeds[below * n_external + c]
        if c + 1 == n_external:
            return float(left)
    right = (1 - share) * speeds[r * n_external + c + 1]
    right += share * speeds[below * n_external + c + 1]
    start = columns[c] if c >= 0 else 0.0
    return float(left + (right - left) * (y - start) / (columns[c + 1] - start))


@numba.njit(cache=True)
def speed(table: Array, own: float, external: float) -> float:
    """The share of its speed alone that a group keeps, by a row of ``contention_tables``.

    ``own`` and ``external`` are demands in bytes per second.
    """
    if table[0] == _NONE or external <= 0.0 or own <= 0.0:
        return 1.0
    if table[0] == _SURFACE:
        return float(_surface_speed(table, own, external))
    limit, total = min(external, table[4]), table[5]
    if own <= table[1]:
        lost = table[3] * external
    elif own >= table[2]:
        lost = table[6] * (own + table[4] - total) / table[4] * limit
    else:
        lost = table[6] * (own + limit - total) if own + external > total else 0.0
    return float(min(max(1.0 - lost / 100.0, LEAST_SPEED), 1.0))


def table_of(contention: PccsFit | ContentionSurface | None) -> Array:
    """One row of numbers that ``speed`` reads."""
    if contention is None:
        return np.array([_NONE])
    if isinstance(contention, PccsFit):
        fit = contention
        return np.array(
            [
                _PCCS,
                fit.normal_byte_per_s,
                fit.intensive_byte_per_s,
                fit.minor_points / fit.peak_byte_per_s,
                fit.contention_byte_per_s,
                fit.total_byte_per_s,
                fit.points_per_byte_per_s,
            ]
        )
    own, external, lost = losses(contention)
    speeds = np.clip(1 - lost / 100, LEAST_SPEED, 1).ravel()
    return np.concatenate([[_SURFACE, len(own), len(external)], own, external, speeds])


def contention_tables(problem: Problem) -> Array:
    """A row for each accelerator, in the problem's order; padded with zeros at the right."""
    rows = [
        table_of(problem.surfaces.get(at.name) or problem.pccs.get(at.name))
        for at in problem.accelerators
    ]
    tables = np.zeros((len(rows), max(map(len, rows), default=1)))
    for table, row in zip(tables, rows, strict=True):
        table[: len(row)] = row
    return tables


def losses(surface: ContentionSurface) -> tuple[Array, Array, Array]:
    """Own and external demands, and the points lost of each own demand beside each external one.

    Raises InputError for axes that do not ascend from above zero, or a grid of another shape.
    """
    own, external = np.array(surface.own_byte_per_s), np.array(surface.external_byte_per_s)
    achieved = np.array(surface.achieved_byte_per_s, dtype=float)
    for axis in (own, external):
        if not len(axis) or axis[0] <= 0 or np.any(np.diff(axis) <= 0):
            raise InputError(
                "the demands of a contention surface are not positive and ascending",
                where=", ".join(f"{value:g}" for value in axis),
                fix="sort them, and leave out the row or column of 0",
            )
    if achieved.shape != (len(own), len(external)) or not np.all(achieved >= 0):
        raise InputError(
            f"a contention surface needs {len(own)} × {len(external)} achieved bytes per second",
            where=f"it has {achieved.shape}",
            fix="measure each own demand beside each external one",
        )
    return own, external, 100 - 100 * achieved / own[:, None]


def fit_pccs(surface: ContentionSurface) -> PccsFit:
    """The PCCS parameters with the least mean absolute error, in points, over the surface.

    The search is over TBWDC, CBP and rate together, a grid and then finer grids around its best
    points; for each of them the best of all limits between the regions is exact. Beside its own
    error stands that of rows that the fit did not see (None below four rows).
    """
    own, external, lost = losses(surface)
    fit = _fit(own, external, lost)
    error = _error(fit, own, external, lost)
    left_out, unknown = None, {"left_out_points": "fewer than four own demands"}
    if len(own) >= 4:
        unknown = {}
        left_out = 0.0
        for row in range(len(own)):
            rest = np.arange(len(own)) != row
            seen = _fit(own[rest], external, lost[rest])
            left_out += _error(seen, own[[row]], external, lost[[row]]) / len(own)
    return PccsFit(
        normal_byte_per_s=float(fit[1]),
        intensive_byte_per_s=float(fit[2]),
        peak_byte_per_s=float(external[-1]),
        minor_points=float(fit[3] * external[-1]),
        contention_byte_per_s=float(fit[4]),
        total_byte_per_s=float(fit[5]),
        points_per_byte_per_s=float(fit[6]),
        error_points=error,
        left_out_points=left_out,
        unknown=unknown,
    )


def error_points(fit: PccsFit, surface: ContentionSurface) -> float:
    """The mean absolute error of a fit over a surface, in points."""
    return _error(table_of(fit), *losses(surface))


def _error(table: Array, own: Array, external: Array, lost: Array) -> float:
    modelled = [[100 - 100 * speed(table, x, y) for y in external] for x in own]
    return float(np.abs(np.array(modelled) - lost).mean())


def _fit(own: Array, external: Array, lost: Array) -> Array:
    """A table of ``speed``: the best of a grid over TBWDC, CBP and rate, refined."""
    slopes, minor_error = _minor_rows(external, lost)
    scale = np.array([own[-1] + external[-1], external[-1], 0.0])
    steepest = np.diff(lost, axis=1, prepend=0) / np.diff(external, prepend=0)
    scale[2] = max(float(steepest.max()), 1e-12)
    axes = np.linspace(0, 1, _GRID + 1)[1:]
    grid = np.stack(np.meshgrid(axes, axes, axes, indexing="ij"), axis=-1).reshape(-1, 3)
    errors, _, _ = _grid_errors(grid * scale, own, external, lost, minor_error)
    around = np.linspace(-1, 1, _ZOOM)
    box = np.stack(np.meshgrid(around, around, around, indexing="ij"), axis=-1).reshape(-1, 3)
    best: tuple[float, Any, int, int] | None = None
    for start in grid[np.argsort(errors, kind="stable")[:_STARTS]]:
        point, step = start, 1.0 / _GRID
        for _ in range(_ROUNDS):
            near = np.clip(point + box * step, 1e-6, 1)
            errors, firsts, lasts = _grid_errors(near * scale, own, external, lost, minor_error)
            at = int(np.argmin(errors))
            point, step = near[at], step * 0.6
        if best is None or errors[at] < best[0]:
            best = (float(errors[at]), point * scale, int(firsts[at]), int(lasts[at]))
    assert best is not None  # noqa: S101 - there is a start
    _, (total, limit, rate), first, last = best
    edges = np.concatenate([[0.0], (own[1:] + own[:-1]) / 2, [own[-1] + external[-1]]])
    return np.array([_PCCS, edges[first], edges[last], slopes[first], limit, total, rate])


def _minor_rows(external: Array, lost: Array) -> tuple[Array, Array]:
    """The slope of the first n rows, were they minor, and their summed error; n = 0, 1, ..."""
    slopes, errors = np.zeros(len(lost) + 1), np.zeros(len(lost) + 1)
    for n in range(1, len(lost) + 1):
        each, weight = lost[:n] / external, np.broadcast_to(external, (n, len(external)))
        order = np.argsort(each, axis=None)
        summed = np.cumsum(weight.ravel()[order])
        median = each.ravel()[order][int(np.searchsorted(summed, summed[-1] / 2))]
        slopes[n] = max(median, 0.0)  # the weighted median has the least absolute error
        errors[n] = np.abs(slopes[n] * external - lost[:n]).sum()
    return slopes, errors


def _grid_errors(
    points: Array, own: Array, external: Array, lost: Array, minor_error: Array
) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Summed error of each (TBWDC, CBP, rate) at its best limits: rows before the first are
    minor, rows from the last on intensive.
    """
    total, limit, rate = (points[:, at, None, None] for at in range(3))
    x, y = own[:, None], external
    reached = np.minimum(y, limit)
    normal = np.clip(np.where(x + y > total, rate * (x + reached - total), 0), 0, 99)
    intensive = np.clip(rate * (x + limit - total) / limit * reached, 0, 99)
    n_points, n_rows = len(points), len(own)
    before = np.zeros((n_points, n_rows + 1))
    before[:, 1:] = np.cumsum(np.abs(normal - lost).sum(axis=2), axis=1)
    after = np.zeros((n_points, n_rows + 1))
    after[:, :-1] = np.cumsum(np.abs(intensive - lost).sum(axis=2)[:, ::-1], axis=1)[:, ::-1]
    starts = minor_error - before  # of each first row that is not minor
    least = np.minimum.accumulate(starts, axis=1)
    sums = least + before + after
    lasts = np.argmin(sums, axis=1)
    errors = np.take_along_axis(sums, lasts[:, None], axis=1)[:, 0]
    reachable = np.where(np.arange(n_rows + 1) <= lasts[:, None], starts, np.inf)
    return errors, np.argmin(reachable, axis=1), lasts
