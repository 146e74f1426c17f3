"""How well a board's modes are told from a few of them: a Monte Carlo experiment.

    PYTHONPATH=. python benchmarks/scaling_noise.py [SEEDS]

A made-up board whose laws are known (tests/analytics/model_factory.py: 5 GPU clocks × 3 memory
clocks) is measured in some of its modes with normal noise; ``scale`` models the others. Printed
are, over seeds and modes, the median and the 95th percentile of the relative error, the error
that the frame states beside them, and how often the truth lies in the interval of 95 %.
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

from mansard.analytics.models.scaling.board import scale
from tests.analytics.model_factory import board_coefficients, board_modes

NOISES = (0.01, 0.03)
N_MEASURED = (3, 4, 6, 10)
_KEY = ["device", "mode", "quantity", "subject", "unit"]
_SHOWN = {
    "peak": "fp16 tensor core",
    "bandwidth": "DRAM ",
    "launch": " ",
    "flop_energy": "fp16 tensor core",
    "byte_energy": "DRAM ",
    "constant_power": " ",
}


def main() -> None:
    """Print the table."""
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    modes = board_modes()
    print(
        f"{'quantity':<16}{'noise':>6}{'modes':>6}{'median':>8}{'95 %':>8}{'said':>8}{'inside':>8}"
    )
    for noise in NOISES:
        for n_measured in N_MEASURED:
            found = pl.concat(one_board(modes, n_measured, noise, seed) for seed in range(n_seeds))
            for quantity, rows in found.group_by("quantity", maintain_order=True):
                print(f"{quantity[0]!s:<16}{_percent(noise)}{n_measured:>6}{_row(rows)}")


def one_board(modes: pl.DataFrame, n_measured: int, noise: float, seed: int) -> pl.DataFrame:
    """The modes that were not measured, modelled, with ``off``: value / truth - 1."""
    generator = np.random.default_rng(seed)
    chosen = modes[sorted(generator.choice(len(modes), n_measured, replace=False).tolist())]
    truth = board_coefficients(modes).filter(
        pl.col("subject") + " " + pl.col("unit") == pl.col("quantity").replace_strict(_SHOWN)
    )
    factors = pl.Series(generator.normal(1.0, noise, len(truth)))
    noisy = truth.with_columns(
        value=pl.col("value") * factors, low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64)
    )
    others = modes.join(chosen, on="mode", how="anti")
    found = scale(chosen, noisy.join(chosen, on="mode", how="semi"), others)
    both = found.join(truth.select(*_KEY, true="value"), on=_KEY)
    return both.with_columns(off=pl.col("value") / pl.col("true") - 1)


def _row(rows: pl.DataFrame) -> str:
    sizes = rows["off"].abs()
    inside = rows.select(pl.col("true").is_between("low", "high").mean()).item()
    said = rows["error"].median()
    return "".join(
        f"{_percent(float(share)):>8}"  # type: ignore[arg-type]
        for share in (sizes.median(), sizes.quantile(0.95), said, inside)
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
