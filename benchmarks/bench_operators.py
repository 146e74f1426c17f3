"""What the zoo's operators, timed by a bench, tell of networks that were not run.

    python benchmarks/bench_operators.py --runs ../zoo-runs [--draws 6] [--fit-only]

``--runs``: what ``benchmarks/zoo_calibration.py`` measured, roofs and networks on one CPU. The
operators are timed there if they are missing, unless ``--fit-only``. Some networks are taken as
measured: none, the four of a quick bench, and 1, 2, 4 and 8 drawn at random. All others are
predicted as ``--calibrate`` does, with the operators and without them, and by a line a + b · work
+ c · traffic through the measured ones. The truth is the CPU time of a call, where one thread ran
it.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from zoo_calibration import MODE, naive

from mansard.analytics.data.dataset import OperatorRows
from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.predict.models import Models, find_models
from mansard.analytics.models.predict.prediction import predict
from mansard.api.measurements import measure_networks
from mansard.sweeps.networks import MeasureRequest

QUICK = ("mobilenet_v2", "resnet50", "yolov8n", "bert_base")
DRAWN = (1, 2, 4, 8)


@dataclass(frozen=True)
class Unseen:
    """Predictions of networks that were left out.

    ``ratios``: predicted over measured times; ``naive``: the same by a + b · work + c · traffic.
    """

    ratios: tuple[float, ...]
    naive: tuple[float, ...]
    widths: tuple[float, ...]  # high end over low end of the 95 % intervals
    is_held: tuple[bool, ...]
    kind: str  # of the calibration


def main() -> None:
    """Time the operators where they are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--fit-only", action="store_true")
    options = parser.parse_args()
    if not options.fit_only:
        measure_networks(
            MeasureRequest(models=("operators",), mode=MODE, runs=options.runs, is_local=True)
        ).check()
    models = find_models(ingest(options.runs))
    truths_s = measured_s(models)
    roofs = predict(models).predictions.filter(pl.col("batch") == 1, pl.col("latency_s") > 0)
    ratios = [
        row["latency_s"] / truths_s[row["network"]]
        for row in roofs.iter_rows(named=True)
        if row["network"] in truths_s
    ]
    print(f"{len(ratios)} networks; the roofs: {errors(ratios)}")
    show("no network, operators", [unseen(models, truths_s, (), has_operators=True)])
    drawer, names = random.Random(0), sorted(truths_s)
    choices: dict[str, list[tuple[str, ...]]] = {"the four of quick": [QUICK]}
    for count in DRAWN:
        drawn = [tuple(drawer.sample(names, count)) for _ in range(options.draws)]
        choices[f"{count} at random"] = drawn
    for title, known in choices.items():
        for has_operators in (False, True):
            rows = [unseen(models, truths_s, some, has_operators=has_operators) for some in known]
            show(f"{title}, operators" if has_operators else title, rows)


def measured_s(models: Models) -> dict[str, float]:
    """The time of each network at batch 1."""
    rows = models.observations.filter(pl.col("batch") == 1).select(
        "network", seconds_s=pl.coalesce("cpu_s", "latency_s")
    )
    return dict(rows.drop_nulls().iter_rows())


def unseen(
    models: Models, truths_s: dict[str, float], known: Sequence[str], *, has_operators: bool
) -> Unseen:
    """All networks but the ``known`` ones, which alone count as measured."""
    dataset = models.dataset
    taken = replace(
        models,
        dataset=replace(
            dataset,
            measurements=tuple(row for row in dataset.measurements if row.model in known),
            operators=dataset.operators if has_operators else OperatorRows(),
        ),
        observations=models.observations.filter(pl.col("network").is_in(list(known))),
    )
    found = predict(taken, calibrate=True)
    (fitted,) = found.calibration.values()
    others = [name for name in truths_s if name not in known]
    rows = found.predictions.filter(pl.col("batch") == 1, pl.col("network").is_in(others))
    rows = rows.drop_nulls(["latency_low_s", "latency_high_s"])
    timed = [(row, truths_s[row["network"]]) for row in rows.iter_rows(named=True)]
    counts = _counts(found.scores, truths_s)
    by_line = counts.filter(pl.col("network").is_in(others))
    lines_s = naive(counts.filter(pl.col("network").is_in(list(known))), by_line) if known else []
    return Unseen(
        naive=tuple(
            seconds / truth_s
            for seconds, truth_s in zip(
                lines_s, by_line["measured_s"].head(len(lines_s)), strict=True
            )
        ),
        ratios=tuple(row["latency_s"] / truth_s for row, truth_s in timed),
        widths=tuple(row["latency_high_s"] / row["latency_low_s"] for row, _ in timed),
        is_held=tuple(row["latency_low_s"] <= at <= row["latency_high_s"] for row, at in timed),
        kind="shapes" if fitted.shapes else "classes" if fitted.classes else "totals",
    )


def _counts(scores: pl.DataFrame, truths_s: dict[str, float]) -> pl.DataFrame:
    """Work and traffic of each network at batch 1, with its ``measured_s``."""
    measured = pl.DataFrame({"network": list(truths_s), "measured_s": list(truths_s.values())})
    rows = scores.filter(pl.col("batch") == 1).select("network", "work_flop", "traffic_bytes")
    return rows.unique("network").join(measured, on="network").sort("network")


def errors(ratios: Sequence[float]) -> str:
    """The median, nine of ten and the worst."""
    off = np.abs(np.array(ratios) - 1)
    return f"{np.median(off):.1%} / {np.quantile(off, 0.9):.1%} / {off.max():.0%}"


def show(title: str, draws: Sequence[Unseen]) -> None:
    """One line: errors, the share of intervals that held, how wide they are, by what."""
    ratios = [ratio for draw in draws for ratio in draw.ratios]
    held = np.mean([is_held for draw in draws for is_held in draw.is_held])
    width = np.median([width for draw in draws for width in draw.widths])
    kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(draw.kind for draw in draws).items())
    print(f"{title:30} {errors(ratios)}, held {held:.0%}, high / low {width:.1f}, by {kinds}")
    if lines := [ratio for draw in draws for ratio in draw.naive]:
        print(f"{'  a + b · work + c · traffic':30} {errors(lines)}")


if __name__ == "__main__":
    main()
