"""``mansard telemetry``: logs of tegrastats, or the board's own as it runs, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Format = Literal["table", "csv", "json", "parquet"]


def telemetry(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(help="Logs of tegrastats, plain or gzip'd; - is stdin.", readable=False),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Run this board's tegrastats.")] = False,
    interval: Annotated[
        str | None,
        typer.Option(help="Period between lines: 100ms, 1s. Of --live; of logs without times."),
    ] = None,
    duration: Annotated[str | None, typer.Option(help="End --live after 30s, 5min, 1h.")] = None,
    samples: Annotated[
        bool, typer.Option("--samples", help="Every line instead of the summary.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="How to print; csv and parquet have every line.")
    ] = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write here instead of stdout; parquet needs it."),
    ] = None,
    board: Annotated[
        Path | None,
        typer.Option(help="Root folder of a board, such as a simulated one.", readable=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Summarise LOGS of tegrastats: ranges of every field, energy of the rails, utilisation."""
    from mansard.cli.telemetry_request import make_request
    from mansard.cli.telemetry_run import run_telemetry

    request = make_request(
        logs=logs or [],
        live=live,
        interval=interval,
        duration=duration,
        samples=samples,
        form="json" if as_json else form,
        output=output,
        board=board,
    )
    if not run_telemetry(request):
        raise typer.Exit(130)  # interrupted; what came until then is written
