"""The Typer application: its commands, and its global options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from mansard.cli.commands import COMMANDS, CommandGroup, Entry
from mansard.cli.help import HelpfulCommand, SectionedGroup
from mansard.core.version import VERSION

_HELP = {"help_option_names": ["-h", "--help"]}


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
    entries = {
        name: (heading, entry)
        for heading, commands in COMMANDS.items()
        for name, entry in commands.items()
    }
    _add(app, entries, words)
    return app


def _add(app: typer.Typer, entries: Mapping[str, tuple[str, Entry]], words: Sequence[str]) -> None:
    """Add to ``app`` the entry that the first of ``words`` names, or all if it names none.

    ``entries``: the heading of each, and the entry, by name.
    """
    wanted = words[:1] if words and words[0] in entries else entries
    for name in wanted:
        heading, entry = entries[name]
        if isinstance(entry, CommandGroup):
            group = typer.Typer(help=f"{entry.summary}.", no_args_is_help=True)
            _add(group, {key: ("Commands", one) for key, one in entry.commands.items()}, words[1:])
        else:
            module = import_module(f"mansard.cli.{entry.module}")
            command = getattr(module, entry.function)
            if not isinstance(command, typer.Typer):
                kind = getattr(module, "COMMAND_CLASS", HelpfulCommand)
                app.command(
                    name,
                    cls=kind,
                    short_help=entry.summary,
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
            short_help=entry.summary,
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
        typer.Option(
            "--verbose", "-v", help="Print reasons and notes; -vv: files and timings too."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Rooflines of time and energy for deep networks."""
    del version, quiet, verbose, debug  # they act before this runs
