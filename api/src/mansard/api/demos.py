"""What there is to see without a board: recorded roofs, and simulated boards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES, write_reference
from mansard.analytics.data.published.store import read_published
from mansard.analytics.models.roofs.published_rooflines import published_rooflines
from mansard.api.benches import BenchResult
from mansard.api.reports import Report, report
from mansard.api.scores import score_zoo
from mansard.core.records import ModelScore, PowerMode
from mansard.core.storage.files import make_folder
from mansard.core.storage.jsonl import write_rows
from mansard.simulator import create_board, running
from mansard.sweeps.kernels import plan_kernels
from mansard.sweeps.modes import ModePlan
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import SweepRequest, Swept, sweep
from mansard.sweeps.targets import BenchTarget, find_processor

SimulatedBoard = Literal["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"]

_NETWORKS = ("mobilenet_v3_large", "resnet50", "yolov8n", "bert_large")


def demo(folder: Path = Path("demo"), reporter: Reporter = SILENT) -> Report:
    """Recorded roofs of real Orins beside a simulated AGX Orin, with networks under them.

    Nothing is measured: the figures are those that ship with Mansard, the kernels of the simulated
    board run on a stand-in for its GPU, the networks are scored here. The report in ``folder``
    shows all four boards; ``run_ids`` are of the published AGX Orin. Raises as ``bench`` does.
    """
    runs = folder / "runs"
    make_folder(runs)
    write_reference(runs, (*RATES, PAGODA_RUNS))
    swept = _sweep_simulated("agx-orin", "all", folder, runs, reporter)
    if swept.failure is not None:
        raise swept.failure
    _score_demo(runs)
    reporter.note(
        "The figures of three boards are published; those of the fourth are simulated, without a "
        "GPU"
    )
    roofs = published_rooflines(read_published(runs))
    first = {roof.run_id for roof in roofs if roof.machine_id == roofs[0].machine_id}
    return report([str(runs)], folder / "report.html", run_ids=first, reporter=reporter)


def demo_simulated(
    board: SimulatedBoard = "agx-orin",
    mode: str = "all",
    folder: Path = Path("demo"),
    reporter: Reporter = SILENT,
) -> BenchResult:
    """Make a simulated board in ``folder``, sweep its power modes, and write the report.

    Kernels run on a stand-in for the board's GPU, in virtual time; power modes, clocks and meters
    are the simulator's, and everything says so. ``mode``: as for ``bench``. Raises as it does.
    """
    runs = folder / "runs"
    swept = _sweep_simulated(board, mode, folder, runs, reporter)
    _score_demo(runs)
    written = report([str(runs)], run_ids=frozenset(swept.run_ids), reporter=reporter)
    return BenchResult(written, swept.failure)


def _sweep_simulated(
    board: SimulatedBoard, mode: str, folder: Path, runs: Path, reporter: Reporter
) -> Swept:
    make_folder(folder)
    root = folder / board
    if not root.exists():
        create_board(board, folder)
    reporter.note(f"A simulated {board} in {root}; look around with: mansard doctor --board {root}")
    request = SweepRequest(
        mode=mode, profile="brief", runs=runs, board=root, is_local=True, processor="gpu"
    )

    def plan(target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter) -> list[ModePlan]:
        machine = target.controller.identify()
        probe = find_processor(target, machine, request.processor, reporter)
        return plan_kernels(machine, modes, request, probe)

    with running(root):
        return sweep(request, plan, reporter)


def _score_demo(runs: Path) -> None:
    scores = [
        score_zoo(name, batch=batch, precision=precision)
        for name in _NETWORKS
        for batch in (1, 16)
        for precision in ("fp32", "fp16")
    ]
    write_rows(runs / "scores.jsonl", ModelScore, scores, runs)
