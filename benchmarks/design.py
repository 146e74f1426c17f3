"""How well the modes that ``mansard board plan`` picks first predict the other modes of a sweep.

    python benchmarks/design.py [--data ../shared/data] [--draws 20]

Of recorded sweeps with pinned clocks k = 3 to 8 modes are taken as measured: those that a first
plan picks, those that the first plan of an earlier version picked, and random ones. From them the
product's fit predicts every network in the other modes. Printed in Markdown: the median error, the
one that nine of ten are below, the worst, and how many of the other modes lie inside what was
measured, so that their interval is no bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from recorded.mode_sweeps import Sweep, read_sweeps

from mansard.analytics.decisions.next_modes import plan_next
from mansard.analytics.models.scaling.network_fit import fit_networks
from mansard.analytics.models.scaling.network_predict import predict_modes
from mansard.analytics.pages.words.next_modes import plan_in_words

COUNTS, SEED = range(3, 9), 20_130_520
# Index of each mode in the order of GPU clock, then memory clock: the first plans before the set
# had to reach both ends of every setting.
EARLIER = {
    "TX2, 3 networks": {
        3: (2, 17, 37),
        4: (2, 12, 23, 41),
        5: (1, 11, 12, 35, 44),
        6: (3, 4, 15, 20, 43, 48),
        7: (0, 3, 8, 15, 20, 43, 48),
        8: (0, 3, 8, 11, 20, 31, 48, 51),
    },
    "TX2, VGG19 with power": {
        3: (0, 3, 10),
        4: (0, 2, 6, 12),
        5: (0, 2, 5, 7, 12),
        6: (0, 2, 5, 6, 11, 12),
        7: (0, 1, 2, 5, 6, 11, 12),
        8: (0, 1, 2, 4, 6, 7, 11, 12),
    },
    "GTX 1080 Ti, 30 kernels": {
        3: (2, 12, 19),
        4: (0, 3, 16, 19),
        5: (0, 3, 15, 16, 19),
        6: (0, 3, 4, 15, 16, 19),
        7: (0, 1, 3, 12, 15, 16, 19),
        8: (0, 2, 3, 4, 15, 16, 17, 19),
    },
}


@dataclass(frozen=True)
class Errors:
    """Relative errors in the modes that were not picked, and the share of these inside."""

    median: float
    nine_of_ten: float
    worst: float
    inside: float

    def cells(self) -> str:
        """For the table, in percent."""
        numbers = (self.median, self.nine_of_ten, self.worst, self.inside)
        return " / ".join(f"{100 * each:.3g}" for each in numbers)


def judge(sweep: Sweep, chosen: Sequence[str]) -> Errors:
    """What the fit to ``chosen`` modes predicts of the others, beside what was recorded."""
    is_chosen = pl.col("mode").is_in(list(chosen))
    others = sweep.modes.filter(~is_chosen)
    truth = sweep.observations.filter(~is_chosen).select("network", "mode", true="latency_s")
    found = pl.concat(
        predict_modes(fit, others)
        for fit in fit_networks(sweep.observations.filter(is_chosen), sweep.modes)
    )
    both = truth.join(found, on=["network", "mode"])
    errors = np.abs((both["latency_s"] / both["true"] - 1).to_numpy())
    inside = 1 - float(found["is_extrapolated"].to_numpy().mean())
    nine = float(np.quantile(errors, 0.9))
    return Errors(float(np.median(errors)), nine, float(errors.max()), inside)


def planned(modes: pl.DataFrame, k: int) -> list[str]:
    """The first plan of ``k`` modes."""
    return [pick.mode for pick in plan_in_words(plan_next(modes, n=k)).picks]


def mean_of_draws(sweep: Sweep, k: int, n_draws: int) -> Errors:
    """The means over random choices of ``k`` modes."""
    random = np.random.default_rng(SEED)
    names = sweep.modes["mode"].to_list()
    drawn = [judge(sweep, random.choice(names, k, replace=False).tolist()) for _ in range(n_draws)]
    means = np.mean([(e.median, e.nine_of_ten, e.worst, e.inside) for e in drawn], axis=0)
    return Errors(*map(float, means))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared/data"
    parser.add_argument("--data", type=Path, default=beside)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    print("Median / nine of ten / worst error, and share of modes inside what is measured, in %.\n")
    print("| sweep | k | planned | planned before | random |")
    print("|---|---|---|---|---|")
    for sweep in read_sweeps(options.data):
        if sweep.name not in EARLIER:
            continue
        ordered = sweep.modes.sort("gpu_hz", "memory_hz")["mode"].to_list()
        for k in COUNTS:
            earlier = [ordered[at] for at in EARLIER[sweep.name][k]]
            cells = [
                judge(sweep, planned(sweep.modes, k)).cells(),
                judge(sweep, earlier).cells(),
                mean_of_draws(sweep, k, options.draws).cells(),
            ]
            print(f"| {sweep.name} | {k} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
