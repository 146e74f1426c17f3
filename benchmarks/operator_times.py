"""Operators by their shape, from 100 or 300 of the same device, on others that were left out.

    python benchmarks/operator_times.py [FOLDER]

FOLDER: recorded data (../shared/data beside the project if not given). For each data set: the error
of single operators and of sums of 40 of them (median / nine of ten / worst), how often the 95 %
interval of a sum holds, and the seconds of the fit. Beside the process: the roofs, a factor of the
roof for all (the median's), and a + b · W + c · Q of least relative squares. Operators that are
fitted to and those that are predicted are drawn at random, three times; all shapes differ.
Then networks of an AGX Orin (eager PyTorch, layers without shapes) from four of ten networks, and
NeuSight's GPUs, each predicted from the others and its data sheet.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recorded.timed_operators import (
    convolutions,
    gpus,
    linears,
    neusight,
    orin_networks,
    relus,
)
from recorded.unseen_gpu import from_others

from mansard.analytics.models.energy.least_squares import solve_active_set
from mansard.analytics.models.predict.operator_times import (
    OperatorTimes,
    TimedOperator,
    fit_operator_times,
)
from mansard.core.errors import InputError

Array = NDArray[np.float64]
_DATA = Path(__file__).resolve().parents[2] / "shared/data"
_N_DRAWS, _MOST_PREDICTED = 3, 800
_N_SUMS, _LAYERS = 200, 40


def main(arguments: Sequence[str]) -> None:
    """Print all tables."""
    folder = Path(arguments[0]) if arguments else _DATA
    for name, rows in _data_sets(folder):
        for n_fitted in (100, 300):
            if len(rows) >= n_fitted + 2 * _LAYERS:
                _print_set(name, rows, n_fitted)
    _print_orin(folder)
    _print_unseen(folder)


def _data_sets(folder: Path) -> Iterator[tuple[str, list[TimedOperator]]]:
    yield "A100, convolutions", convolutions()
    yield "A100, linear layers", linears(folder)
    yield "A100, ReLUs", relus(folder)
    yield "A100, all three", [*convolutions(), *linears(folder), *relus(folder)[:1000]]
    for gpu in gpus(folder).values():
        for kind in ("linear", "bmm"):
            yield f"{gpu.name}, {kind}", neusight(folder, kind, gpu)


def _print_set(name: str, rows: list[TimedOperator], n_fitted: int) -> None:
    errors: dict[str, list[Array]] = {}
    sums: dict[str, list[Array]] = {}
    holds: list[float] = []
    fit_s = []
    for draw in range(_N_DRAWS):
        random = np.random.default_rng(draw)
        order = random.permutation(len(rows))
        fitted = [rows[at] for at in order[:n_fitted]]
        others = [rows[at] for at in order[n_fitted : n_fitted + _MOST_PREDICTED]]
        picks = [random.choice(len(others), _LAYERS, replace=False) for _ in range(_N_SUMS)]
        measured = _measured(others)
        begin = time.process_time()
        process = _fitted(fitted)
        fit_s.append(time.process_time() - begin)
        ways = {what: way(fitted)(others) for what, way in _BASELINES.items()}
        ways["process"] = process.predict(others).seconds
        for what, seconds in ways.items():
            errors.setdefault(what, []).append(np.abs(seconds / measured - 1))
            off = [abs(seconds[pick].sum() / measured[pick].sum() - 1) for pick in picks]
            sums.setdefault(what, []).append(np.array(off))
        for pick in picks[: _N_SUMS // 2]:
            total = process.predict([others[at] for at in pick])
            holds.append(total.total_low_s <= measured[pick].sum() <= total.total_high_s)
    print(f"\n{name}: {n_fitted} of {len(rows)}; fitted in {np.median(fit_s):.2f} s of CPU")
    for what, ones in errors.items():
        print(f"  {what:16s} one {_shown(ones)}   sum of {_LAYERS} {_shown(sums[what])}")
    print(f"  the interval of a sum holds in {np.mean(holds):.0%}")


_N_NETWORKS, _N_CHOICES, _MOST_FITTED = 4, 10, 300
_N_OF_OTHERS = 100


def _print_orin(folder: Path) -> None:
    """Networks of the AGX Orin from the layers of four others, in each mode and precision."""
    errors: dict[str, list[Array]] = {}
    holds: list[bool] = []
    for networks in orin_networks(folder):
        random = np.random.default_rng(0)
        names = sorted({name for name, _ in networks})
        for _ in range(_N_CHOICES):
            chosen = set(random.choice(names, _N_NETWORKS, replace=False))
            known = [row for (name, _), rows in networks.items() if name in chosen for row in rows]
            order = random.permutation(len(known))[:_MOST_FITTED]
            fitted = [known[at] for at in order]
            process = _fitted(fitted)
            ways = {what: way(fitted) for what, way in _BASELINES.items()}
            for (name, _), rows in networks.items():
                if name in chosen or {row.kind for row in rows} - {row.kind for row in fitted}:
                    continue
                measured_s = _measured(rows).sum()
                total = process.predict(rows)
                holds.append(total.total_low_s <= measured_s <= total.total_high_s)
                said = {what: way(rows).sum() for what, way in ways.items()}
                said["process"] = total.total_s
                for what, seconds in said.items():
                    errors.setdefault(what, []).append(np.array([abs(seconds / measured_s - 1)]))
    print(f"\nAGX Orin, eager PyTorch: networks from {_MOST_FITTED} layers of {_N_NETWORKS} others")
    for what, values in errors.items():
        print(f"  {what:16s} network {_shown(values)}")
    print(f"  the interval holds in {np.mean(holds):.0%}")


def _print_unseen(folder: Path) -> None:
    """Each of NeuSight's GPUs from 100 products of each of the others, and its data sheet."""
    known = gpus(folder)
    for kind in ("linear", "bmm"):
        rows = {name: neusight(folder, kind, gpu) for name, gpu in known.items()}
        rows = {name: some for name, some in rows.items() if len(some) > 100}
        print(f"\n{kind} of a GPU that was not seen: one product / sum of {_LAYERS}")
        for name, some in rows.items():
            random = np.random.default_rng(0)
            others = {
                known[other]: [there[at] for at in random.permutation(len(there))[:_N_OF_OTHERS]]
                for other, there in rows.items()
                if other != name
            }
            picked = [some[at] for at in random.permutation(len(some))[:_MOST_PREDICTED]]
            measured = _measured(picked)
            for what, seconds in (
                ("roofs of the sheet", _roof_s(picked)),
                ("process", from_others(others, known[name], picked, has_limit=False)),
                ("with board power", from_others(others, known[name], picked, has_limit=True)),
            ):
                one = np.abs(seconds / measured - 1)
                sums = [
                    abs(seconds[pick].sum() / measured[pick].sum() - 1)
                    for pick in (random.choice(len(picked), _LAYERS) for _ in range(_N_SUMS))
                ]
                print(f"  {name:24s} {what:18s} {_shown([one])}   {_shown([np.array(sums)])}")


