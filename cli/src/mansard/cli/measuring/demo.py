"""``mansard demo``: what there is to see without a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.cli.console import TerminalReporter
from mansard.cli.data.report import print_report
from mansard.cli.measuring.bench import print_bench
from mansard.cli.options import AllOption, JsonOption
from mansard.cli.outputs import REPORT, ForceOption, check_outputs

demo_app = typer.Typer(invoke_without_command=True)


@demo_app.callback()
def demo(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option(help="Where the figures and the report go.", readable=False)
    ] = Path("demo"),
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the roofs of real Orins and of a simulated one, with networks under them.

    Nothing is measured: the figures of the Orins are published ones that ship with Mansard, the
    simulated board's GPU kernels run on a stand-in, networks are scored here; all of it says so.
    """
    if context.invoked_subcommand is not None:
        return
    check_outputs([folder / REPORT], force=force)
    found = api.demo(folder, TerminalReporter(most_notes=2))
    print_report(
        found, all_rows=all_rows, as_json=as_json, next_line=found.next_step.at(str(folder))
    )


@demo_app.command("simulated")
def simulated(
    board: Annotated[
        Literal["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"],
        typer.Option(help="Which board to simulate."),
    ] = "agx-orin",
    mode: Annotated[str, typer.Option(help="Power modes, as for bench.")] = "all",
    folder: Annotated[
        Path, typer.Option(help="Where the board, the runs and the report go.", readable=False)
    ] = Path("demo"),
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a simulated board, sweep its power modes, and write the report.

    Kernels run on a stand-in for the board's GPU, in virtual time; power modes, clocks and
    meters are the simulator's, and everything says so.
    """
    check_outputs([folder / "runs" / REPORT], force=force)
    done = api.demo_simulated(board, mode, folder, TerminalReporter())
    print_bench(done, str(folder / "runs"), "", all_rows=all_rows, as_json=as_json)
