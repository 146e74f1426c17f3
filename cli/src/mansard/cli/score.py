"""``mansard score``: work, traffic and intensity of a network, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Format = Literal["table", "json", "csv", "parquet"]


def score(
    model: Annotated[Path, typer.Argument(help="An ONNX file.", readable=False)],
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size.")] = None,
    dim: Annotated[
        list[str] | None, typer.Option(help="Value of a named dimension: name=value. Repeatable.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Count as fp64, fp32, fp16, bf16, int8, …")
    ] = None,
    mode: Annotated[
        Literal["inference", "training"], typer.Option(help="What the network does.")
    ] = "inference",
    form: Annotated[Format, typer.Option("--format", help="How to print.")] = "table",
    layers: Annotated[
        bool, typer.Option("--layers", help="Show the layers that work or move something.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write here instead of stdout; parquet needs it."),
    ] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Count unknown operators as unknown.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Count FLOPs, parameters and bytes of every layer of MODEL, without executing it."""
    from mansard.cli.score_output import write_score
    from mansard.cli.scoring import parse_dimensions, score_file
    from mansard.core.errors import UsageError

    if as_json:
        form = "json"
    if form == "parquet" and output is None:
        raise UsageError("parquet is not for a terminal", fix="add --output scores.parquet")
    if form == "table" and output is not None:
        raise UsageError("a table is for the terminal", fix="add --format json, csv or parquet")
    scored = score_file(
        model,
        batch=batch,
        dims=parse_dimensions(dim or []),
        precision=precision,
        phase=mode,
        allow_unknown=allow_unknown,
    )
    write_score(scored, form, with_layers=layers, output=output)
