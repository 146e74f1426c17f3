"""Times carried over between boards, against baselines, on networks that were left out.

    python benchmarks/board_transfer.py [--data FOLDER] [--trtutils FOLDER]

Of each pair of recorded boards k networks are anchors, at random with a fixed seed, and others are
predicted from their time on the first board. Beside Mansard: the median of the anchors' ratios; the
ratio of the boards' nominal peaks, and of cores times clock, which need no anchor; a least-squares
line of logarithms. A second table has the calibration by totals on the same networks and anchors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from recorded.boards import (
    NOMINAL,
    SEED,
    BoardSet,
    Draw,
    Network,
    Times,
    draws,
    read_sets,
    shipped,
)
from recorded.network_totals import NetworkTable, read_tables

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA
from mansard.analytics.models.predict.board_line import (
    Carried,
    CountedAnchors,
    best_anchor,
    carry_counted,
    fit_board_line,
)
from mansard.analytics.models.predict.board_transfer import kind_of
from mansard.analytics.models.predict.totals_calibration import apply_totals, calibrate_totals

Array = NDArray[np.float64]
COUNTS = (1, 2, 4, 8)
MANSARD = "Mansard"
N_DRAWS = 10


@dataclass(frozen=True, eq=False)
class Errors:
    """ln predicted over recorded, by model. ``held`` and ``half``: of Mansard's 95 % interval."""

    logs: dict[str, Array]
    held: NDArray[np.bool_]
    half: Array
    ratio: float  # of the boards at the anchors


def judge(draw: Draw) -> Errors:
    """What every model is off on the networks of ``draw`` that are left out."""
    (anchors_a, anchors_b), (left_a, left_b) = draw.anchors.T, draw.left_out.T
    line = fit_board_line(anchors_a, anchors_b)
    carried = line.carry(left_a)
    predicted = {
        MANSARD: carried.seconds,
        "one factor": left_a * np.median(anchors_b / anchors_a),
    }
    if len(anchors_a) > 1:
        slope, level = np.polyfit(np.log(anchors_a), np.log(anchors_b), 1)
        predicted["log line"] = np.exp(level + slope * np.log(left_a))
    one, other = (NOMINAL.get(name) for name in draw.boards)
    if one is not None and other is not None:
        predicted["peaks"] = left_a * one[0] / other[0]
        predicted["cores · f"] = left_a * one[1] / other[1]
    logs = {name: np.log(seconds / left_b) for name, seconds in predicted.items()}
    return Errors(logs, np.abs(logs[MANSARD]) < carried.half, carried.half, line.ratio)


def planned(recording: BoardSet) -> Iterator[Draw]:
    """One anchor on each pair of boards, chosen as ``mansard board plan`` does."""
    for draw in draws(recording, 1, 1):
        one, other = (recording.boards[name] for name in draw.boards)
        both = sorted(one.keys() & other.keys())
        times = np.array([[one[network], other[network]] for network in both])
        log_s = np.log(times[:, 0])
        at = best_anchor(log_s, log_s, np.array([]))
        rest = [i for i, network in enumerate(both) if network[0] != both[at][0]]
        yield Draw(draw.boards, times[[at]], times[rest])


def shown(logs: Sequence[Array]) -> str:
    """Median and nine-of-ten error in percent."""
    if not logs:
        return "– | –"
    sizes = 100 * np.abs(np.expm1(np.concatenate(logs)))
    return f"{np.median(sizes):.2g} | {np.quantile(sizes, 0.9):.3g}"


def head(models: Sequence[str], first: str = "recording") -> str:
    """The head of a table of ``models``."""
    errors = [f"{model}: {column}" for model in models for column in ("median", "nine of ten")]
    columns = [first, "anchors", "n", *errors, "coverage", "width"]
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"


MODELS = (MANSARD, "one factor", "log line", "peaks", "cores · f")


def row(label: str, k: str, found: Sequence[Errors], models: Sequence[str] = MODELS) -> str:
    """A row of a table of ``models``."""
    logs = {m: [one.logs[m] for one in found if m in one.logs] for m in models}
    held, half = (np.concatenate([getattr(e, name) for e in found]) for name in ("held", "half"))
    cells = [label, k, str(held.size), *(shown(logs[model]) for model in models)]
    cells += [f"{100 * held.mean():.0f} %", f"{np.exp(np.median(half)):.2f}"]
    return f"| {' | '.join(cells)} |"


def left_out(n_draws: int = N_DRAWS) -> dict[str, dict[int, tuple[float, float]]]:
    """``board_transfer.LEFT_OUT``: of all pairs of Jetsons that ship, by kind and anchors."""
    table: dict[str, dict[int, tuple[float, float]]] = {"near": {}, "far": {}}
    sets = [BoardSet(author, shipped(author), is_new=False) for author in ("Justin Davis", "Nota")]
    for k in (1, 2, 4):
        found = [judge(draw) for recording in sets for draw in draws(recording, k, n_draws)]
        for kind, of_kind in table.items():
            logs = [e.logs[MANSARD] for e in found if kind_of(e.ratio) == kind]
            sizes = np.abs(np.expm1(np.concatenate(logs)))
            of_kind[k] = (float(np.median(sizes)), float(np.quantile(sizes, 0.9)))
    return table


CHOSEN_MODELS = (MANSARD, "any board", "one factor")


