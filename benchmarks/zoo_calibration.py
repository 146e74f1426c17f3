"""Networks of the zoo on this machine, each predicted by the calibration of the others.

    python benchmarks/zoo_calibration.py --runs ../zoo-runs [--batch 1] [--fit-only] [--truth wall]

Measures this machine's roofs and runs the networks with ONNX Runtime on one CPU, layer by layer
too; what is in the folder of runs already is not measured again, and ``--fit-only`` measures
nothing. The truth is the CPU time of a call, which other load does not lengthen, and the wall time
of networks without one; with ``--truth wall`` the wall time, of networks that have one. Then each
network is left out, with all its batches, and predicted by a calibration of the others:

- classes: of operators, from timed layers, as ``--calibrate`` does where layers were timed;
- totals: the line through whole networks, as ``--calibrate`` does elsewhere;
- naive: a + b · work + c · traffic, least squares of relative errors, nothing below 0;
- roofs: no calibration.

"held": whether the measured time is in the 95 % interval of the classes, or of the totals.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import nnls

from mansard.analytics.data.dataset import OperatorRows
from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.predict.models import Models, find_models
from mansard.analytics.models.predict.prediction import Prediction, predict
from mansard.api.benches import BenchRequest, bench
from mansard.api.measurements import measure_networks
from mansard.core.errors import InputError, MansardError
from mansard.core.records import Measurement
from mansard.estimator import zoo
from mansard.sweeps.networks import MeasureRequest
from mansard.sweeps.preparation import NetworkSettings

WAYS = ("classes", "totals", "naive", "roofs")
# 4.4 GB of weights, and as much again while they are packed.
TOO_LARGE = ("tinyllama_1_1b",)
MODE = "1c"  # of one thread the CPU time is a truth
_KEY = ("device", "mode", "network", "batch", "precision")


@dataclass(frozen=True)
class LeftOut:
    """One measured time, and what each way says of it without its network; NaN: nothing."""

    network: str
    batch: int
    measured_s: float
    modelled_s: dict[str, float]
    intervals_s: dict[str, tuple[float, float]]  # of classes and totals

    def error(self, way: str) -> float:
        """Of the prediction, with its sign."""
        return self.modelled_s[way] / self.measured_s - 1

    def is_held(self, way: str) -> bool:
        """Whether the interval of the classes, or of the totals, has the measured time in it."""
        low_s, high_s = self.intervals_s[way]
        return low_s <= self.measured_s <= high_s


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--networks", default="")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--fit-only", action="store_true")
    parser.add_argument("--truth", choices=("cpu", "wall"), default="cpu")
    options = parser.parse_args()
    names = options.networks.split(",") if options.networks else zoo.names()
    names = [name for name in names if name not in TOO_LARGE]
    if not options.fit_only:
        measure(options.runs, names, tuple(options.batch or (1,)), options.profile)
    dataset = replace(ingest(options.runs), operators=OperatorRows())  # networks alone
    models = find_models(dataset)
    if options.truth == "wall":
        models = replace(
            models, observations=models.observations.with_columns(cpu_s=pl.lit(None, pl.Float64))
        )
    show(leave_out_each(models, names))


def measure(runs: Path, names: Sequence[str], batches: tuple[int, ...], profile: str) -> None:
    """Roofs first, then each network in a run of its own: its files go before the next one's."""
    bench(BenchRequest(runs=runs, mode=MODE, profile=profile, is_local=True, has_networks=False))
    for number, name in enumerate(names, 1):
        settings = NetworkSettings(batches=batches)
        try:
            request = MeasureRequest(
                models=(name,),
                mode=MODE,
                settings=settings,
                runs=runs,
                profile=profile,
                is_local=True,
            )
            measure_networks(request).check()
        except MansardError as error:
            print(f"{name} is left out: {error}", flush=True)
        print(f"measured {number} of {len(names)}: {name}", flush=True)


