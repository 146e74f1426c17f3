"""The Typer application and its global options."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard.cli.board.doctor import doctor
from mansard.cli.board.image import image_app
from mansard.cli.board.modes import modes
from mansard.cli.board.restore import restore
from mansard.cli.counting.export import export
from mansard.cli.counting.score import score
from mansard.cli.counting.zoo import zoo_app
from mansard.cli.data.import_tables import import_tables
from mansard.cli.data.merge import merge
from mansard.cli.data.report import report
from mansard.cli.data.telemetry import telemetry
from mansard.cli.deciding.batch import batch
from mansard.cli.deciding.compare import compare
from mansard.cli.deciding.plan import plan
from mansard.cli.deciding.recommend import recommend
from mansard.cli.measuring.bench import bench
from mansard.cli.measuring.demo import demo_app
from mansard.core.version import VERSION

app = typer.Typer(
    name="mansard",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # errors are one line; __main__ prints them
    rich_markup_mode=None,  # plain help starts twice as fast
    help="Rooflines of time and energy for deep networks: measure, score, predict, report.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mansard {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Rooflines of time and energy for deep networks: measure, score, predict, report."""
    del version, debug  # both act before this runs


app.command()(bench)
app.command()(batch)
app.command()(score)
app.command()(report)
app.command()(compare)
app.command()(export)
app.command()(doctor)
app.command()(merge)
app.command()(modes)
app.command()(plan)
app.command()(recommend)
app.command()(restore)
app.command()(telemetry)
app.command("import")(import_tables)
app.add_typer(demo_app, name="demo")
app.add_typer(zoo_app, name="zoo")
app.add_typer(image_app, name="image")
