"""``mansard bench``: measure this machine, score the networks, write the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def bench(
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="ONNX files to score; the zoo by default.", readable=False),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="Power modes: 1c, 2c, 1c,2c or all; all cores by default."),
    ] = None,
    profile: Annotated[
        Literal["quick", "full"], typer.Option(help="How many points and repetitions.")
    ] = "quick",
    runs: Annotated[Path, typer.Option(help="Folder that keeps the runs.", readable=False)] = Path(
        "runs"
    ),
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Batch sizes to score. Repeatable.")
    ] = None,
    dim: Annotated[
        list[str] | None, typer.Option(help="Value of a named dimension: name=value. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Measure this machine, score the networks, and write one self-contained report.

    What was measured before is not measured again; an interrupted run resumes.
    """
    from mansard.cli.given_options import parse_dimensions
    from mansard.cli.measuring import measure_modes
    from mansard.cli.reporting import report_runs
    from mansard.cli.workload import score_workload, write_scores
    from mansard.core.files import make_folder
    from mansard.core.power_mode import parse_modes
    from mansard.device.identity import identify

    # Everything that can be wrong with the request is found before minutes of measuring.
    machine = identify()
    modes = parse_modes(mode, len(machine.cpus))
    scores = score_workload(models or [], batch or [1, 8], parse_dimensions(dim or []))
    make_folder(runs)
    write_scores(runs, scores)
    run_ids = measure_modes(machine, modes, profile, runs)
    report_runs(runs, runs / "report.html", as_json=as_json, run_ids=run_ids)
