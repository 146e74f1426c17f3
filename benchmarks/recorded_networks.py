"""Ten networks on AGX Orin in four power modes, against the model: docs/understand/calibration.md.

    python benchmarks/recorded_networks.py [FOLDER]

FOLDER holds the recorded data (../shared/data beside the project if not given). Printed are
(a) subgraphs that beat their roofline bound, (b) the totals of every network at 30W and 50W from
MAXN and 15W alone, (c) the totals of one half of the networks by a calibration on the other half,
both ways, (d) Kendall's τ of the modes' ranking, and what remains unexplained. The halves are every
other network of the alphabet, fixed before anything was fitted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import polars as pl
from recorded.network_checks import (
    KNOWN_MODES,
    LARGE,
    beaten_bounds,
    by_other_networks,
    calibrated,
    class_residuals,
    errors,
    from_known_modes,
    halves,
    least_tau,
    rankings,
    roof_totals,
)
from recorded.subgraphs import CPU_HZ, Recording, read_recording

from mansard.analytics.models.predict.totals_calibration import DeviceCalibration, Misfit

_DATA = Path(__file__).resolve().parents[2] / "shared/data"
_MODES = tuple(CPU_HZ)
_IS_LARGE = pl.col("batch") >= LARGE


def main(arguments: Sequence[str]) -> None:
    """Print all tables."""
    recording = read_recording(Path(arguments[0]) if arguments else _DATA)
    _bounds(recording)
    roofs = roof_totals(recording)
    _title("the roofs alone, no calibration: error of network totals")
    _errors(roofs)
    _between_modes(recording)
    _other_networks(recording)
    _title("(d) for comparison: Kendall's τ by the roofs alone")
    _taus(roofs)
    _unexplained(recording)


def _bounds(recording: Recording) -> None:
    large = recording.timed.filter(_IS_LARGE)
    _title(f"(a) subgraphs of batch >= {LARGE} faster than their bound ({len(large)} in all)")
    for column, words in (("measured_s", "mean of 50 runs"), ("least_s", "fastest of 50 runs")):
        beaten = beaten_bounds(recording.timed, column)
        share = len(beaten) / len(large)
        print(f"{words}: {len(beaten)} of {len(large)}, {share:.2%}")
        for row in beaten.iter_rows(named=True):
            print(
                f"  {row['network']:18} {row['precision']} batch {row['batch']:2} {row['mode']:4}"
                f" #{row['group']:<3} {row['pattern']:20} bound {row['roof_s'] * 1e6:6.1f} us,"
                f" measured {row[column] * 1e6:6.1f} us"
            )
    quantiles = (large["measured_s"] / large["roof_s"]).quantile
    print(
        f"measured over bound: 1 % of subgraphs below {quantiles(0.01) or 0:.2f}, "
        f"half below {quantiles(0.5) or 0:.1f}"
    )


def _between_modes(recording: Recording) -> None:
    known = " and ".join(KNOWN_MODES)
    for words, has_layers in (("totals", False), ("subgraphs as timed layers", True)):
        totals = from_known_modes(recording, has_layers=has_layers)
        _title(f"(b) calibrated in {known} alone by {words}, all networks: error of totals")
        _errors(totals)
        _taus(totals)
    others = [mode for mode in _MODES if mode not in KNOWN_MODES]
    error = (pl.col("modelled_s") / pl.col("measured_s") - 1).alias("error")
    table = totals.with_columns(error).pivot(
        on="mode", index=["network", "precision", "batch"], values=["measured_s", "error"]
    )
    print("every total: measured ms and error")
    for row in table.sort("batch", "network", "precision", descending=[True, False, False]).rows(
        named=True
    ):
        columns = "  ".join(
            f"{mode} {row[f'measured_s_{mode}'] * 1e3:7.2f} {row[f'error_{mode}']:+6.1%}"
            for mode in others
        )
        print(f"  {row['network']:18} {row['precision']} batch {row['batch']:2}  {columns}")


def _other_networks(recording: Recording) -> None:
    one, other = halves(recording)
    for seen in (one, other):
        calibration, totals = by_other_networks(recording, seen)
        _title(f"(c) calibrated on {', '.join(seen)}: error of the other networks' totals")
        _errors(totals)
        _taus(totals)
        error = (pl.col("modelled_s") / pl.col("measured_s") - 1).median()
        for network, part in totals.group_by("network", maintain_order=True):
            by_mode = dict(part.group_by("mode").agg(error.alias("error")).iter_rows())
            columns = "  ".join(f"{mode} {by_mode[mode]:+6.1%}" for mode in _MODES)
            print(f"  {network[0]!s:18} median error {columns}")
        _misfits(calibration)


def _unexplained(recording: Recording) -> None:
    calibration, _ = calibrated(recording, recording.timed)
    _title("what remains unexplained: calibrated on all networks in all modes")
    _misfits(calibration)
    if calibration.classes is None:
        print(f"  by totals: {calibration.why}")
        return
    fit = calibration.classes.fit
    for factor in fit.records:
        value = fit.all_networks.factor(factor.op_class, factor.precision)
        print(
            f"  {factor.op_class:23} {factor.precision} x {value:7.3f}"
            f" {_interval(factor.low, factor.high)}  {factor.n_groups} subgraphs of"
            f" {factor.n_networks} networks"
        )
    for mode, launch_s in fit.all_networks.launches_s.items():
        print(
            f"  launch in {mode:4} {launch_s * 1e6:6.0f} us,"
            f" {launch_s * CPU_HZ[mode] / 1e3:5.0f} thousand cycles of the CPU at its cap"
        )
    print("by class and batch: share of the measured time, (modelled - measured) / measured")
    for row in class_residuals(recording, fit.all_networks).iter_rows(named=True):
        print(
            f"  {row['op_class']:15} batch {row['batch']:2}  share {row['share']:5.1%}"
            f"  sum {row['of_sum']:+6.1%}  median of a subgraph {row['median']:+6.1%}"
        )


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "(no interval)"
    return f"({low:.4g} to {high:.4g})"


def _misfits(calibration: DeviceCalibration) -> None:
    for name, error in (
        ("before", calibration.before),
        ("after", calibration.after),
        ("each network by the others", calibration.networks.misfit),
        ("each mode by the others", calibration.modes.misfit),
    ):
        print(f"  {name}: {_misfit(error)}")


def _misfit(error: Misfit | None) -> str:
    if error is None:
        return "unknown"
    return (
        f"median {error.median:.1%}, nine of ten {error.nine_of_ten:.1%}, worst {error.worst:.1%}"
        f" of {error.n_times} totals"
    )


def _errors(totals: pl.DataFrame) -> None:
    for words, part in (("all batches", totals), (f"batch >= {LARGE}", totals.filter(_IS_LARGE))):
        for row in errors(part, "mode").iter_rows(named=True):
            print(
                f"  {words:11} {row['mode']:4} median {row['median']:6.1%}"
                f"  worst {row['worst']:6.1%}  median with sign {row['bias']:+6.1%}"
                f"  ({row['n']} totals)"
            )


def _taus(totals: pl.DataFrame) -> None:
    for words, part in (("all batches", totals), (f"batch >= {LARGE}", totals.filter(_IS_LARGE))):
        found = rankings(part)
        name, least = least_tau(found)
        print(
            f"  {words:11} Kendall's tau of the modes: mean {fmean(found['tau']):.3f} over"
            f" {len(found)} totals; the network with the least, {name}: {least:.3f}"
        )


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    main(sys.argv[1:])
