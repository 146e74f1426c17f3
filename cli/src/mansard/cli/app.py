"""The Typer application: its commands, and its global options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import typer

from mansard.cli.help import HelpfulCommand, SectionedGroup
from mansard.core.version import VERSION

_Entry: TypeAlias = tuple[Any, ...]
_HELP = {"help_option_names": ["-h", "--help"]}

# A command: the module, the function in it, and what it does in at most 65 characters. A group:
# what it is about, and its commands by name; groups may hold groups.
_NCU = (
    "Counters of Nsight Compute beside the estimate",
    {
        "run": ("counting.ncu", "run_networks", "Run networks under Nsight Compute"),
        "import": ("counting.ncu", "import_exports", "Read exports of Nsight Compute"),
        "check": ("counting.ncu", "check_estimates", "Compare estimates with counters, by layer"),
    },
)
_IMAGE = (
    "The container images that measurements run in",
    {
        "fit": ("board.image", "fit_image", "Which image fits this machine, and why"),
        "list": ("board.image", "list_images", "Images built here, and all known ones"),
        "build": ("board.image", "build_image", "Build the image that fits this machine"),
        "save": ("board.image", "save_image", "Save an image as a file, with its digest"),
        "load": ("board.image", "load_image", "Load a saved image after checking it"),
        "libraries": (
            "board.image",
            "list_libraries",
            "What an image installs, for 'pip download'",
        ),
    },
)
_COMMANDS: Mapping[str, Mapping[str, _Entry]] = MappingProxyType(
    {
        "Begin here": {
            "doctor": ("board.machine", "doctor", "What can be measured here, and what is missing"),
            "bench": ("measuring.bench", "bench", "Measure this machine, write a report"),
            "report": ("data.runs", "report", "Write the report again from what was measured"),
            "demo": (
                "measuring.bench",
                "demo_app",
                "A report of published figures, without a board",
            ),
        },
        "Measure and score": {
            "measure": ("measuring.measure", "measure", "Time and energy of networks or a program"),
            "score": ("counting.score", "score", "FLOPs, parameters and bytes of every layer"),
            "multi": (
                "Several networks at once, on one or more devices",
                {
                    "run": ("measuring.multi", "multi", "Measure networks that run at once"),
                    "contention": (
                        "measuring.multi",
                        "contention",
                        "What GPU and CPUs take from each other's memory bandwidth",
                    ),
                    "schedule": (
                        "deciding.schedule",
                        "schedule",
                        "The best schedule of networks on several accelerators",
                    ),
                },
            ),
            "offload": (
                "A small network on the board, a larger one on a server",
                {
                    "serve": (
                        "measuring.offload",
                        "serve_network",
                        "Serve the larger network over HTTP",
                    ),
                    "run": (
                        "measuring.offload",
                        "run_offload",
                        "Measure the small network with a server",
                    ),
                    "tune": ("deciding.tune", "tune", "Choose what to offload, and the power mode"),
                },
            ),
        },
        "Decide": {
            "recommend": ("deciding.recommend", "recommend", "The power mode for your networks"),
            "compare": (
                "deciding.compare",
                "compare",
                "What changed between two boards, modes or builds",
            ),
            "figure": ("deciding.figure", "figure", "A figure or a table for a paper or a slide"),
        },
        "More": {
            "models": (
                "Networks: shipped ones, export, engines, memory, layers",
                {
                    "list": (
                        "counting.models",
                        "list_networks",
                        "The networks that ship with Mansard",
                    ),
                    "show": (
                        "counting.models",
                        "show_network",
                        "One network: its source and its work",
                    ),
                    "write": (
                        "counting.models",
                        "write_networks",
                        "Write shipped networks as ONNX files",
                    ),
                    "export": (
                        "counting.models",
                        "export",
                        "Export a PyTorch network to ONNX, checked",
                    ),
                    "build": ("measuring.builds", "build", "Build engine files without measuring"),
                    "fit": ("deciding.fit", "fit", "Whether networks fit into a board's memory"),
                    "batch": ("deciding.batch", "batch", "Time and energy over batch sizes"),
                    "layers": ("counting.layers", "layers", "What limits each layer of an engine"),
                    "ncu": _NCU,
                },
            ),
            "board": (
                "A board: watch it, its power modes, its logs",
                {
                    "watch": ("board.watch", "watch", "Clocks, power and throttling, live"),
                    "modes": (
                        "board.machine",
                        "modes",
                        "The power modes of a board, and their peaks",
                    ),
                    "plan": ("deciding.plan", "plan", "The power modes worth measuring next"),
                    "restore": (
                        "board.machine",
                        "restore",
                        "Undo what an interrupted run left set",
                    ),
                    "telemetry": ("data.telemetry", "telemetry", "Summarise logs of tegrastats"),
                },
            ),
            "data": (
                "Runs: import, merge, schemas, container images",
                {
                    "import": (
                        "data.runs",
                        "import_tables",
                        "Import figures that others published",
                    ),
                    "merge": ("data.runs", "merge", "Runs of many boards in one dataset"),
                    "schema": ("schemas", "schema", "The JSON Schema of what a command prints"),
                    "image": _IMAGE,
                },
            ),
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
        context_settings=_HELP,
        help="Measure, predict and choose: time and energy of deep networks by power mode.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage; of --check 3 no answer (recommend) or "
        "worse (compare), 4 not known (compare); 130 interrupted.",
    )
    app.callback()(main)
    words = [word for word in arguments if not word.startswith("-")]
    for heading, commands in _COMMANDS.items():
        _add(app, commands, words, heading)
    return app


def _add(
    app: typer.Typer, commands: Mapping[str, _Entry], words: Sequence[str], heading: str
) -> None:
    """Add ``commands`` to ``app``: of those only the one that the first of ``words`` names."""
    everything = {name for listed in _COMMANDS.values() for name in listed} | set(commands)
    named = words[0] if words and words[0] in everything else None
    for name, entry in commands.items():
        if named is not None and name != named:
            continue
        if len(entry) == 2:
            summary, inner = entry
            group = typer.Typer(help=f"{summary}.", no_args_is_help=True)
            _add(group, inner, words[1:], "Commands")
        else:
            place, called, summary = entry
            module = import_module(f"mansard.cli.{place}")
            command = getattr(module, called)
            if not isinstance(command, typer.Typer):
                kind = getattr(module, "COMMAND_CLASS", HelpfulCommand)
                app.command(
                    name,
                    cls=kind,
                    short_help=summary,
                    rich_help_panel=heading,
                    context_settings=_HELP,
                )(command)
                continue
            group = command
            for subcommand in group.registered_commands:
                subcommand.cls = HelpfulCommand
                subcommand.context_settings = _HELP
        app.add_typer(
            group,
            name=name,
            cls=SectionedGroup,
            short_help=summary,
            rich_help_panel=heading,
            context_settings=_HELP,
        )


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mansard {VERSION}")
        raise typer.Exit


def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Show the version."
        ),
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
