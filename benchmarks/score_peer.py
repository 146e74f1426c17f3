"""Mansard's scorer against other static profilers on the same files.

    python benchmarks/score_peer.py [--runs N] [--json] [MODEL.onnx ...]

Peers: onnx-tool, onnxsim's ModelInfo, haoline (``make peers`` installs them). Without
files: the nine light models inside the onnx package, and the zoo's networks. All
dimensions are fixed beforehand, in copies that every tool reads alike. Each scoring is
a process of its own, after one that is not measured; tools take turns; medians over the
runs. All tools have their bytecode.

A peer is *correct* where its FLOP of matrix products and convolutions are within 1 % of
ours, which ``benchmarks/wheels.py`` checks against ONNX Runtime's real shapes. The ratio
is our CPU time over that of the fastest correct peer. The exit code is 0: a report.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from scorers.measure import Run, middle, run_apart, spread
from scorers.models import default_models, fixed_copies
from scorers.sides import SIDES

N_RUNS = 5
TOLERANCE = 0.01


@dataclass(frozen=True)
class Contest:
    """The medians of all tools for one file. ``noise``: half the range of our CPU times."""

    model: str
    runs: dict[str, Run]
    noise: float

    @property
    def ours(self) -> Run:
        return self.runs["mansard"]

    def is_correct(self, side: str) -> bool:
        run = self.runs[side]
        return run.error is None and abs(run.flop - self.ours.flop) <= TOLERANCE * self.ours.flop

    @property
    def best(self) -> str | None:
        """The fastest correct peer."""
        right = [side for side in self.runs if side != "mansard" and self.is_correct(side)]
        return min(right, key=lambda side: self.runs[side].cpu_s, default=None)

    @property
    def ratio(self) -> float | None:
        if self.best is None or self.ours.error is not None:
            return None
        return self.ours.cpu_s / self.runs[self.best].cpu_s


def main() -> None:
    """Run all contests and print them."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        models = fixed_copies(arguments.models or default_models(), Path(folder))
        contests = [_contest(path, arguments.runs) for path in models]
    if arguments.json:
        print(json.dumps([asdict(contest) for contest in contests], indent=1))
    else:
        _print(contests)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mansard's scorer against its peers")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=N_RUNS)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _contest(path: Path, n_runs: int) -> Contest:
    print(f"{path.stem} …", file=sys.stderr)
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    for side in SIDES:
        run_apart(side, path)  # unmeasured: files and bytecode are in their caches afterwards
    for _ in range(n_runs):
        for side in SIDES:
            runs[side].append(run_apart(side, path))
    medians = {side: middle(found) for side, found in runs.items()}
    return Contest(path.stem, medians, spread(runs["mansard"]))


def _print(contests: list[Contest]) -> None:
    peers = [side for side in SIDES if side != "mansard"]
    print(
        f"{'CPU ms':22} {'GFLOP':>9} {'mansard':>12} ", *(f"{peer:>12}" for peer in peers), " ratio"
    )
    for contest in contests:
        cells = [_cell(contest, peer) for peer in peers]
        ratio = "–" if contest.ratio is None else f"{contest.ratio:.2f}"
        own = f"{1e3 * contest.ours.cpu_s:.0f} ±{100 * contest.noise:.0f} %"
        print(
            f"{contest.model[:22]:22} {contest.ours.flop / 1e9:9.3f} {own:>12} ",
            *cells,
            f"{ratio:>6}",
        )
        if contest.ours.error:
            print(f"{'':22} mansard cannot: {contest.ours.error}")
    ratios = [contest.ratio for contest in contests if contest.ratio is not None]
    if ratios:
        print(
            f"CPU time over the fastest correct peer's: median {median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}), {len(ratios)} of {len(contests)} models"
        )
    for what in ("wall_s", "peak_bytes"):
        found = [
            getattr(contest.ours, what) / getattr(contest.runs[contest.best], what)
            for contest in contests
            if contest.best is not None and contest.ours.error is None
        ]
        if found:
            print(f"{what}: median {median(found):.2f} ({min(found):.2f} to {max(found):.2f})")
    for peer in peers:
        right = sum(contest.is_correct(peer) for contest in contests)
        print(f"{peer}: correct on {right} of {len(contests)}")


def _cell(contest: Contest, peer: str) -> str:
    run = contest.runs[peer]
    if run.error is not None:
        return f"{'fails':>12}"
    mark = "" if contest.is_correct(peer) else " wrong"
    return f"{1e3 * run.cpu_s:.0f}{mark}".rjust(12)


if __name__ == "__main__":
    main()
