"""``mansard report``: the report of runs that were measured before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mansard import api
from mansard.api import results
from mansard.cli.console import TerminalReporter, print_json, print_lines, print_whole
from mansard.cli.data.overview import left_devices, overview_tables
from mansard.cli.data.summary import print_shortened, summary_tables
from mansard.cli.options import (
    REPORT,
    AllOption,
    BoardOption,
    ForceOption,
    JsonOption,
    MixOption,
    RunsOption,
    check_outputs,
)
from mansard.cli.tables import print_tables


def report(
    runs: RunsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where to write; report.html in the first folder of runs by default."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="More modes to predict, as for bench, or a table (.csv)."),
    ] = None,
    board: BoardOption = None,
    mix: MixOption = False,
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the report again from what the folders of runs hold; measures nothing."""
    folder, *others = runs or ["runs"]
    check_outputs([output or Path(folder, REPORT)], force=force)
    written = api.report(
        (folder, *others),
        output,
        mix=mix,
        modes=mode,
        board=board,
        reporter=TerminalReporter(),
    )
    print_report(
        written, all_rows=all_rows, as_json=as_json, next_line=written.next_step.at(folder)
    )


def print_report(written: results.Report, *, all_rows: bool, as_json: bool, next_line: str) -> None:
    """Print a report's ceilings and five networks, or all of its tables; then what to do next.

    The tables show its ``run_ids`` only; JSON has everything.
    """
    if as_json:
        print_json("report", {"report": written.path, "summary": written.summary})
        return
    if all_rows:
        print_shortened(summary_tables(written.summary, written.run_ids))
    else:
        print_tables(overview_tables(written.summary, written.run_ids))
        if line := left_devices(written.summary, written.run_ids):
            print_lines([line])
    print_whole(f"report: {written.path}", f"next: {next_line}")
