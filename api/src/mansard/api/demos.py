"""What there is to see without a board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mansard.api.benches import BenchResult, plan_kernels
from mansard.api.data import Report, report
from mansard.api.measurements import ModePlan
from mansard.api.reporter import SILENT, Reporter
from mansard.api.scores import score_zoo
from mansard.api.sweeps import SweepRequest, Swept, sweep
from mansard.api.targets import BenchTarget, find_processor
from mansard.core.files import make_folder
from mansard.core.jsonl import write_rows
from mansard.core.records import ModelScore, PowerMode

if TYPE_CHECKING:
    from mansard.analytics.data.frames import Frame
SimulatedBoard = Literal["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"]

_NETWORKS = ("mobilenet_v3_large", "resnet50", "yolov8n", "bert_large")
# That Pagoda counted: docs/understand/pagoda.md.
_PAGODA_SEQUENCE = {"bert_large": 128, "word_lstm": 8}


def demo(folder: Path = Path("demo"), reporter: Reporter = SILENT) -> Report:
    """Recorded roofs of real Orins beside a simulated AGX Orin, with networks under them.

    Nothing is measured: the figures are those that ship with Mansard, the kernels of the simulated
    board run on a stand-in for its GPU, the networks are scored here. The report in ``folder``
    shows all four boards; ``run_ids`` are of the published AGX Orin. Raises as ``bench`` does.
    """
    from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES, write_reference
    from mansard.analytics.data.published.store import read_published
    from mansard.analytics.models.roofs.published_rooflines import published_rooflines

    runs = folder / "runs"
    make_folder(runs)
    write_reference(runs, (*RATES, PAGODA_RUNS))
    swept = _sweep_simulated("agx-orin", "all", folder, runs, reporter)
    if swept.failure is not None:
        raise swept.failure
    _score_demo(runs)
    reporter.note(
        "Published figures of three boards, and a simulated one whose GPU kernels ran on a "
        "stand-in: nothing was measured"
    )
    roofs = published_rooflines(read_published(runs))
    first = {roof.run_id for roof in roofs if roof.machine_id == roofs[0].machine_id}
    return report([str(runs)], folder / "report.html", run_ids=first, reporter=reporter)


class PagodaPage(msgspec.Struct, frozen=True):
    """A page about Pagoda, and what is on it.

    ``counts``: its analytical table beside ours; ``points``: its 25 measured points beside our
    roofs; ``table``: caption, columns and rows of the points for people; ``findings``: in words.
    """

    page: Path
    counts: Frame
    points: Frame
    table: tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]
    findings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """All but the table, for JSON."""
        return {
            "page": self.page,
            "counts": self.counts.to_dicts(),
            "points": self.points.to_dicts(),
            "findings": self.findings,
        }


def demo_pagoda(output: Path = Path("demo/pagoda.html")) -> PagodaPage:
    """Pagoda's analytical table and its 25 measured points, with ours beside them.

    Its figures ship with Mansard; the five networks are scored here. Nothing is measured. Raises
    StorageError where ``output`` cannot be written.
    """
    from mansard.analytics.pages.figures.pagoda import point_table
    from mansard.analytics.pages.report.pagoda_page import findings, write_pagoda_page

    found = write_pagoda_page(_pagoda_scores(), output)
    table = point_table(found.points)
    return PagodaPage(
        output,
        found.counts,
        found.points,
        (table.caption, tuple(table.columns), tuple(map(tuple, table.rows))),
        tuple(findings(found.points)),
    )


def _pagoda_scores() -> list[ModelScore]:
    """Each network at Pagoda's shapes and batches in FP32; where it was measured also in TF32."""
    from mansard.analytics.data.published.reference import BATCHES, MEASURED_BATCHES, NETWORKS
    from mansard.estimator import score, zoo

    scores = []
    for name in NETWORKS:
        model = zoo.read_word_lstm() if name == "word_lstm" else zoo.read(name)
        dims = {"sequence": _PAGODA_SEQUENCE[name]} if name in _PAGODA_SEQUENCE else {}
        scores += [
            score(model, name=name, batch=batch, dims=dims, precision=precision)
            for batch in BATCHES
            for precision in (("fp32", "tf32") if batch in MEASURED_BATCHES else ("fp32",))
        ]
    return scores


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
    written = report([str(runs)], run_ids=swept.run_ids, reporter=reporter)
    return BenchResult(written, swept.failure)


def _sweep_simulated(
    board: SimulatedBoard, mode: str, folder: Path, runs: Path, reporter: Reporter
) -> Swept:
    from mansard.simulator import create_board, running

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
        found = find_processor(target, machine, request.processor, reporter)
        return plan_kernels(machine, modes, request.profile, runs, found)

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
