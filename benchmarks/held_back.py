"""How far can a number be trusted? Every model judged on data that it has not seen.

    python benchmarks/held_back.py [--data ../shared/data] [--draws 5] [--all]

1. Modes: k = 1 to 10 modes of a recorded network are taken as measured, the others are predicted.
   All choices of k modes, or ``--draws`` random ones of a fixed seed. Beside Mansard: the plain
   rules of ``recorded/mode_baselines.py``. A cell is a recording, a quantity and a k; it is worse
   where the best of the rules, chosen afterwards, has an error less by over a tenth.
2. Decisions: the energy of the chosen mode above the best one that keeps a limit, and how often a
   mode is called feasible that is not (``recorded/regret.py``).
3. Networks: k networks of a board are taken as measured, the others are calibrated by them
   (``recorded/calibrations.py``).
4. Boards: no network of a board is known. What is said then is the roof's "at best".

Errors are median / nine of ten / worst, in percent. Printed in Markdown, for
docs/results/held_back.md, which has one and four measured modes or networks; ``--all`` prints
every k, and decisions by kind of limit and by board.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from recorded.calibrations import print_networks, shown
from recorded.mode_baselines import BASELINES, Rows
from recorded.mode_sweeps import Sweep, read_sweeps
from recorded.named_sweeps import read_named_sweeps
from recorded.network_totals import NetworkTable, read_tables
from recorded.regret import answers, metered, print_answers

from mansard.analytics.decisions.roof_times import longest_s
from mansard.analytics.models.scaling.network_fit import fit_network
from mansard.analytics.models.scaling.network_predict import predict_modes
from mansard.analytics.models.scaling.network_terms import setting_values

Array = NDArray[np.float64]
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10)
SEED, MOST_NETWORKS = 22_112_026, 30
_GROUPS = {"1": (1,), "2": (2,), "3": (3,), "4": (4,), "5, 6": (5, 6), "8, 10": (8, 10)}


@dataclass(frozen=True, eq=False)
class Errors:
    """Logarithms of predicted over recorded; of Mansard whether the interval held, whether it is
    of a mode between the measured ones, and its upper over its lower end."""

    values: Array
    held: NDArray[np.bool_] | None = None
    is_inside: NDArray[np.bool_] | None = None
    width: Array | None = None

    def sizes(self) -> tuple[float, float]:
        """Median and nine of ten of the relative errors."""
        sizes = np.abs(np.expm1(self.values))
        return float(np.median(sizes)), float(np.quantile(sizes, 0.9))

    def cells(self) -> list[str]:
        """Median, nine of ten and worst, in percent."""
        sizes = np.abs(np.expm1(self.values))
        return [
            shown(100 * each) for each in (np.median(sizes), np.quantile(sizes, 0.9), max(sizes))
        ]


_UNITS = {"latency": "s", "power": "w", "energy": "j"}


def choices(n_modes: int, k: int, n_draws: int) -> Iterator[Rows]:
    """All choices of ``k`` modes, or ``n_draws`` random ones."""
    if comb(n_modes, k) <= n_draws:
        yield from (np.array(each) for each in combinations(range(n_modes), k))
        return
    random = np.random.default_rng(SEED)
    for _ in range(n_draws):
        yield np.sort(random.choice(n_modes, k, replace=False))


def judge(
    sweep: Sweep, n_draws: int, n_networks: int = MOST_NETWORKS
) -> dict[tuple[str, int, str], list[Errors]]:
    """Errors by quantity, k and model; of at most so many networks, evenly."""
    found: dict[tuple[str, int, str], list[Errors]] = {}
    networks = sweep.observations.partition_by("network", maintain_order=True)
    kept = np.unique(np.linspace(0, len(networks) - 1, n_networks).astype(int))
    for rows in (networks[at] for at in kept.tolist()):
        modes = rows.select("mode").join(sweep.modes, on="mode", maintain_order="left")
        if rows.height < 3:
            continue
        values = setting_values(modes)
        true = {
            "latency": rows["latency_s"].to_numpy(),
            "power": rows["power_w"].cast(pl.Float64).fill_null(np.nan).to_numpy(),
        }
        true["energy"] = true["latency"] * true["power"]
        for k in (each for each in COUNTS if each < rows.height):
            for at in choices(rows.height, k, n_draws):
                to = np.setdiff1d(np.arange(rows.height), at)
                fit = fit_network(rows[at.tolist()], modes)
                predicted = predict_modes(fit, modes)[to.tolist()]
                for quantity, unit in _UNITS.items():
                    recorded = true[quantity]
                    if np.isnan(recorded).any():
                        continue
                    value, low, high = (
                        predicted[f"{quantity}{end}_{unit}"].to_numpy()
                        for end in ("", "_low", "_high")
                    )
                    held = (low <= recorded[to]) & (recorded[to] <= high)
                    inside = predicted["interval"].to_numpy() == "spread"
                    key = quantity, k
                    mine = Errors(np.log(value / recorded[to]), held, inside, high / low)
                    found.setdefault((*key, "Mansard"), []).append(mine)
                    for name, baseline in BASELINES[quantity].items():
                        other = baseline(values, recorded[at], at, to)
                        found.setdefault((*key, name), []).append(
                            Errors(np.log(other / recorded[to]))
                        )
    return found


def joined(parts: Sequence[Errors]) -> Errors:
    """One."""
    held = [part.held for part in parts if part.held is not None]
    inside = [part.is_inside for part in parts if part.is_inside is not None]
    widths = [part.width for part in parts if part.width is not None]
    return Errors(
        np.concatenate([part.values for part in parts]),
        np.concatenate(held) if held else None,
        np.concatenate(inside) if inside else None,
        np.concatenate(widths) if widths else None,
    )


@dataclass(frozen=True)
class Cell:
    """Median and nine of ten of Mansard's errors, and the least of any baseline's."""

    is_pinned: bool
    mine: tuple[float, float]
    best: tuple[float, float]

    def is_worse(self, at: int) -> bool:
        """Whether a baseline is better by over a tenth; 0: at the median, 1: at nine of ten."""
        return self.mine[at] > _WORSE * self.best[at] + _ROUNDED

    def ratio(self, at: int) -> float:
        """Of Mansard's error to the best baseline's."""
        return (self.mine[at] + _ROUNDED) / (self.best[at] + _ROUNDED)


_WORSE, _ROUNDED = 1.1, 5e-4  # less than half a per mille is no difference


def _shown(groups: Sequence[str], is_whole: bool) -> Sequence[str]:
    """The rows that are printed: of one mode, and of four or the most below that."""
    few = [group for group in groups if group in "1234"]
    return groups if is_whole else list(dict.fromkeys((few[0], few[-1])))


HEAD = "| k | rule | median | nine of ten | worst |\n|" + " --- |" * 5
ENDS = " | ".join(
    f"{where}: {column}" for where in ("between", "beyond") for column in ("inside", "n", "width")
)
Coverage = dict[tuple[str, str], Errors]  # Mansard's errors by table and k


def print_modes(
    sweep: Sweep, n_draws: int, is_whole: bool
) -> tuple[dict[str, list[Errors]], list[Cell], Coverage]:
    """The tables of one sweep; returns Mansard's errors by quantity, of two measured modes on, its
    cells, and Mansard's errors of the rows that are printed."""
    found = judge(sweep, n_draws)
    kept: dict[str, list[Errors]] = {}
    cells: list[Cell] = []
    printed: Coverage = {}
    for quantity in _UNITS:
        rules: dict[str, dict[str, Errors]] = {}
        for group, counts in _GROUPS.items():
            mine = _group(found, quantity, counts, "Mansard")
            if mine is None:
                continue
            others = {n: _group(found, quantity, counts, n) for n in BASELINES[quantity]}
            if counts[0] > 1:
                kept.setdefault(quantity, []).append(mine)
            known = {name: errors for name, errors in others.items() if errors}
            cells.append(Cell(sweep.is_pinned, mine.sizes(), _least(known.values())))
            rules[group] = {"Mansard": mine, **known}
        if rules:
            title = f"{sweep.name}: {quantity}"
            print(f"\n**{title}**\n\n{HEAD}")
            for group in _shown(list(rules), is_whole):
                printed[title, group] = rules[group]["Mansard"]
                for name, errors in rules[group].items():
                    print(f"| {group} | {name} | {' | '.join(errors.cells())} |")
    return kept, cells, printed