def _fitted(rows: Sequence[TimedOperator]) -> OperatorTimes:
    process = fit_operator_times(rows)
    if process is None:
        raise InputError(f"{len(rows)} timed operators are too few")
    return process


def _shown(errors: Sequence[Array]) -> str:
    every = np.concatenate(errors)
    middle, most, worst = np.median(every), np.quantile(every, 0.9), every.max()
    return f"{middle:6.1%} {most:6.1%} {worst:7.1%}"


Predicting = Callable[[Sequence[TimedOperator]], Array]


def _roofs(_: Sequence[TimedOperator]) -> Predicting:
    return _roof_s


def _factor(fitted: Sequence[TimedOperator]) -> Predicting:
    kinds = {row.kind for row in fitted}
    factors = {
        kind: float(np.median(_measured(some) / _roof_s(some)))
        for kind in kinds
        for some in [[row for row in fitted if row.kind == kind]]
    }
    return lambda rows: _roof_s(rows) * np.array([factors[row.kind] for row in rows])


def _line(fitted: Sequence[TimedOperator]) -> Predicting:
    def parts(rows: Sequence[TimedOperator]) -> Array:
        return np.array([(1e-6, row.work_s, row.traffic_s) for row in rows])

    relative = parts(fitted) / _measured(fitted)[:, None]
    values = solve_active_set(relative, np.ones(len(fitted)))
    return lambda rows: np.asarray(parts(rows) @ values)


_BASELINES = {"roofs": _roofs, "factor of a kind": _factor, "a + b·W + c·Q": _line}


def _measured(rows: Sequence[TimedOperator]) -> Array:
    return np.array([row.measured_s for row in rows], dtype=np.float64)


def _roof_s(rows: Sequence[TimedOperator]) -> Array:
    return np.array([max(row.work_s, row.traffic_s) for row in rows])


if __name__ == "__main__":
    main(sys.argv[1:])
