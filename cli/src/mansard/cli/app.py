"""The Typer application: its commands, and its global options."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Annotated

import typer

from mansard.core.version import VERSION

# Module of each command, and the function or the group of commands in it.
_COMMANDS = MappingProxyType(
    {
        "bench": ("measuring.bench", "bench"),
        "measure": ("measuring.measure", "measure"),
        "contention": ("measuring.contention", "contention"),
        "multi": ("measuring.multi", "multi"),
        "batch": ("deciding.batch", "batch"),
        "score": ("counting.score", "score"),
        "report": ("data.report", "report"),
        "compare": ("deciding.compare", "compare"),
        "export": ("counting.export", "export"),
        "doctor": ("board.doctor", "doctor"),
        "merge": ("data.merge", "merge"),
        "modes": ("board.modes", "modes"),
        "plan": ("deciding.plan", "plan"),
        "recommend": ("deciding.recommend", "recommend"),
        "hi": ("deciding.hi", "hi"),
        "schedule": ("deciding.schedule", "schedule"),
        "watch": ("board.watch", "watch"),
        "restore": ("board.restore", "restore"),
        "telemetry": ("data.telemetry", "telemetry"),
        "import": ("data.import_tables", "import_tables"),
        "demo": ("measuring.demo", "demo_app"),
        "ncu": ("counting.ncu", "ncu_app"),
        "zoo": ("counting.zoo", "zoo_app"),
        "image": ("board.image", "image_app"),
    }
)


def make_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """The application as far as ``arguments`` need it: with the command that they name alone.

    All commands are there if they name none. To import and build all of them takes as long as to
    score a small network.
    """
    app = typer.Typer(
        name="mansard",
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # errors are one line; __main__ prints them
        rich_markup_mode=None,  # plain help starts twice as fast
        help="Rooflines of time and energy for deep networks: measure, score, predict, report.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
    )
    app.callback()(main)
    # No global option takes a value: the first word without a dash is the command.
    named = next((word for word in arguments if not word.startswith("-")), "")
    for name in _COMMANDS if named not in _COMMANDS else (named,):
        place, called = _COMMANDS[name]
        module = import_module(f"mansard.cli.{place}")
        found = getattr(module, called)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name, cls=getattr(module, "COMMAND_CLASS", None))(found)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mansard {VERSION}")
        raise typer.Exit


def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Rooflines of time and energy for deep networks: measure, score, predict, report."""
    del version, debug  # both act before this runs
