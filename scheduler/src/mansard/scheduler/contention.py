"""How fast a group runs while others use the memory: PCCS, or a surface as it was measured.

A speed is the share of the group's speed alone, in (0, 1]. A loss is in points: 100 · (1 − speed).
With x the own demand and y the external one, PCCS (Xu, Belviranli, Shen, Vetter, MICRO 2021) has

    minor      x ≤ normal:     minor_points · y / peak
    normal     between:        rate · (x + min(y, CBP) − TBWDC)   once x + y > TBWDC
    intensive  x ≥ intensive:  rate · (x + CBP − TBWDC) / CBP · min(y, CBP)

How each is fitted, and how far off it is: docs/understand/contention.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError
from mansard.core.records.schedule import ContentionSurface, PccsFit, Problem

Array = npt.NDArray[np.float64]

LEAST_SPEED = 0.01  # a fit that is carried too far stops nothing
_GRID, _ZOOM, _STARTS, _ROUNDS = 16, 5, 8, 16


def contention_of(problem: Problem, accelerator: str) -> PccsFit | ContentionSurface | None:
    """The contention model of an accelerator: its surface, else its fit, else None.

    Raises InputError for a surface or a fit that is none.
    """
    surface, fit = problem.surfaces.get(accelerator), problem.pccs.get(accelerator)
    if surface is not None:
        losses(surface)
        return surface
    if fit is not None:
        least = min(fit.normal_byte_per_s, fit.minor_points, fit.points_per_byte_per_s)
        above = min(fit.peak_byte_per_s, fit.contention_byte_per_s, fit.total_byte_per_s)
        if least < 0 or above <= 0 or fit.intensive_byte_per_s < fit.normal_byte_per_s:
            raise InputError(
                "the parameters of a PCCS fit are not positive, or its regions not in order",
                where=f"pccs of {accelerator}",
                fix="0 ≤ normal ≤ intensive; peak, contention and total above 0",
            )
    return fit


def curve(
    contention: PccsFit | ContentionSurface | None, demand: float
) -> tuple[Sequence[float], Sequence[float]]:
    """External demands, ascending from 0, and the speed at each of a group with this demand.

    Straight between its points and constant beyond the last; so it is exactly PCCS, or the
    bilinear surface: full speed without external demand, the nearest edge outside.
    """
    if contention is None or demand <= 0:
        return (0.0,), (1.0,)
    if isinstance(contention, PccsFit):
        return _pccs_curve(contention, demand)
    rows, external, lost = losses(contention)
    speeds = np.clip(1 - lost / 100, LEAST_SPEED, 1)
    at_own = [float(np.interp(demand, rows, column)) for column in speeds.T]
    return (0.0, *external.tolist()), (1.0, *at_own)


def _pccs_curve(fit: PccsFit, demand: float) -> tuple[Sequence[float], Sequence[float]]:
    """The corner points of the region that ``demand`` falls in, and the speeds at them."""
    most = 100 * (1 - LEAST_SPEED)
    limit, rate = fit.contention_byte_per_s, fit.points_per_byte_per_s
    beyond = demand - fit.total_byte_per_s
    if demand <= fit.normal_byte_per_s:
        limit, slope, start, base = math.inf, fit.minor_points / fit.peak_byte_per_s, 0.0, 0.0
    elif demand >= fit.intensive_byte_per_s:
        slope, start, base = max(rate * (beyond + limit) / limit, 0.0), 0.0, 0.0
    else:
        slope, start, base = rate, max(-beyond, 0.0), min(rate * max(beyond, 0.0), most)
    end = min(limit, start + (most - base) / slope) if slope > 0 else 0.0
    first = 1 - base / 100
    if end <= start:
        return (0.0,), (first,)
    last = first - slope * (end - start) / 100
    return ((0.0, start, end), (1.0, first, last)) if start > 0 else ((0.0, end), (first, last))


def speed(
    contention: PccsFit | ContentionSurface | None,
    own_byte_per_s: float,
    external_byte_per_s: float,
) -> float:
    """The speed of a group relative to its speed alone, in (0, 1]."""
    if external_byte_per_s <= 0:
        return 1.0
    return float(np.interp(external_byte_per_s, *curve(contention, own_byte_per_s)))


def own_demand_slowdown(fit: PccsFit, own_byte_per_s: float) -> float:
    """By which factor the rule "haxconn" stretches a group, whatever runs beside it.

    The solver of HaX-CoNN's artifact (Dagli, Belviranli, PPoPP 2024, repository
    ismetdagli/HaX-CoNN, src/z3_solver_multi_dnn.py) has 100 / (100 − points). With the own demand
    x in GB/s the points are

        minor      x < normal:     minor_points · x / peak    PCCS has the external demand there
        normal     between:        x                          PCCS has rate · (x + y − TBWDC)
        intensive  x ≥ intensive:  rate · (x + CBP − TBWDC)   PCCS beside any y ≥ CBP

    Points end at 99, as in ``curve``.
    """
    if own_byte_per_s < fit.normal_byte_per_s:
        points = fit.minor_points * own_byte_per_s / fit.peak_byte_per_s
    elif own_byte_per_s < fit.intensive_byte_per_s:
        points = own_byte_per_s / 1e9
    else:
        beyond = own_byte_per_s + fit.contention_byte_per_s - fit.total_byte_per_s
        points = fit.points_per_byte_per_s * beyond
    return 100 / (100 - min(max(points, 0.0), 100 * (1 - LEAST_SPEED)))


def losses(surface: ContentionSurface) -> tuple[Array, Array, Array]:
    """Own and external demands, and the loss in points for each pair of them.

    Raises InputError for axes that do not ascend from above zero, or a grid of another shape.
    """
    demand, external = np.array(surface.own_byte_per_s), np.array(surface.external_byte_per_s)
    achieved = np.array(surface.achieved_byte_per_s, dtype=float)
    for axis in (demand, external):
        if not len(axis) or axis[0] <= 0 or np.any(np.diff(axis) <= 0):
            raise InputError(
                "the demands of a contention surface are not positive and ascending",
                where=", ".join(f"{value:g}" for value in axis),
                fix="sort them, and leave out the row or column of 0",
            )
    if achieved.shape != (len(demand), len(external)) or not np.all(achieved >= 0):
        raise InputError(
            f"a contention surface needs {len(demand)} × {len(external)} achieved bytes per second",
            where=f"it has {achieved.shape}",
            fix="measure each own demand beside each external one",
        )
    return demand, external, 100 - 100 * achieved / demand[:, None]


def fit_pccs(surface: ContentionSurface) -> PccsFit:
    """The PCCS parameters with the least mean absolute error, in points, over the surface.

    The search is over TBWDC, CBP and rate together, a grid and then finer grids around its best
    points; for each of them the best limits between the regions are found exactly. Beside its own
    error stands that of rows that the fit did not see (None below four rows).
    """
    demand, external, lost = losses(surface)
    fit = _fit(demand, external, lost)
    left_out, unknown = None, {"left_out_points": "fewer than four own demands"}
    if len(demand) >= 4:
        errors = []
        for row in range(len(demand)):
            rest = np.arange(len(demand)) != row
            seen = _fit(demand[rest], external, lost[rest])
            errors.append(_error(seen, demand[[row]], external, lost[[row]]))
        left_out, unknown = float(np.mean(errors)), {}
    error = _error(fit, demand, external, lost)
    return msgspec.structs.replace(
        fit, error_points=error, left_out_points=left_out, unknown=unknown
    )


def error_points(fit: PccsFit, surface: ContentionSurface) -> float:
    """The mean absolute error of a fit over a surface, in points."""
    return _error(fit, *losses(surface))


def _error(fit: PccsFit, demand: Array, external: Array, lost: Array) -> float:
    modelled = [100 - 100 * np.interp(external, *curve(fit, x)) for x in demand]
    return float(np.abs(np.array(modelled) - lost).mean())


def _fit(demand: Array, external: Array, lost: Array) -> PccsFit:
    """The best of a grid over TBWDC, CBP and rate, refined; its errors are not in it."""
    slopes, minor_error = _minor_rows(external, lost)
    steepest = np.diff(lost, axis=1, prepend=0) / np.diff(external, prepend=0)
    scale = np.array([demand[-1] + external[-1], external[-1], max(float(steepest.max()), 1e-12)])
    grid = _cube(np.linspace(0, 1, _GRID + 1)[1:])
    errors, _, _ = _grid_errors(grid * scale, demand, external, lost, minor_error)
    box, refined = _cube(np.linspace(-1, 1, _ZOOM)), []
    for start in grid[np.argsort(errors, kind="stable")[:_STARTS]]:
        point, step = start, 1.0 / _GRID
        for _ in range(_ROUNDS):
            near = np.clip(point + box * step, 1e-6, 1)
            errors, firsts, lasts = _grid_errors(near * scale, demand, external, lost, minor_error)
            at = int(np.argmin(errors))
            point, step = near[at], step * 0.6
        refined.append((float(errors[at]), int(firsts[at]), int(lasts[at]), *(point * scale)))
    _, first, last, total, limit, rate = min(refined)
    edges = np.concatenate([[0.0], (demand[1:] + demand[:-1]) / 2, [demand[-1] + external[-1]]])
    return PccsFit(
        normal_byte_per_s=float(edges[first]),
        intensive_byte_per_s=float(edges[last]),
        peak_byte_per_s=float(external[-1]),
        minor_points=float(slopes[first] * external[-1]),
        contention_byte_per_s=float(limit),
        total_byte_per_s=float(total),
        points_per_byte_per_s=float(rate),
        error_points=0.0,
        left_out_points=0.0,
    )


def _cube(axis: Array) -> Array:
    return np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)


def _minor_rows(external: Array, lost: Array) -> tuple[Array, Array]:
    """The slope of the first n rows as the minor region, and their summed error; n = 0, 1, …"""
    slopes, errors = np.zeros(len(lost) + 1), np.zeros(len(lost) + 1)
    for n in range(1, len(lost) + 1):
        ratios, weight = lost[:n] / external, np.broadcast_to(external, (n, len(external)))
        order = np.argsort(ratios, axis=None)
        summed = np.cumsum(weight.ravel()[order])
        median = ratios.ravel()[order][int(np.searchsorted(summed, summed[-1] / 2))]
        slopes[n] = max(median, 0.0)  # the weighted median has the least absolute error
        errors[n] = np.abs(slopes[n] * external - lost[:n]).sum()
    return slopes, errors


def _grid_errors(
    points: Array, demand: Array, external: Array, lost: Array, minor_error: Array
) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Summed error of each (TBWDC, CBP, rate) at its best limits: rows before the first are
    minor, rows from the last on intensive.
    """
    total, limit, rate = (points[:, at, None, None] for at in range(3))
    x, y = demand[:, None], external
    reached = np.minimum(y, limit)
    normal = np.clip(np.where(x + y > total, rate * (x + reached - total), 0), 0, 99)
    intensive = np.clip(rate * (x + limit - total) / limit * reached, 0, 99)
    n_points, n_rows = len(points), len(demand)
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
