"""``mansard report``: the report of runs that were measured before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mansard.cli.run_places import MixOption, RunsOption, report_path, run_places


def report(
    runs: RunsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where to write; report.html in the first folder of runs by default."),
    ] = None,
    modes: Annotated[
        str | None,
        typer.Option(help="More modes to predict, as for bench, or a table (.csv)."),
    ] = None,
    board: Annotated[
        Path | None,
        typer.Option(
            help="Root folder of a board, such as a simulated one; this machine's by default."
        ),
    ] = None,
    mix: MixOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Write the report again from what the folders of runs hold; measures nothing."""
    from mansard.cli.reporting import report_runs

    places = run_places(runs)
    report_runs(
        places,
        output or report_path(places),
        as_json=as_json,
        mix=mix,
        modes=modes,
        board=board,
    )
