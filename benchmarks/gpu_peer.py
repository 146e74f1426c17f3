"""A graphics card or a board's GPU against its limits, against Numba, and beside PyTorch.

Runs the plan of a profile on the first visible GPU in the mode that it is in, repeats one
kernel's energy, compares with PyTorch where it is installed, and judges:

- FP32 chains reach 97 % of the limit at the measured clock and SM count, reads from memory
  90 %, tensor cores 90 % in every precision whose limit is known;
- Numba's kernels are within 3 % of the same ones in CUDA C++;
- the energy of repeated windows varies by 2 % at most;
- PyTorch's matrix product and copy take no less time than ours.

    python benchmarks/gpu_peer.py [--profile brief|quick|full] [--runs DIR] [--results DIR]

Writes RESULTS/<card>.json and RESULTS/<card>.html; the runs folder resumes. The exit code is
0 where all that was measured holds, 1 where something does not, 3 where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import msgspec
from gpu_card.energy import repeat_energy
from gpu_card.figures import Figure, card_figures
from gpu_card.torch_peer import torch_figures

from mansard.core.errors import MansardError
from mansard.core.jsonl import read_rows
from mansard.core.records import Gpu, Trial
from mansard.device.identity import identify
from mansard.device.meters.finding import find_meters
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.microbench.cuda.probe import GpuProbe, probe_gpu
from mansard.microbench.cuda.sampling import limits_of, open_gpu
from mansard.microbench.cuda.trials import choose_trials
from mansard.microbench.plan import KernelPlan
from mansard.microbench.planning import make_plan, probe

NO_GPU = 3


def main() -> int:
    """Measure, judge, write; returns the exit code."""
    options = _parser().parse_args()
    found = probe_gpu()
    if found.gpu is None:
        print(f"no GPU to measure: {found.reason}")
        return NO_GPU
    try:
        return _judge(found, found.gpu, options)
    except MansardError as error:
        print(f"failed: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", choices=("brief", "quick", "full"), default="quick")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    return parser


def _judge(found: GpuProbe, gpu: Gpu, options: argparse.Namespace) -> int:
    for line in (*found.notes, *choose_trials(gpu, options.profile, found.versions).left_out):
        print(f"note: {line}")
    machine = identify()
    mode = choose_modes("", SYSTEM_ROOT, machine)[0]
    plan = make_plan(machine, mode, options.profile, probe("gpu"))
    trials = _measure(plan, options.runs)
    limits = limits_of(gpu, machine, mode)
    opened = open_gpu()
    figures = [
        *card_figures(trials, gpu, limits.memory_bytes_per_s),
        repeat_energy(opened, find_meters(SYSTEM_ROOT, machine)),
        *torch_figures(opened, found.versions),
    ]
    _print(figures)
    content = _content(found, plan, trials, figures)
    _write(options, gpu.name, content)
    return 1 if any(figure.holds is False for figure in figures) else 0


def _measure(plan: KernelPlan, runs: Path) -> tuple[Trial, ...]:
    meters = find_meters(SYSTEM_ROOT, plan.machine)
    for name, reason in meters.missing.items():
        print(f"note: no energy by {name}: {reason}")
    outcome = run_plan(plan, runs, measurer=LocalMeasurer(meters), on_progress=_say)
    rows = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    for row in rows:
        for disturbance in row.disturbances:
            print(f"disturbed: {row.kernel} {row.precision}: {disturbance}")
    return tuple(rows)


def _say(state: SweepState) -> None:
    print(f"  {state.n_done}/{state.n_total}: {state.now}", flush=True)


def _print(figures: Sequence[Figure]) -> None:
    for one in figures:
        value = "–" if one.value is None else f"{one.value:.3f}"
        print(f"{one.name:55} {value:>7}  {one.target:>7}  {one.verdict:14} {one.note}")


def _content(
    found: GpuProbe, plan: KernelPlan, trials: Sequence[Trial], figures: Sequence[Figure]
) -> dict[str, object]:
    return {
        "card": msgspec.to_builtins(found.gpu),
        "notes": found.notes,
        "versions": plan.versions,
        "mode": plan.mode.name,
        "profile": plan.profile,
        "run": plan.run_id,
        "measured_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "n_trials": len(trials),
        "n_unstable": sum(one.stability == "unstable" for one in trials),
        "n_disturbed": sum(bool(one.disturbances) for one in trials),
        "figures": [asdict(one) | {"verdict": one.verdict} for one in figures],
    }


def _write(options: argparse.Namespace, card: str, content: dict[str, object]) -> None:
    """The card's JSON, and the report of the whole runs folder beside it."""
    options.results.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-") or "gpu"
    path = options.results / f"{name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written: {path}")
    print(f"written: {_report(options.runs, options.results / f'{name}.html')}")


def _report(runs: Path, path: Path) -> Path:
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.report.write import write_report

    return write_report(ingest(runs), path)


if __name__ == "__main__":
    sys.exit(main())
