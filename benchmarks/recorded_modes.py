"""Each mode of recorded boards, predicted from the other modes of the same board.

    python benchmarks/recorded_modes.py [--data ../shared/data]

``scale`` is what users get; it sees neither the mode that is left out nor any other board. The
bars are those of the project: 8 % at the median, 20 % at worst, for bandwidth and for the peaks
in fp32 and fp16. Every cell is printed, also where a bar is missed, and why.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from recorded.power_modes import (
    GEMM_SIZE,
    product_times,
    recorded_modes,
    stream_and_blas,
    sustained_products,
)

from mansard.analytics.models.scaling.board import scale
from mansard.core.hardware import sm_flop_per_cycle

MEDIAN_BAR, WORST_BAR = 0.08, 0.20
_KEY = ["device", "mode", "quantity", "subject", "unit"]
_SHOWN = ("DRAM", "fp32", "fp16", "bf16", "tf32")
_SM = 87  # compute capability of Orin


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared/data"
    parser.add_argument("--data", type=Path, default=beside)
    folder = parser.parse_args().data
    modes = recorded_modes()
    print("STREAM and BLAS in PyTorch: best of all runs of a mode\n")
    found = leave_modes_out(modes, stream_and_blas(folder))
    for subject in _SHOWN:
        print_table(found, subject)
    print_products(folder, modes)
    print("Longer products: convolutions of batch >= 16 on AGX Orin, CUDA matmul on Orin Nano\n")
    found = leave_modes_out(modes, sustained_products(folder))
    for device in found["device"].unique(maintain_order=True):
        for subject in _SHOWN:
            print_table(found.filter(pl.col("device") == device), subject)


def leave_modes_out(modes: pl.DataFrame, coefficients: pl.DataFrame) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA of each mode from the others, ``true``, and ``off``: value / true - 1."""
    found = pl.concat(_one_left_out(modes, coefficients))
    truth = coefficients.select(*_KEY, true="value")
    both = truth.join(found, on=_KEY, how="left", maintain_order="left")
    return both.with_columns(off=pl.col("value") / pl.col("true") - 1)


def _one_left_out(modes: pl.DataFrame, coefficients: pl.DataFrame) -> Iterator[pl.DataFrame]:
    for row in modes.iter_rows(named=True):
        is_it = (pl.col("device") == row["device"]) & (pl.col("mode") == row["mode"])
        yield scale(modes.filter(~is_it), coefficients.filter(~is_it), modes.filter(is_it))


def print_table(found: pl.DataFrame, subject: str) -> None:
    """One line for each mode, and the median and worst error against the bars."""
    rows = found.filter(pl.col("subject") == subject).join(
        recorded_modes().select("device", "mode", "gpu_hz", "memory_hz", "n_sms"),
        on=["device", "mode"],
    )
    if not len(rows):
        return
    name = "DRAM bandwidth, GB/s" if subject == "DRAM" else f"{subject} peak, GFLOP/s"
    print(
        f"{name:<26}{'GPU':>6}{'EMC':>6}{'SMs':>5}{'recorded':>10}{'modelled':>10}"
        f"{'off':>8}{'said':>8}  95 % interval"
    )
    for row in rows.sort("device", "gpu_hz", "n_sms", "memory_hz").iter_rows(named=True):
        said = "-" if row["error"] is None else f"{100 * row['error']:.1f} %"
        span = "-" if row["low"] is None else f"{row['low'] / 1e9:.4g} to {row['high'] / 1e9:.4g}"
        mark = " outside" if row["is_extrapolated"] else ""
        print(
            f"{row['device'] + ' ' + row['mode']:<26}{row['gpu_hz'] / 1e6:>6.0f}"
            f"{row['memory_hz'] / 1e6:>6.0f}{row['n_sms']:>5}{row['true'] / 1e9:>10.1f}"
            f"{row['value'] / 1e9:>10.1f}{100 * row['off']:>+7.1f} {said:>8}  {span}{mark}"
        )
    median, worst = errors_of(rows)
    passed = median <= MEDIAN_BAR and worst <= WORST_BAR
    n_inside = int(rows["true"].is_between(rows["low"], rows["high"]).fill_null(False).sum())
    print(
        f"{len(rows)} modes: median {100 * median:.1f} %, worst {100 * worst:.1f} %: "
        f"{'within' if passed else 'MISSES'} 8 % and 20 %; {n_inside} in their intervals\n"
    )


def errors_of(rows: pl.DataFrame) -> tuple[float, float]:
    """Median and worst size of ``off``; a mode without a prediction counts as infinitely wrong."""
    sizes = rows["off"].abs().fill_null(float("inf"))
    return float(sizes.median()), float(sizes.max())  # type: ignore[arg-type]


def print_products(folder: Path, modes: pl.DataFrame) -> None:
    """The fp16 products beside the caps of their modes and what the hardware can do."""
    times = product_times(folder, "fp16").pivot("size", index=["device", "mode"], values="time_s")
    small, large = str(GEMM_SIZE // 2), str(GEMM_SIZE)
    both = times.join(modes, on=["device", "mode"]).sort("device", "gpu_hz")
    peak = sm_flop_per_cycle(_SM, "fp16", "tensor")
    print(f"Why fp16 misses: fastest repetitions, ms, and FLOP of an SM in a cycle (of {peak})")
    print(f"{'':<26}{'GPU':>6}{'SMs':>5}{small:>8}{large:>8}{'FLOP':>7}")
    for row in both.drop_nulls([small, large]).iter_rows(named=True):
        done = 2.0 * GEMM_SIZE**3 / row[large] / row["n_sms"] / row["gpu_hz"]
        print(
            f"{row['device'] + ' ' + row['mode']:<26}{row['gpu_hz'] / 1e6:>6.0f}{row['n_sms']:>5}"
            f"{1e3 * row[small]:>8.2f}{1e3 * row[large]:>8.2f}{done:>7.0f}"
        )
    print(
        "A governor had the clock: on Orin NX and Nano with 8 SMs the product of 1024 takes\n"
        "as long under caps of 408 to 1020 MHz, that of 2048 nearly so from 612 on. These\n"
        "rates are no peaks of their modes.\n"
    )


if __name__ == "__main__":
    main()
