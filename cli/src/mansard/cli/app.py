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
    "Counters of Nsight Compute, compared with the estimate",
    {
        "run": ("counting.ncu", "run_networks", "Run networks under Nsight Compute"),
        "import": ("counting.ncu", "import_exports", "Read exports of Nsight Compute"),
        "check": ("counting.ncu", "check_estimates", "Compare estimates with counters, by layer"),
    },
)
_IMAGE = (
    "The container images that measurements run in",
    {
        "fit": ("board.image", "fit_image", "The image that fits this machine, and why"),
        "list": ("board.image", "list_images", "Images built here, and all known ones"),
        "build": ("board.image", "build_image", "Build the image that fits this machine"),
        "save": ("board.image", "save_image", "Save an image as a file, with its digest"),
        "load": ("board.image", "load_image", "Load a saved image after checking it"),
        "libraries": (
            "board.image",
            "list_libraries",
            "Libraries of an image, for 'pip download'",
        ),
    },
)
_COMMANDS: Mapping[str, Mapping[str, _Entry]] = MappingProxyType(
    {
        "Begin here": {
            "doctor": ("board.machine", "doctor", "Check this machine, with remedies"),
            "bench": ("measuring.bench", "bench", "Measure this machine and write a report"),
            "report": ("data.runs", "report", "Write the report again from measured runs"),
            "demo": (
                "measuring.bench",
                "demo_app",
                "A report of published figures, without a board",
            ),
        },
        "Measure and score": {
            "measure": (
                "measuring.measure",
                "measure",
                "Latency and energy of networks, programs or servers",
            ),
            "score": ("counting.score", "score", "FLOPs, parameters and bytes of every layer"),
            "multi": (
                "Several networks at once, on one or more devices",
                {
                    "run": ("measuring.multi", "multi", "Measure networks that run at once"),
                    "contention": (
                        "measuring.multi",
                        "contention",
                        "Contention of GPU and CPUs for memory bandwidth",
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
                    "tune": (
                        "deciding.tune",
                        "tune",
                        "Choose samples to offload, and the power mode",
                    ),
                },
            ),
        },
        "Decide": {
            "recommend": ("deciding.recommend", "recommend", "The power mode for your networks"),
            "compare": (
                "deciding.compare",
                "compare",
                "Compare boards, modes or builds",
            ),
            "figure": ("deciding.figure", "figure", "A figure or a table for a paper or a slide"),
        },
        "More": {
            "models": (
                "Networks: list, export, build, memory, layers, counters",
                {
                    "list": (
                        "counting.models",
                        "list_networks",
                        "The networks that ship with Mansard",
                    ),
                    "show": (
                        "counting.models",
                        "show_network",
                        "One network, its source and work",
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
                    "fit": ("deciding.fit", "fit", "Check whether networks fit into memory"),
                    "batch": ("deciding.batch", "batch", "Time and energy over batch sizes"),
                    "layers": (
                        "counting.layers",
                        "layers",
                        "Compare an engine's layers with their roofs",
                    ),
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
                    "plan": ("deciding.plan", "plan", "Power modes to measure next"),
                    "restore": (
                        "board.machine",
                        "restore",
                        "Restore a board after an interrupted run",
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
                        "Import published figures",
                    ),
                    "merge": ("data.runs", "merge", "Merge runs of many boards"),
                    "schema": ("schemas", "schema", "JSON Schema of a command's output"),
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
        help="Measure, model and choose power modes: latency and energy of deep networks.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage; with --check 3 no answer (recommend) "
        "or worse (compare), 4 undetermined (compare); 130 interrupted.",
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
        typer.Option("--quiet", "-q", help="Print only results and errors."),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print reasons, notes, files and timings."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Rooflines of time and energy for deep networks."""
    del version, quiet, verbose, debug  # they act before this runs
