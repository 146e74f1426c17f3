"""Networks between the modes of a Jetson TX2, from the few that ``mansard board plan`` picks.

    python benchmarks/tx2_sweep.py [--data ../shared/data]

1. Times of three networks in 52 modes: ten are picked before anything is known, by the function
   that ``mansard board plan`` calls; the fit on these ten predicts the other 42. Beside it the same
   from 200 random tens, and the plain a/f_gpu + b/f_emc + c by relative least squares.
2. Power of VGG19 over 13 GPU clocks, four of them picked likewise, and the energy per inference:
   how much more the mode of the least predicted energy takes than the best one.
3. Energy of the best measured and of the recommended clock, above the true best, when each clock
   is picked after those before it were measured.

The form of every fit is chosen by leaving out one of the picked modes; the others are never seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from recorded.tx2 import (
    GOVERNED,
    NETWORKS,
    modes_of,
    observations_of,
    read_sweep,
    read_vgg19_power,
)

from mansard.analytics.decisions.next_modes import plan_next
from mansard.analytics.models.scaling.network_fit import fit_network
from mansard.analytics.models.scaling.network_predict import predict_modes
from mansard.analytics.pages.words.next_modes import plan_in_words

N_PICKED, N_DRAWS, SEED = 10, 200, 20_130_520
N_CLOCKS = 4
N_SEQUENCE = 7  # clocks of 13
Predict = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Errors:
    """Relative errors at the modes that were held out, and the share of intervals that held."""

    median: float
    worst: float
    covered: float
    n_modes: int

    def cells(self) -> str:
        """For the table, in percent; the plain model has no interval."""
        covered = "    –" if np.isnan(self.covered) else f"{100 * self.covered:4.0f}%"
        return f"{100 * self.median:7.2f} {100 * self.worst:7.2f} {covered}"


def fitted(rows: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    """What the product predicts for ``modes`` from the measured ``rows``."""
    return predict_modes(fit_network(observations_of(rows), modes), modes)


def plain(rows: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    """a/f_gpu + b/f_emc + c by relative least squares: what anyone would try first."""
    weights, *_ = np.linalg.lstsq(
        _plain_terms(rows) / rows["latency_s"].to_numpy()[:, None], np.ones(rows.height), rcond=None
    )
    found = pl.Series("latency_s", _plain_terms(modes) @ weights)
    nothing = pl.lit(None, pl.Float64)
    return modes.select("mode").with_columns(
        found, nothing.alias("latency_low_s"), nothing.alias("latency_high_s")
    )


def _plain_terms(modes: pl.DataFrame) -> np.ndarray:
    gpu, memory = modes["gpu_hz"].to_numpy(), modes["memory_hz"].to_numpy()
    return np.stack([1e9 / gpu, 1e9 / memory, np.ones(len(gpu))], axis=1)


def held_out(predicted: pl.DataFrame, rows: pl.DataFrame, seen: Sequence[str], what: str) -> Errors:
    """The errors of ``what`` ("latency", "power") at the modes of ``rows`` that were not seen."""
    unit = {"latency": "s", "power": "w"}[what]
    truth = pl.col("truth")
    joined = predicted.join(
        rows.select("mode", pl.col(f"{what}_{unit}").alias("truth")), on="mode"
    ).filter(~pl.col("mode").is_in(list(seen)))
    errors = (joined[f"{what}_{unit}"] / joined["truth"] - 1).abs().to_numpy()
    inside = joined.select(
        truth.is_between(pl.col(f"{what}_low_{unit}"), pl.col(f"{what}_high_{unit}"))
    ).to_series()
    covered = float("nan") if inside.null_count() else float(inside.sum()) / joined.height
    return Errors(float(np.median(errors)), float(errors.max()), covered, errors.size)


def mean_of_draws(rows: pl.DataFrame, modes: pl.DataFrame, predict: Predict) -> Errors:
    """The mean over N_DRAWS random choices of N_PICKED modes."""
    found = []
    for kept in random_choices(rows, N_PICKED):
        errors = held_out(predict(kept, modes), rows, kept["mode"].to_list(), "latency")
        found.append((errors.median, errors.worst, errors.covered))
    return _mean(found, rows.height - N_PICKED)


def random_choices(rows: pl.DataFrame, n: int) -> Iterator[pl.DataFrame]:
    """N_DRAWS times ``n`` of the rows."""
    random = np.random.default_rng(SEED)
    for _ in range(N_DRAWS):
        yield rows[sorted(random.choice(rows.height, n, replace=False).tolist())]


def _mean(found: Sequence[tuple[float, float, float]], n_modes: int) -> Errors:
    median, worst, covered = np.mean(found, axis=0).tolist()
    return Errors(median, worst, covered, n_modes)


def show_times(data: Path) -> None:
    """Part 1."""
    sweep = read_sweep(data)
    modes = modes_of(sweep)
    picked = [pick.mode for pick in plan_in_words(plan_next(modes, n=N_PICKED)).picks]
    print(f"1. Times in the {modes.height - N_PICKED} modes that are not measured. Picked:")
    print("   " + ", ".join(picked))
    print(f"   {'':14}{'':29}median%  worst%  in 95% interval")
    for network in NETWORKS:
        rows = sweep.filter(pl.col("network") == network)
        kept = rows.filter(pl.col("mode").is_in(picked))
        lines = {
            "picked, mansard": held_out(fitted(kept, modes), rows, picked, "latency"),
            "picked, plain": held_out(plain(kept, modes), rows, picked, "latency"),
            f"{N_DRAWS} random tens, mansard": mean_of_draws(rows, modes, fitted),
            f"{N_DRAWS} random tens, plain": mean_of_draws(rows, modes, plain),
        }
        for name, errors in lines.items():
            print(f"   {network:14}{name:27}{errors.cells()}")
        fit = fit_network(observations_of(kept), modes)
        assert fit.time is not None  # noqa: S101 - ten modes are enough
        print(f"   {'':14}{100 * (fit.time.error or 0.0):.2f} % off when left out")


@dataclass(frozen=True)
class Least:
    """The mode of the least predicted energy: what was measured there, J, and over the best."""

    mode: str
    energy_j: float
    above_best: float


def least_energy(predicted: pl.DataFrame, rows: pl.DataFrame) -> Least:
    """Which mode is recommended for the least energy, and how far from the best it is."""
    true_j = rows.select("mode", true_j=pl.col("latency_s") * pl.col("power_w"))
    ranked = predicted.join(true_j, on="mode").sort("energy_j", "mode")
    chosen_j = float(ranked["true_j"][0])
    return Least(
        ranked["mode"][0], chosen_j, chosen_j / float(ranked["true_j"].to_numpy().min()) - 1
    )


def show_power(data: Path, group: str) -> None:
    """Part 2."""
    rows = read_vgg19_power(data, group)
    modes = modes_of(rows)
    picked = [pick.mode for pick in plan_in_words(plan_next(modes, n=N_CLOCKS)).picks]
    predicted = fitted(rows.filter(pl.col("mode").is_in(picked)), modes)
    least = least_energy(predicted, rows)
    print(f"   times of {group}; picked: {', '.join(picked)}")
    print(f"      time   {held_out(predicted, rows, picked, 'latency').cells()}")
    print(f"      power  {held_out(predicted, rows, picked, 'power').cells()}")
    print(
        f"      least predicted energy: {least.mode}, {least.energy_j:.4f} J measured, "
        f"{100 * least.above_best:.2f} % above the true best"
    )
    found, above = [], []
    for kept in random_choices(rows, N_CLOCKS):
        predicted = fitted(kept, modes)
        errors = held_out(predicted, rows, kept["mode"].to_list(), "power")
        found.append((errors.median, errors.worst, errors.covered))
        above.append(least_energy(predicted, rows).above_best)
    print(f"      {N_DRAWS} random fours: power {_mean(found, rows.height - N_CLOCKS).cells()}")
    print(f"      their recommended mode: {100 * np.mean(above):.2f} % above the true best")


def show_sequence(data: Path, group: str) -> None:
    """Part 3."""
    rows = read_vgg19_power(data, group)
    modes = modes_of(rows)
    picked = [pick.mode for pick in plan_in_words(plan_next(modes, n=3)).picks]
    print(f"   times of {group}; first {', '.join(picked)}")
    print(f"   {'measured':>9} {'best measured':>15} {'recommended':>13}   next")
    while len(picked) < N_SEQUENCE:
        known = rows.filter(pl.col("mode").is_in(picked))
        best_j = float((rows["latency_s"] * rows["power_w"]).to_numpy().min())
        measured = float((known["latency_s"] * known["power_w"]).to_numpy().min()) / best_j - 1
        recommended = least_energy(fitted(known, modes), rows).above_best
        pick = plan_in_words(plan_next(modes, observations_of(known), n=1)).picks[0]
        print(
            f"   {len(picked):9} {100 * measured:13.2f} % {100 * recommended:11.2f} %   "
            f"{pick.mode}: {pick.reason}"
        )
        picked.append(pick.mode)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data = parser.parse_args().data
    show_times(data)
    print("\n2. VGG19 over 13 GPU clocks, four planned at once: median%, worst%, in 95% interval")
    for group in GOVERNED:
        show_power(data, group)
    print("\n3. Energy above the true best, one clock after the other planned from those before")
    for group in GOVERNED:
        show_sequence(data, group)


if __name__ == "__main__":
    main()
