"""Seconds and memory to predict and rank 30,000 modes × 20 networks × 4 batches × 3 precisions.

    pip install 'mansard[peers]'            # for pandas
    python benchmarks/predict_size.py [--modes 30000] [--networks 20] [--scores-of-pandas 8]

The networks are the zoo's, scored beforehand; the board is made up: a grid of clocks, whose modes
share coefficients, and then modes of which no two are alike. Each side runs in a process of its
own and is timed from the four frames (groups, scores, coefficients, modes) to the ranking; the
imports and one small warm-up before are not in it. pandas takes minutes: it does a few of the
scores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
from predicting.board import board_frames, zoo_layers
from predicting.sides import SIDES, Answer, Frames

from mansard.analytics.models.predict.columns import busy_groups
from mansard.analytics.models.predict.groups import group_frame, score_frame

NAMES = ("groups", "scores", "coefficients", "modes")
N_RUNS = 3
CLOSE = 1e-9  # relative: how near the sides must come to each other


def main() -> None:
    """Print a table for each kind of board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", type=int, default=30_000)
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--scores-of-pandas", type=int, default=8)
    options = parser.parse_args()
    layers = zoo_layers(options.networks)
    groups, scores = busy_groups(group_frame(layers)), score_frame(layers)
    for is_grid in (True, False):
        modes, coefficients = board_frames(is_grid=is_grid, n_modes=options.modes)
        n_values = len(modes) * len(scores)
        kind = "a grid of clocks" if is_grid else "no two modes alike"
        print(f"\n{kind}: {len(modes):,} modes x {len(scores)} scores = {n_values:,} predictions")
        print(f"{'':11} {'scores':>7} {'s, least':>9} {'s of CPU':>9} {'peak MB':>8} as mansard")
        with tempfile.TemporaryDirectory() as folder:
            for name, frame in zip(NAMES, (groups, scores, coefficients, modes), strict=True):
                frame.write_parquet(Path(folder) / f"{name}.parquet")
            compare(Path(folder), options.scores_of_pandas)


def compare(folder: Path, n_pandas: int) -> None:
    """Run every side and print its line."""
    ours: Answer = {}
    for side in SIDES:
        if side == "pandas" and find_spec("pandas") is None:
            print("pandas is not here: pip install 'mansard[peers]'")
            continue
        n_scores = n_pandas if side == "pandas" else None
        context = multiprocessing.get_context("spawn")
        worker = context.Process(target=run, args=(side, folder, n_scores))
        worker.start()
        worker.join()
        if worker.exitcode:
            raise SystemExit(f"{side} failed")
        found = json.loads((folder / f"{side}.json").read_text())
        answer: Answer = found["answer"]
        ours = ours or answer
        numbers = f"{found['least_s']:9.2f} {found['cpu_s']:9.2f} {found['peak_mb']:8.0f}"
        print(f"{side:11} {len(answer):7} {numbers} {agreement(ours, answer)}")


def run(side: str, folder: Path, n_scores: int | None) -> None:
    """Time one side in this process, and leave its answer in ``folder``."""
    groups, scores, coefficients, modes = (
        pl.read_parquet(folder / f"{name}.parquet") for name in NAMES
    )
    chosen = scores if n_scores is None else scores.gather_every(max(1, len(scores) // n_scores))
    SIDES[side]((groups, chosen.head(1), *_few(coefficients, modes)))
    frames: Frames = (groups, chosen, coefficients, modes)
    times_s, cpu_s, answer = [], [], {}
    for _ in range(1 if n_scores is not None else N_RUNS):
        started_s, began_s = time.perf_counter(), time.process_time()
        answer = SIDES[side](frames)
        times_s.append(time.perf_counter() - started_s)
        cpu_s.append(time.process_time() - began_s)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"answer": answer, "least_s": min(times_s), "cpu_s": min(cpu_s), "peak_mb": peak_mb}
    (folder / f"{side}.json").write_text(json.dumps(found))


def _few(coefficients: pl.DataFrame, modes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    few = modes.head(10)
    return coefficients.filter(pl.col("mode").is_in(few["mode"].to_list())), few


def agreement(ours: Answer, theirs: Answer) -> str:
    """Whether both have the same numbers and ranks in every score that both have."""
    for score, (top, n_front, *numbers) in theirs.items():
        own_top, own_front, *own_numbers = ours[score]
        if not np.allclose(numbers, own_numbers, rtol=CLOSE, atol=0.0):
            return "other values"
        if top != own_top or n_front != own_front:
            return "other ranks"
    return "yes"


if __name__ == "__main__":
    main()
