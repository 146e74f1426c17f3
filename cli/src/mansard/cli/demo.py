"""``mansard demo``: what there is to see without a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mansard.cli.demo_pagoda import pagoda
from mansard.cli.demo_simulated import simulated

demo_app = typer.Typer(invoke_without_command=True)
demo_app.command("pagoda")(pagoda)
demo_app.command("simulated")(simulated)

_NETWORKS = ("mobilenet_v3_large", "resnet50", "yolov8n", "bert_large")
_BATCHES = (1, 16)
_PRECISIONS = ("fp32", "fp16")


@demo_app.callback()
def demo(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option(help="Where the figures and the report go.", readable=False)
    ] = Path("demo/orin"),
) -> None:
    """Show the roofs of real Orins, from published figures, with networks under them.

    Nothing is measured: the figures are those that ship with Mansard, the networks are scored
    here, and all of it says so.
    """
    if context.invoked_subcommand is not None:
        return
    from mansard.analytics.published.reference import PAGODA_RUNS, RATES, write_reference
    from mansard.cli.console import note
    from mansard.cli.reporting import report_runs
    from mansard.cli.scoring import score_zoo
    from mansard.core.files import make_folder
    from mansard.core.jsonl import write_rows
    from mansard.core.records import ModelScore

    make_folder(folder)
    write_reference(folder, (*RATES, PAGODA_RUNS))
    scores = [
        score_zoo(name, batch=batch, dims={}, precision=precision, phase="inference")
        for name in _NETWORKS
        for batch in _BATCHES
        for precision in _PRECISIONS
    ]
    write_rows(folder / "scores.jsonl", ModelScore, scores)
    note(
        "Published figures of three boards; the first below, all on the page; nothing was measured"
    )
    report_runs([str(folder)], folder / "report.html", as_json=False, run_ids=_shown(folder))


def _shown(folder: Path) -> set[str]:
    """The roofs of one board: those of all would fill the terminal many times."""
    from mansard.analytics.published.rooflines import published_rooflines
    from mansard.analytics.published.store import read_published

    roofs = published_rooflines(read_published(folder))
    return {roof.run_id for roof in roofs if roof.machine_id == roofs[0].machine_id}
