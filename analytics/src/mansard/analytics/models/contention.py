"""The memory traffic that accelerators lose beside one another, from measured points.

A point's speed is the median of its samples beside the other over the median of those alone, which
were taken in turns with them. Its loss is 100·(1 − speed) points. Demands are medians of all
samples of a share alone, so both axes of a surface are what was reached, not what was asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import device_labels
from mansard.core.records import ContentionPoint, ContentionSurface, PccsFit, Record, Source

_LEAST_BYTE_PER_S = 1.0  # anything less is no demand
_CLEAR = 2.0  # times the noise: a loss below it may be noise
_LEAST_LINES = 2  # of a surface: own demands, and external ones


class FitLine(Record, frozen=True, kw_only=True):
    """The speed that the fit gives one own demand, straight between its points."""

    own_byte_per_s: float
    external_byte_per_s: tuple[float, ...]  # ascending from 0
    speed: tuple[float, ...]  # as a share of its own


class VictimContention(Record, frozen=True, kw_only=True):
    """One accelerator beside another, on a machine in a mode. Points are percent of its speed."""

    run_id: str
    run_ids: tuple[str, ...]  # all runs that measured the pair
    device: str
    mode: str
    source: Source
    victim: str
    aggressor: str
    surface: ContentionSurface | None
    fit: PccsFit | None  # modelled, from the surface
    fit_lines: tuple[FitLine, ...]  # for each own demand of the surface
    worst_points: float | None  # lost at most, of any point
    noise_points: float | None  # lost or won at most where nothing ran beside it
    is_contended: bool | None  # the other's most costs clearly more than the noise
    repeat_points: float | None  # median difference from the same shares in other runs
    n_points: int  # that count
    n_left_out: int  # disturbed, not run, or not on a whole row and column
    remark: str  # why points are left out; empty where none is


class _Where(NamedTuple):
    device: str
    mode: str
    victim: str
    aggressor: str


class Cell(NamedTuple):
    """Shares of the victim and of the aggressor."""

    own: float
    other: float


def measured_contention(dataset: Dataset) -> tuple[VictimContention, ...]:
    """One for each accelerator beside another, without a fit, by device, mode and name.

    Of several runs the one with the most points that count, of these the newest.
    """
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices = device_labels(dataset.all_manifests)
    groups: dict[_Where, dict[str, list[ContentionPoint]]] = defaultdict(lambda: defaultdict(list))
    for row in dataset.contention:
        mode = runs[row.run_id].mode_read_back.name
        where = _Where(devices[row.run_id], mode, row.victim, row.aggressor)
        groups[where][row.run_id].append(row)
    victims = []
    for where, by_run in sorted(groups.items()):
        best = max(by_run, key=lambda run: (sum(map(_counts, by_run[run])), runs[run].started_utc))
        back = groups.get(where._replace(victim=where.aggressor, aggressor=where.victim), {})
        victims.append(_victim(where, best, by_run, back.get(best, ())))
    return tuple(victims)


def _counts(row: ContentionPoint) -> bool:
    rates = (row.alone_byte_per_s, row.achieved_byte_per_s)
    is_there = all(rate and median(rate) >= _LEAST_BYTE_PER_S for rate in rates)
    return is_there and not row.failure and not row.disturbances


def _speed(row: ContentionPoint) -> float:
    return median(row.achieved_byte_per_s) / median(row.alone_byte_per_s)


def _speeds(rows: Iterable[ContentionPoint]) -> dict[Cell, float]:
    return {
        Cell(row.victim_share, row.aggressor_share): _speed(row) for row in rows if _counts(row)
    }


def _demands(rows: Iterable[ContentionPoint]) -> dict[float, float]:
    """Bytes per second alone, by share."""
    samples: dict[float, list[float]] = defaultdict(list)
    for row in rows:
        if _counts(row):
            samples[row.victim_share] += row.alone_byte_per_s
    return {share: median(rates) for share, rates in samples.items()}


def _victim(
    where: _Where,
    run_id: str,
    by_run: Mapping[str, Sequence[ContentionPoint]],
    back: Iterable[ContentionPoint],
) -> VictimContention:
    """The points of one run; ``back``: its rows in which the aggressor is the victim."""
    rows, others = by_run[run_id], [by_run[run] for run in by_run if run != run_id]
    speeds, own_demands, external = _speeds(rows), _demands(rows), _demands(back)
    cells = {cell: speed for cell, speed in speeds.items() if cell.other in external}
    surface = surface_of(cells, own_demands, external)
    n_points = (
        0 if surface is None else len(surface.own_byte_per_s) * len(surface.external_byte_per_s)
    )
    alone = [100 * abs(1 - speed) for cell, speed in speeds.items() if cell.other == 0]
    beside = {cell: 100 * (1 - speed) for cell, speed in speeds.items() if cell.other > 0}
    most = max((cell.other for cell in beside), default=0.0)
    at_most = [lost for cell, lost in beside.items() if cell.other == most]
    noise = max(alone, default=None)
    repeats = [
        100 * abs(speed - speeds[cell])
        for cell, speed in chain.from_iterable(_speeds(other).items() for other in others)
        if cell in speeds and cell.other > 0
    ]
    n_beside = sum(row.aggressor_share > 0 for row in rows)
    few = "too few undisturbed points"
    values: dict[str, float | ContentionSurface | bool | None] = {
        "surface": surface,
        "fit": None,
        "worst_points": max(beside.values(), default=None),
        "noise_points": noise,
        "is_contended": max(at_most) > _CLEAR * noise if at_most and noise is not None else None,
        "repeat_points": median(repeats) if repeats else None,
    }
    reasons = dict.fromkeys(values, few) | {"repeat_points": "measured once"}
    return VictimContention(
        run_id=run_id,
        run_ids=tuple(sorted(by_run)),
        source=rows[0].source,
        fit_lines=(),
        n_points=n_points,
        n_left_out=n_beside - n_points,
        remark=_remark(rows, n_beside - n_points),
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **where._asdict(),
        **values,  # type: ignore[arg-type]
    )


def _remark(rows: Iterable[ContentionPoint], n_left_out: int) -> str:
    if not n_left_out:
        return ""
    why = [row.failure or row.disturbances[0] for row in rows if row.failure or row.disturbances]
    return f"{n_left_out} points are left out: {why[0] if why else 'others of their demand are'}"


def surface_of(
    speeds: Mapping[Cell, float], demands: Mapping[float, float], external: Mapping[float, float]
) -> ContentionSurface | None:
    """The surface over whole rows and columns; None for less than two of each.

    ``speeds``: by the two shares; ``demands`` and ``external``: bytes per second of a share alone.
    Where a point is missing, the row or the column that lacks more of them is left out.
    """
    # By demand: of equal ones the last counts.
    rows = [k for _, k in sorted({demands[cell.own]: cell.own for cell in speeds}.items())]
    columns = [j for _, j in sorted({external[cell.other]: cell.other for cell in speeds}.items())]
    while rows and columns:
        holes = {
            **{("row", k): sum((k, j) not in speeds for j in columns) / len(columns) for k in rows},
            **{("column", j): sum((k, j) not in speeds for k in rows) / len(rows) for j in columns},
        }
        line, share = max(holes, key=holes.__getitem__)
        if not holes[line, share]:
            break
        (rows if line == "row" else columns).remove(share)
    if len(rows) < _LEAST_LINES or len(columns) < _LEAST_LINES:
        return None
    return ContentionSurface(
        own_byte_per_s=tuple(demands[k] for k in rows),
        external_byte_per_s=tuple(external[j] for j in columns),
        achieved_byte_per_s=tuple(
            tuple(demands[k] * speeds[Cell(k, j)] for j in columns) for k in rows
        ),
    )
