"""``mansard report``: the report of runs that were measured before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[Path, typer.Option(help="Folder of the runs.", readable=False)] = Path("runs"),
    output: Annotated[
        Path | None, typer.Option(help="Where to write; report.html in the runs by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Write the report again from what the folder of runs holds; measures nothing."""
    from mansard.cli.reporting import report_runs

    report_runs(runs, output or runs / "report.html", as_json=as_json)