def of_several(author: str, k: int, n_draws: int) -> Iterator[Errors]:
    """Each board of ``author`` from that of the others whose interval is the narrowest."""
    boards = shipped(author)
    both = sorted(set.intersection(*(set(times) for times in boards.values())))
    rng = np.random.default_rng([SEED, k, *author.encode()])
    for board, own in boards.items():
        for _ in range(n_draws):
            order = [both[at] for at in rng.permutation(len(both))]
            seen = {network for network, _ in order[:k]}
            rest = [network for network in order[k:] if network[0] not in seen]
            found = [
                judge(Draw((name, board), _times(times, own, order[:k]), _times(times, own, rest)))
                for name, times in boards.items()
                if name != board and rest
            ]
            for at in range(len(rest)):
                best = min(found, key=lambda one: float(one.half[at]))
                logs = {m: best.logs[m][[at]] for m in (MANSARD, "one factor")}
                logs["any board"] = np.array([one.logs[MANSARD][at] for one in found])
                yield Errors(logs, best.held[[at]], best.half[[at]], best.ratio)


def _times(one: Times, other: Times, networks: Sequence[Network]) -> Array:
    return np.array([[one[network], other[network]] for network in networks])


COUNTED_MODELS = (MANSARD, "the line alone", "one factor", "calibration by totals")


def counted(data: Path, n_draws: int) -> Iterator[str]:
    """Rows of the second table: networks of which somebody counted the work and the traffic."""
    groups: dict[str, dict[str, NetworkTable]] = {}
    for table in read_tables(data):
        if table.name == "YOLO, TensorRT":
            board, size = table.label.split()
            groups.setdefault(f"15 YOLOs of {size} px, 3 Orins", {})[board] = table
        elif table.name == "12 networks, TensorRT":
            groups.setdefault("12 networks, 6 boards", {})[table.label] = table
    yield head(COUNTED_MODELS)
    for label, boards in groups.items():
        for k in COUNTS:
            pairs = permutations(boards.values(), 2)
            found = [one for pair in pairs for one in of_pair(*pair, k, n_draws)]
            yield row(label, str(k), found, COUNTED_MODELS)


def of_pair(one: NetworkTable, other: NetworkTable, k: int, n_draws: int) -> Iterator[Errors]:
    """Errors of ``n_draws`` choices of ``k`` anchors, with parts at the other board's roofs."""
    first, second = (
        dict(table.observations.select("network", "latency_s").iter_rows())
        for table in (one, other)
    )
    shares = other.predictions.select("network", "compute_s", "memory_s", "n_launches")
    parts = {name: [1.0, *values] for name, *values in shares.iter_rows()}
    names = sorted(first.keys() & second.keys())
    rng = np.random.default_rng([SEED, k, *f"{one.label} {other.label}".encode()])
    for _ in range(n_draws):
        order = [names[at] for at in rng.permutation(len(names))]
        times = np.array([[first[name], second[name]] for name in order])
        draw = Draw((one.label, other.label), times[:k], times[k:])
        plain, rows = judge(draw), np.array([parts[name] for name in order])
        alone = plain.logs[MANSARD]
        carried = Carried(np.exp(alone) * times[k:, 1], plain.half)
        anchors = CountedAnchors(times[:k, 0], times[:k, 1], rows[:k])
        seconds = carry_counted(carried, times[k:, 0], anchors, rows[k:]).seconds
        mine = np.log(seconds / times[k:, 1])
        by_totals = _by_totals(other, order[:k], order[k:]) - np.log(times[k:, 1])
        logs = (mine, alone, plain.logs["one factor"], by_totals)
        held = np.abs(mine) < plain.half
        named = dict(zip(COUNTED_MODELS, logs, strict=True))
        yield Errors(named, held, plain.half, plain.ratio)


def _by_totals(table: NetworkTable, seen: Sequence[str], rest: Sequence[str]) -> Array:
    """ln of seconds of ``rest``, by the calibration that needs no other board."""
    known = table.observations.filter(pl.col("network").is_in(list(seen)))
    found = calibrate_totals(table.predictions, known)
    rows = apply_totals(table.predictions, found, pl.DataFrame(schema=COEFFICIENT_SCHEMA))
    times = dict(rows.select("network", "latency_s").iter_rows())
    return np.log([times[name] for name in rest])


def lines(data: Path, trtutils: Path | None, n_draws: int) -> Iterable[str]:
    """Both tables, in Markdown."""
    sets = read_sets(data, trtutils)
    yield head(MODELS)
    for recording in sets:
        label = f"{recording.name}{' (new)' if recording.is_new else ''}"
        for k in COUNTS:
            found = [judge(draw) for draw in draws(recording, k, n_draws)]
            if found:
                yield row(label, str(k), found)
        yield row(label, "1, planned", [judge(draw) for draw in planned(recording)])
    yield f"\n{head(CHOSEN_MODELS, 'board of')}"
    for author in ("Justin Davis", "Nota"):
        for k in COUNTS:
            yield row(author, str(k), list(of_several(author, k, n_draws)), CHOSEN_MODELS)
    yield f"\nLEFT_OUT: {left_out(n_draws)}\n"
    yield from counted(data, max(1, n_draws // 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--trtutils", type=Path)
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    chosen = parser.parse_args()
    for text in lines(chosen.data, chosen.trtutils, chosen.draws):
        print(text, flush=True)
