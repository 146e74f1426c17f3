"""Mansard's scorer against onnx-tool on the same files, each run in its own process.

    python benchmarks/score_peer.py [--runs N] [--json] [MODEL.onnx ...]

Without files: the nine light models inside the onnx package, and the zoo's networks at
batch 1. CPU time is user and system time, memory is the kernel's high-water mark
(VmHWM of /proc/self/status: ru_maxrss is inherited from the parent and would be
wrong). "Score" starts after the imports, "process" is everything from the start of
the interpreter. Medians over the runs; the two sides take turns. FLOP are two for
each multiply-add: onnx-tool counts biases, activations and the like as multiply-adds
too, so it stands above ours where both are right, and far off where it is wrong.
The exit code is always 0: a report.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

SIDES = ("mansard", "onnx-tool")
SEQUENCE = 128  # tokens or time steps, where a network has them
N_RUNS = 5
TIMEOUT_S = 120


@dataclass(frozen=True)
class Run:
    """One scoring of one file by one side, or why there is none."""

    score_cpu_s: float = 0.0
    process_cpu_s: float = 0.0
    peak_bytes: int = 0
    flop: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Duel:
    """The medians of both sides for one file. Ratios are ours over the peer's."""

    model: str
    ours: Run
    peer: Run

    @property
    def score_ratio(self) -> float | None:
        return self._ratio(self.ours.score_cpu_s, self.peer.score_cpu_s)

    @property
    def process_ratio(self) -> float | None:
        return self._ratio(self.ours.process_cpu_s, self.peer.process_cpu_s)

    @property
    def memory_ratio(self) -> float | None:
        return self._ratio(self.ours.peak_bytes, self.peer.peak_bytes)

    def _ratio(self, ours: float, peer: float) -> float | None:
        return ours / peer if self.ours.error is self.peer.error is None and peer else None


def main() -> None:
    """Run all duels and print them."""
    arguments = _arguments()
    if arguments.side:
        print(json.dumps(asdict(_run_here(arguments.side, arguments.models[0]))))
        return
    models = arguments.models or _default_models()
    duels = [_duel(path, arguments.runs) for path in models]
    if arguments.json:
        rows = [{"model": d.model, "ours": asdict(d.ours), "peer": asdict(d.peer)} for d in duels]
        print(json.dumps(rows, indent=1))
    else:
        _print(duels)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mansard's scorer against onnx-tool")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=N_RUNS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


def _default_models() -> list[Path]:
    import onnx

    import mansard.estimator

    light = Path(onnx.__file__).parent / "backend/test/data/light"
    zoo = Path(mansard.estimator.__file__).parent / "zoo/models"
    return sorted(light.glob("light_*.onnx")) + sorted(zoo.glob("*.onnx"))


def _duel(path: Path, n_runs: int) -> Duel:
    print(f"{path.stem} …", file=sys.stderr)
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    for _ in range(n_runs):
        for side in SIDES:
            runs[side].append(_run_apart(side, path))
    return Duel(path.stem, *(_middle(runs[side]) for side in SIDES))


def _run_apart(side: str, path: Path) -> Run:
    command = [sys.executable, __file__, "--side", side, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Run(error=f"no answer within {TIMEOUT_S} s")
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Run(error=last[:120])
    return Run(**json.loads(lines[-1]))


def _middle(runs: list[Run]) -> Run:
    failed = next((run for run in runs if run.error), None)
    if failed is not None:
        return failed
    return Run(
        median(run.score_cpu_s for run in runs),
        median(run.process_cpu_s for run in runs),
        int(median(run.peak_bytes for run in runs)),
        runs[0].flop,
    )


def _run_here(side: str, path: Path) -> Run:
    """Score in this process and say what it took."""
    flop, started, ended = _score_ours(path) if side == "mansard" else _score_peer(path)
    return Run(ended - started, time.process_time(), _peak_bytes(), flop)


def _score_ours(path: Path) -> tuple[int, float, float]:
    import numpy  # noqa: F401 - both sides import before the clock starts
    import onnx  # noqa: F401

    from mansard.estimator import load, score_loaded, totals
    from mansard.estimator.scoring import Settings

    started = time.process_time()
    loaded = load(path)
    symbols = {size for given in loaded.model.inputs for size in given.dimensions or ()}
    dims = {"sequence": SEQUENCE} if "sequence" in symbols else {}
    is_dynamic = any(isinstance(size, str) for size in symbols)
    total = totals(score_loaded(loaded, Settings(batch=1 if is_dynamic else None, dims=dims)))
    ended = time.process_time()
    return 2 * (total.macs or 0), started, ended


def _score_peer(path: Path) -> tuple[int, float, float]:
    import numpy as np
    import onnx
    import onnx_tool

    # The peer wants an array for every input, and fails on shapes with names in them.
    model = onnx.load(path, load_external_data=False)
    stored = {tensor.name for tensor in model.graph.initializer}
    given = {value.name: _array(value) for value in model.graph.input if value.name not in stored}
    started = time.process_time()
    peer = onnx_tool.Model(str(path), {"verbose": False})
    peer.graph.graph_reorder_nodes()
    peer.graph.shape_infer(given)
    peer.graph.profile()
    ended = time.process_time()
    # macs is one figure, or one for each of the profile's columns, by version
    macs = peer.graph.macs
    first = macs[0] if isinstance(macs, (list, tuple)) or np.ndim(macs) else macs
    return int(2 * first), started, ended


def _array(value: Any) -> Any:
    import numpy as np

    kind = value.type.tensor_type
    names = {"sequence": SEQUENCE}
    shape = [size.dim_value or names.get(size.dim_param, 1) for size in kind.shape.dim]
    return np.zeros(shape, np.int64 if kind.elem_type == 7 else np.float32)


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status has no VmHWM")


def _print(duels: Iterable[Duel]) -> None:
    duels = list(duels)
    print(
        f"{'model':22} {'GFLOP':>9} {'peer':>9} {'score ms':>9} {'peer':>8} {'ratio':>6} "
        f"{'process':>8} {'peer':>6} {'ratio':>6} {'MB':>6} {'peer':>6} {'ratio':>6}"
    )
    for duel in duels:
        if duel.score_ratio is not None:
            print(_line(duel))
    for duel in duels:
        for side, run in zip(SIDES, (duel.ours, duel.peer), strict=True):
            if run.error:
                print(f"{duel.model:22} {side} cannot: {run.error}")
    for label, ratios in (
        ("score CPU", [duel.score_ratio for duel in duels]),
        ("process CPU", [duel.process_ratio for duel in duels]),
        ("peak memory", [duel.memory_ratio for duel in duels]),
    ):
        known = [ratio for ratio in ratios if ratio is not None]
        if known:
            print(
                f"{label}: median ratio {median(known):.2f} "
                f"({min(known):.2f} to {max(known):.2f}) over {len(known)} models, ours / peer"
            )


def _line(duel: Duel) -> str:
    ours, peer = duel.ours, duel.peer
    return (
        f"{duel.model:22} {ours.flop / 1e9:9.3f} {peer.flop / 1e9:9.3f} "
        f"{1e3 * ours.score_cpu_s:9.1f} {1e3 * peer.score_cpu_s:8.1f} {duel.score_ratio:6.2f} "
        f"{1e3 * ours.process_cpu_s:8.0f} {1e3 * peer.process_cpu_s:6.0f} "
        f"{duel.process_ratio:6.2f} {ours.peak_bytes / 1e6:6.0f} {peer.peak_bytes / 1e6:6.0f} "
        f"{duel.memory_ratio:6.2f}"
    )


if __name__ == "__main__":
    main()
