"""Mansard's scorer against other static profilers on the same files.

    python benchmarks/score_peer.py [--runs N] [--json] [MODEL.onnx ...]

Peers: onnx-tool, also by its bare API without arrays for the inputs, onnxsim's ModelInfo, haoline
(``make peers`` installs them). Without
files: the nine light models inside the onnx package, and the zoo's networks. All
dimensions are fixed beforehand, in copies that every tool reads alike. Each scoring is
a process of its own, from the interpreter's start to its end, after one that is not measured;
tools take turns; medians over the runs. All tools have their bytecode. Ours stands twice: the
command ``mansard score``, and ``mansard.estimator.score`` in a program as short as the peers'.

A peer is *correct* where its FLOP of matrix products and convolutions are within 1 % of
ours, which ``benchmarks/wheels.py`` checks against ONNX Runtime's real shapes. The ratio
is the command's CPU time over that of the fastest correct peer. The exit code is 0: a report.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from scorers.measure import COMMAND, Run, middle, run_apart, spread
from scorers.models import default_models, fixed_copies
from scorers.sides import SIDES

N_RUNS = 5
TOLERANCE = 0.01
PEERS = tuple(side for side in SIDES if side != "mansard")


@dataclass(frozen=True)
class Contest:
    """The medians of all sides for one file. ``noise``: half the range of the command's times."""

    model: str
    runs: dict[str, Run]
    noise: float

    @property
    def ours(self) -> Run:
        return self.runs["mansard"]

    @property
    def command(self) -> Run:
        return self.runs[COMMAND]

    def is_correct(self, side: str) -> bool:
        run = self.runs[side]
        return run.error is None and abs(run.flop - self.ours.flop) <= TOLERANCE * self.ours.flop

    @property
    def best(self) -> str | None:
        """The fastest correct peer."""
        right = [side for side in PEERS if self.is_correct(side)]
        return min(right, key=lambda side: self.runs[side].cpu_s, default=None)

    @property
    def ratio(self) -> float | None:
        if self.best is None or self.command.error is not None:
            return None
        return self.command.cpu_s / self.runs[self.best].cpu_s


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
    runs: dict[str, list[Run]] = {side: [] for side in (COMMAND, *SIDES)}
    for side in runs:
        run_apart(side, path)  # unmeasured: files and bytecode are in their caches afterwards
    for _ in range(n_runs):
        for side, found in runs.items():
            found.append(run_apart(side, path))
    medians = {side: middle(found) for side, found in runs.items()}
    return Contest(path.stem, medians, spread(runs[COMMAND]))


def _print(contests: list[Contest]) -> None:
    print(
        "| file | GFLOP | `mansard score`, CPU ms | API |",
        *(f" {peer} |" for peer in PEERS),
        "ratio |",
    )
    print("|---" * (5 + len(PEERS)) + "|")
    for contest in contests:
        ratio = "–" if contest.ratio is None else f"{contest.ratio:.2f}"
        own = f"{1e3 * contest.command.cpu_s:.0f} ± {100 * contest.noise:.0f} %"
        cells = [_cell(contest, side) for side in ("mansard", *PEERS)]
        print(
            "|",
            " | ".join([contest.model, f"{contest.ours.flop / 1e9:.3f}", own, *cells, ratio]),
            "|",
        )
        for run in (contest.command, contest.ours):
            if run.error:
                print(f"mansard cannot: {run.error}")
    _print_ratio(
        "CPU time of the command over that of the fastest correct peer", [c.ratio for c in contests]
    )
    known = [contest for contest in contests if contest.best and not contest.ours.error]
    for what in ("cpu_s", "wall_s", "peak_bytes"):
        ratios = [
            getattr(contest.ours, what) / getattr(contest.runs[contest.best or ""], what)
            for contest in known
        ]
        _print_ratio(f"{what} of the API over that of the fastest correct peer", ratios)
    for peer in PEERS:
        right = sum(contest.is_correct(peer) for contest in contests)
        print(f"{peer}: correct on {right} of {len(contests)}")


def _print_ratio(what: str, found: Sequence[float | None]) -> None:
    ratios = [ratio for ratio in found if ratio is not None]
    if ratios:
        print(
            f"{what}: median {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
            f"{len(ratios)} of {len(found)} files"
        )


def _cell(contest: Contest, peer: str) -> str:
    run = contest.runs[peer]
    if run.error is not None:
        return "fails"
    mark = "" if contest.is_correct(peer) else ", wrong"
    return f"{1e3 * run.cpu_s:.0f}{mark}"


if __name__ == "__main__":
    main()
