"""The Typer application: its commands, and its global options."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Annotated

import typer

from mansard.cli.help import HelpfulCommand, SectionedGroup
from mansard.core.version import VERSION

# Under each heading the commands: module, the function or the group of commands in it, and what
# it does, in at most 65 characters.
_COMMANDS = MappingProxyType(
    {
        "Begin here": {
            "doctor": ("board.machine", "doctor", "What can be measured here, and what is missing"),
            "bench": (
                "measuring.bench",
                "bench",
                "Measure this machine, run networks, write a report",
            ),
            "report": ("data.runs", "report", "Write the report again from what was measured"),
            "demo": (
                "measuring.bench",
                "demo_app",
                "The same from published figures, without a board",
            ),
        },
        "Measure": {
            "measure": (
                "measuring.measure",
                "measure",
                "Time and energy of networks, or of a program",
            ),
            "build": (
                "measuring.builds",
                "build",
                "Engine files of networks, without measuring",
            ),
            "multi": (
                "measuring.multi",
                "multi",
                "Several networks at once, on one or more devices",
            ),
            "contention": (
                "measuring.multi",
                "contention",
                "What the GPU and the CPUs take from each other's memory",
            ),
            "layers": (
                "counting.layers",
                "layers",
                "Layers of an engine under the roof, and what binds each",
            ),
            "offload": (
                "measuring.offload",
                "offload_app",
                "A small network here, a larger one on a server",
            ),
            "ncu": ("counting.ncu", "ncu_app", "Counters of Nsight Compute beside the estimate"),
            "telemetry": (
                "data.telemetry",
                "telemetry",
                "Logs of tegrastats, or a live board, in numbers",
            ),
        },
        "Predict and decide": {
            "recommend": (
                "deciding.recommend",
                "recommend",
                "The power mode for networks, what it saves, how to set it",
            ),
            "fit": ("deciding.fit", "fit", "Whether networks fit into a board's memory"),
            "batch": ("deciding.batch", "batch", "Time and energy over batch sizes"),
            "plan": ("deciding.plan", "plan", "The power modes that are worth measuring next"),
            "compare": (
                "deciding.compare",
                "compare",
                "What changed between two boards, modes or builds",
            ),
            "schedule": (
                "deciding.schedule",
                "schedule",
                "Networks on several accelerators, the best way",
            ),
            "hi": ("deciding.hi", "hi", "What a small network keeps, and what it offloads"),
        },
        "Networks": {
            "score": ("counting.score", "score", "FLOPs, parameters and bytes of every layer"),
            "zoo": ("counting.models", "zoo_app", "The networks that ship with Mansard"),
            "export": ("counting.models", "export", "A PyTorch network as an ONNX file, checked"),
        },
        "Boards and data": {
            "watch": ("board.watch", "watch", "What a board does now, and what throttles it"),
            "modes": ("board.machine", "modes", "The power modes of a board, and their peaks"),
            "restore": (
                "board.machine",
                "restore",
                "Put a board back after a run that was cut off",
            ),
            "image": ("board.image", "image_app", "The container images that measurements run in"),
            "import": ("data.runs", "import_tables", "Figures that others published"),
            "merge": ("data.runs", "merge", "Runs of many boards in one dataset"),
            "schema": ("schemas", "schema", "The JSON Schema of what a command prints"),
        },
    }
)


def make_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application as far as ``arguments`` need it: with the command that they name alone.

    All commands are there if they name none. To import and build all of them takes as long as to
    score a small network.
    """
    app = typer.Typer(
        name="mansard",
        cls=SectionedGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # errors are one line; __main__ prints them
        rich_markup_mode=None,  # plain help starts twice as fast
        help="Rooflines of time and energy for deep networks: measure, score, predict, report.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage; of --check 3 no answer (recommend) or "
        "worse (compare), 4 not known (compare); 130 interrupted.",
    )
    app.callback()(main)
    # No global option takes a value: the first word without a dash is the command.
    named = next((word for word in arguments if not word.startswith("-")), "")
    is_known = any(named in commands for commands in _COMMANDS.values())
    for heading, commands in _COMMANDS.items():
        for name, (place, called, summary) in commands.items():
            if is_known and name != named:
                continue
            module = import_module(f"mansard.cli.{place}")
            command = getattr(module, called)
            if isinstance(command, typer.Typer):
                for subcommand in command.registered_commands:
                    subcommand.cls = HelpfulCommand
                app.add_typer(
                    command,
                    name=name,
                    cls=SectionedGroup,
                    short_help=summary,
                    rich_help_panel=heading,
                )
            else:
                kind = getattr(module, "COMMAND_CLASS", HelpfulCommand)
                app.command(name, cls=kind, short_help=summary, rich_help_panel=heading)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mansard {VERSION}")
        raise typer.Exit


def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Errors and results alone: no notes, no progress."),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also files, and how long steps take."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Rooflines of time and energy for deep networks: measure, score, predict, report."""
    del version, quiet, verbose, debug  # they act before this runs