def leave_out_each(models: Models, names: Sequence[str]) -> list[LeftOut]:
    """Every network of ``names`` with a measured time, by all others of them."""
    measured = models.observations.with_columns(
        measured_s=pl.coalesce("cpu_s", "latency_s")
    ).filter(pl.col("network").is_in(list(names)), pl.col("measured_s") > 0)
    roofs = predict(models).predictions
    pairs = measured.join(roofs, on=list(_KEY), suffix="_roof").unique(_KEY, keep="first")
    totals = predict(models).scores.select(
        "network", "batch", "precision", "work_flop", "traffic_bytes"
    )
    pairs = pairs.join(totals, on=["network", "batch", "precision"]).sort("network", "batch")
    left_out: list[LeftOut] = []
    for name in pairs["network"].unique(maintain_order=True):
        others = pairs.filter(pl.col("network") != name)
        own = pairs.filter(pl.col("network") == name)
        naive_s = naive(others, own)
        by_classes = _calibrated(models, names, name, with_layers=True).predictions
        by_totals = _calibrated(models, names, name, with_layers=False).predictions
        for at, row in enumerate(own.to_dicts()):
            alike = pl.all_horizontal(pl.col(key) == row[key] for key in _KEY)
            classes, line = (
                each.filter(alike).row(0, named=True) for each in (by_classes, by_totals)
            )
            modelled = (classes["latency_s"], line["latency_s"], naive_s[at], row["latency_s_roof"])
            intervals_s = {
                way: (found["latency_low_s"] or math.nan, found["latency_high_s"] or math.nan)
                for way, found in (("classes", classes), ("totals", line))
            }
            modelled_s = dict(zip(WAYS, modelled, strict=True))
            left_out.append(LeftOut(name, row["batch"], row["measured_s"], modelled_s, intervals_s))
    return left_out


def _calibrated(
    models: Models, names: Sequence[str], left_out: str, *, with_layers: bool
) -> Prediction:
    """By the measurements of all networks but one."""
    kept = [name for name in names if name != left_out]
    rows = [row for row in models.dataset.measurements if row.model in kept]
    if not with_layers:
        rows = [_without_layers(row) for row in rows]
    return predict(
        replace(
            models,
            dataset=replace(models.dataset, measurements=tuple(rows)),
            observations=models.observations.filter(pl.col("network").is_in(kept)),
        ),
        calibrate=True,
    )


def _without_layers(row: Measurement) -> Measurement:
    reasons = row.unknown | dict.fromkeys(("profiled_s", "layers"), "left out")
    return msgspec.structs.replace(row, profiled_s=None, layers=None, unknown=reasons)


def naive(others: pl.DataFrame, own: pl.DataFrame) -> list[float]:
    """a + b · work + c · traffic through ``others``, of ``own``."""
    columns = ["work_flop", "traffic_bytes"]
    scale = others.select(columns).to_numpy().mean(axis=0)

    def rows(frame: pl.DataFrame) -> NDArray[np.float64]:
        counts = frame.select(columns).to_numpy() / scale
        return np.column_stack([np.ones(len(frame)), counts])

    measured = others["measured_s"].to_numpy()
    found, _ = nnls(rows(others) / measured[:, None], np.ones(len(others)))
    return [float(seconds) for seconds in rows(own) @ found]


def show(found: Sequence[LeftOut]) -> None:
    """Print one line for each network, then the errors of each way.

    Of the errors it prints the median, 90 % quantile and maximum; then the share of intervals that
    hold.
    """
    if not found:
        raise InputError("no network was measured beside a roof", fix="run without --fit-only")
    print(
        f"{'network':30} {'batch':>5} {'measured ms':>11} "
        + " ".join(f"{w:>8}" for w in WAYS)
        + "  95 % interval, ms"
    )
    for row in found:
        errors = " ".join(f"{row.error(way):+8.1%}" for way in WAYS)
        low_s, high_s = row.intervals_s["classes"]
        held = "" if row.is_held("classes") else "  not held"
        print(
            f"{row.network:30} {row.batch:5} {row.measured_s * 1e3:11.3f} {errors}"
            f"  {low_s * 1e3:.3f} to {high_s * 1e3:.3f}{held}"
        )
    print(f"{len(found)} times of {len({row.network for row in found})} networks left out, errors:")
    for way in WAYS:
        errors_of = np.abs([row.error(way) for row in found])
        median, most, worst = np.median(errors_of), np.quantile(errors_of, 0.9), errors_of.max()
        print(f"  {way:8} median {median:6.1%}, nine of ten {most:6.1%}, worst {worst:6.1%}")
    for way in ("classes", "totals"):
        share = np.mean([row.is_held(way) for row in found])
        print(f"  intervals of the {way} held {share:.1%}")


if __name__ == "__main__":
    main()