def _least(errors: Iterable[Errors]) -> tuple[float, float]:
    sizes = np.array([each.sizes() for each in errors])
    return float(sizes[:, 0].min()), float(sizes[:, 1].min())


def _group(
    found: Mapping[tuple[str, int, str], list[Errors]],
    quantity: str,
    counts: Sequence[int],
    name: str,
) -> Errors | None:
    parts = [part for k in counts for part in found.get((quantity, k, name), [])]
    return joined(parts) if parts else None


def _coverage(errors: Errors) -> str:
    """Cells of the intervals between the measured modes and of the bounds beyond them."""
    return " | ".join(_held(errors, is_inside) for is_inside in (True, False))


def _held(errors: Errors, inside: bool) -> str:
    """The share inside, the cases, and the median ratio of the ends."""
    if errors.held is None or errors.is_inside is None or errors.width is None:
        return "– | – | –"
    of = errors.held[errors.is_inside == inside]
    if not of.size:
        return "– | – | –"
    width = np.median(errors.width[errors.is_inside == inside])
    return f"{100 * of.mean():.0f} % | {of.size} | {width:.3g}"


def print_sweeps(sweeps: Sequence[Sweep], n_draws: int, is_whole: bool) -> None:
    """Tables for each sweep and quantity, and how often intervals contain the record."""
    kinds: dict[tuple[str, bool], list[Errors]] = {}
    cells: list[Cell] = []
    printed: Coverage = {}
    for sweep in sweeps:
        by_quantity, of_sweep, of_rows = print_modes(sweep, n_draws, is_whole)
        cells += of_sweep
        printed |= of_rows
        for quantity, errors in by_quantity.items():
            kinds.setdefault((quantity, sweep.is_pinned), []).extend(errors)
    ends = f"{ENDS} |\n|" + " --- |" * 8
    print(f"\n**Intervals of each recording**\n\n| recording | k | {ends}")
    for (title, group), of_row in printed.items():
        print(f"| {title} | {group} | {_coverage(of_row)} |")
    print_cells(cells)
    print(f"\n**Intervals, two measured modes and more**\n\n| quantity | clocks | {ends}")
    for (quantity, is_pinned), errors in sorted(kinds.items()):
        clocks = "pinned" if is_pinned else "governed"
        print(f"| {quantity} | {clocks} | {_coverage(joined(errors))} |")


