"""``mansard bench``: measure this machine, score and run networks, write the report.

``mansard demo``: what there is to see without a board.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics.data.quantities import capacity, quantity
from mansard.api import results
from mansard.cli.console import TerminalReporter, print_lines
from mansard.cli.data.network_runs import run_tables
from mansard.cli.data.runs import print_report
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.options import (
    REPORT,
    AgainOption,
    AllOption,
    BoardOption,
    ContainerEngineOption,
    DimOption,
    DryRunOption,
    ForceOption,
    HostOption,
    HostsFileOption,
    ImageOption,
    ImagesOption,
    JsonOption,
    KeptRunsOption,
    LabelOption,
    LocalOption,
    ModeOption,
    OfflineOption,
    PickOption,
    YesOption,
    check_outputs,
    parse_dimensions,
    parse_sizes,
)
from mansard.cli.tables import print_table, print_tables
from mansard.core.errors import UsageError
from mansard.core.extras import has_extra, install_command, require_extra

_DEMO = Path("demo")
demo_app = typer.Typer(invoke_without_command=True)


@demo_app.callback()
def demo(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option(help="Folder of the figures and the report.", readable=False)
    ] = _DEMO,
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show rooflines of Orin boards and of a simulated board, with networks.

    Nothing is measured: the figures of the Orins are published, and the simulated board's GPU
    kernels run on a stand-in. Every figure is labelled.
    """
    if context.invoked_subcommand is not None:
        if folder != _DEMO or all_rows or force or as_json:
            raise UsageError(
                f"options of {context.invoked_subcommand} come after it",
                fix=f"write mansard demo {context.invoked_subcommand} --folder FOLDER",
            )
        return
    check_outputs([folder / REPORT], force=force)
    written = api.demo(folder, TerminalReporter(most_notes=2))
    print_report(
        written, all_rows=all_rows, as_json=as_json, next_line=written.next_step.line(str(folder))
    )


@demo_app.command("simulated", short_help="Sweep the power modes of a simulated board")
def simulated(
    board: Annotated[
        Literal["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"],
        typer.Option(help="Board to simulate."),
    ] = "agx-orin",
    mode: Annotated[str, typer.Option(help="Power modes, as for bench.")] = "all",
    folder: Annotated[
        Path, typer.Option(help="Folder of the board, the runs and the report.", readable=False)
    ] = Path("demo"),
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Create a simulated board, sweep its power modes, and write the report.

    Kernels run on a stand-in for the GPU, in virtual time. Every figure is labelled simulated.
    """
    check_outputs([folder / "runs" / REPORT], force=force)
    done = api.demo_simulated(board, mode, folder, TerminalReporter())
    print_bench(done, str(folder / "runs"), "", all_rows=all_rows, as_json=as_json)


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="ONNX files, folders of them, or names of shipped networks; several shipped "
            "ones by default."
        ),
    ] = None,
    mode: ModeOption = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="Number of points and repetitions.")
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    label: LabelOption = "",
    again: AgainOption = False,
    batch: Annotated[
        list[str] | None,
        typer.Option(help="Batch sizes to score; networks run at the first. 1,8 by default."),
    ] = None,
    dim: DimOption = None,
    no_networks: Annotated[
        bool, typer.Option("--no-networks", help="Measure kernels only.")
    ] = False,
    dry_run: DryRunOption = False,
    board: BoardOption = None,
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(help="Processor to measure; the GPU by default, if there is one."),
    ] = None,
    local: LocalOption = False,
    host: HostOption = None,
    hosts_file: HostsFileOption = None,
    image: ImageOption = None,
    images: ImagesOption = None,
    offline: OfflineOption = False,
    container_engine: ContainerEngineOption = None,
    yes: YesOption = False,
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine, score and run networks, and write a self-contained report.

    Interrupted benchmarks resume; finished runs are reused. Power modes are set, locked and
    restored.
    """
    request = api.BenchRequest(
        models=tuple(models or ()),
        mode=mode,
        pick=pick,
        profile=profile,
        runs=runs,
        label=label,
        is_again=again,
        batches=parse_sizes("--batch", batch or ["1,8"]),
        dims=parse_dimensions(dim or []),
        has_networks=not no_networks,
        board=board,
        processor=processor,
        is_local=local,
        hosts=tuple(host or ()),
        hosts_file=hosts_file,
        wanted_image=api.WantedImage(
            name=image, table=images, is_offline=offline, engine=container_engine
        ),
    )
    reporter = TerminalReporter(is_agreed=yes)
    if dry_run:
        print_dry_runs(api.dry_run(request, reporter), as_json=as_json)
    else:
        if as_json:
            require_extra("report")  # --json prints the report; fail before measuring, not after
        check_outputs([runs / REPORT], force=force)
        options = "".join(f" --host {name}" for name in host or ())
        options += f" --board {board}" if board is not None else ""
        done = api.bench(request, reporter)
        print_bench(done, str(runs), options, all_rows=all_rows, as_json=as_json)


def print_bench(
    done: results.BenchResult, runs: str, options: str, *, all_rows: bool, as_json: bool
) -> None:
    """Print what was measured and is kept in ``runs``; raises the error of what was not.

    ``options``: the board that was measured, for the next command.
    """
    if done.report is not None:
        command = done.report.next_step.line(runs, options)
        print_report(done.report, all_rows=all_rows, as_json=as_json, next_line=command)
    elif not has_extra("report"):
        _print_measured(done, runs)
    done.check()


def _print_measured(done: results.BenchResult, runs: str) -> None:
    """Rates of kernels and times of networks, and how to get the report of them."""
    rows = [
        (
            kernel.mode,
            kernel.kernel,
            kernel.precision,
            quantity(kernel.rate, kernel.unit),
            capacity(kernel.working_set_bytes) + ", the largest" * kernel.is_largest_set,
        )
        for kernel in done.kernels
    ]
    if rows:
        print_table(
            "Best rates of kernels; of streams also at the largest working set",
            ("mode", "kernel", "precision", "rate", "working set"),
            rows,
        )
    if done.networks:
        print_tables(run_tables(done.networks, len(done.networks)))
    command = f"{install_command('report')}, then mansard report --runs {shlex.quote(runs)}"
    print_lines([f"saved in {runs}; for ceilings, predictions and a report: {command}"])