def print_cells(cells: Sequence[Cell]) -> None:
    """In how many cells a baseline is better by over a tenth, and the median ratio of errors."""
    print("\n**Compared with the best baseline of each cell**\n")
    print("| clocks | cells | worse: median | worse: nine of ten | ratio | ratio, nine of ten |")
    print("|" + " --- |" * 6)
    for is_pinned in (True, False):
        of = [cell for cell in cells if cell.is_pinned == is_pinned]
        worse = [sum(cell.is_worse(at) for cell in of) for at in (0, 1)]
        ratios = [np.median([cell.ratio(at) for cell in of]) for at in (0, 1)]
        print(
            f"| {'pinned' if is_pinned else 'governed'} | {len(of)} | {worse[0]} | {worse[1]} | "
            f"{ratios[0]:.2f} | {ratios[1]:.2f} |"
        )


_KEY = ["network", "batch", "precision"]
_OF_TENSORRT = ("one YOLO in 8 image sizes", "12 networks, TensorRT")  # 27 networks


def _with_roofs(table: NetworkTable) -> pl.DataFrame:
    """The times of a recording, ``recorded_s``, beside those of the roofs, ``roof_s``."""
    return table.predictions.select("device", *_KEY, roof_s="latency_s").join(
        table.observations.select(*_KEY, recorded_s="latency_s"), on=_KEY
    )


def print_boards(data: Path) -> None:
    """How many times the roof's time the recorded ones are: what "at best" leaves open."""
    ratios: dict[str, list[Array]] = {}
    for table in read_tables(data):
        both = _with_roofs(table)
        ratios.setdefault(table.name, []).append((both["recorded_s"] / both["roof_s"]).to_numpy())
    print("| recording | times | recorded / at best: least | median | most | below 1 |")
    print("|" + " --- |" * 6)
    ratios["TensorRT, 27 networks"] = [part for name in _OF_TENSORRT for part in ratios[name]]
    for name, parts in ratios.items():
        of = np.concatenate(parts)
        print(
            f"| {name} | {of.size} | {of.min():.2f} | {np.median(of):.2g} | {of.max():.3g} | "
            f"{100 * (of < 1).mean():.1f} % |"
        )


_MARGINS = (1.0, 1.25, 1.5)
_Corners = list[tuple[float, float]]


def print_longest(data: Path) -> None:
    """The concave envelope of recorded times over their bounds, and of a board left out."""
    rows = pl.concat(
        _with_roofs(table) for table in read_tables(data) if table.name in _OF_TENSORRT
    )
    print("| bound, ms | longest, ms | ratio |\n|" + " --- |" * 3)
    for roof_s, time_s in _envelope(rows):
        print(f"| {1e3 * roof_s:.3g} | {1e3 * time_s:.3g} | {time_s / roof_s:.3g} |")
    above = dict.fromkeys(_MARGINS, 0)
    for board in rows["device"].unique():
        others = _envelope(rows.filter(pl.col("device") != board))
        mine = rows.filter(pl.col("device") == board)
        longest = longest_s(mine["roof_s"].to_numpy(), others)
        for margin in _MARGINS:
            above[margin] += int((mine["recorded_s"].to_numpy() > margin * longest).sum())
    n = rows.height
    print(f"\nA board left out, {n} times; above the margin times the others' envelope:")
    print(", ".join(f"x {margin}: {100 * count / n:.1f} %" for margin, count in above.items()))


def _envelope(rows: pl.DataFrame) -> _Corners:
    """The corners of the upper hull of (bound, time), as far as the time grows."""
    corners: _Corners = []
    for x, y in rows.select("roof_s", "recorded_s").sort("roof_s", "recorded_s").iter_rows():
        while len(corners) > 1 and _is_below(corners[-1], corners[-2], (x, y)):
            corners.pop()
        corners.append((x, y))
    highest = max(range(len(corners)), key=lambda at: corners[at][1])
    return corners[: highest + 1]


def _is_below(
    middle: tuple[float, float], first: tuple[float, float], last: tuple[float, float]
) -> bool:
    rise = (middle[1] - first[1]) * (last[0] - first[0])
    return rise <= (last[1] - first[1]) * (middle[0] - first[0])


def print_mode_ratios(data: Path) -> None:
    """How far the ratio of the times in two modes is from that of their roofs."""
    by_mode = {
        table.label: _with_roofs(table)
        for table in read_tables(data)
        if table.name == "10 networks, eager PyTorch"  # the only one in several modes
    }
    print("| modes | pairs | median | nine of ten | worst | the faster mode is the other one |")
    print("|" + " --- |" * 6)
    everything: list[Array] = []
    for one, other in combinations(sorted(by_mode), 2):
        both = by_mode[one].join(by_mode[other], on=_KEY, suffix="_other")
        recorded = (both["recorded_s"] / both["recorded_s_other"]).log().to_numpy()
        roof = (both["roof_s"] / both["roof_s_other"]).log().to_numpy()
        everything.append(np.stack([recorded, roof]))
        print(_mode_ratio_row(f"{one}, {other}", *everything[-1]))
    print(_mode_ratio_row("all", *np.concatenate(everything, axis=1)))


def _mode_ratio_row(name: str, recorded: Array, roof: Array) -> str:
    factors = np.exp(np.abs(recorded - roof))
    middle, most = np.quantile(factors, [0.5, 0.9])
    is_turned = 100 * (recorded * roof < 0).mean()
    return (
        f"| {name} | {factors.size} | x {middle:.2f} | x {most:.2f} | x {factors.max():.2f} | "
        f"{is_turned:.1f} % |"
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="print every k")
    arguments = parser.parse_args()
    sweeps = (*read_sweeps(arguments.data), *read_named_sweeps(arguments.data))
    print("## Modes")
    print_sweeps(sweeps, arguments.draws, arguments.all)
    print("\n## Decisions\n")
    asked = answers(metered(sweeps))
    if arguments.all:
        print_answers(asked)
    else:
        print_answers(asked.filter(pl.col("k") <= 4), by=("k",))
    print("\n## Networks")
    print_networks(arguments.data, is_whole=arguments.all)
    print("\n## Boards\n")
    print_boards(arguments.data)
    print("\n**Longest times by the length of the bound, TensorRT**\n")
    print_longest(arguments.data)
    print("\n**Two modes: the ratio of times over that of their roofs**\n")
    print_mode_ratios(arguments.data)


if __name__ == "__main__":
    main()
