"""``mansard score``: work, traffic and intensity of networks, without running them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard.core.records import Optimizer

Format = Literal["table", "json", "csv", "parquet"]
_Texts = list[str] | None


def score(
    models: Annotated[
        list[Path], typer.Argument(help="ONNX files, or folders of them.", readable=False)
    ],
    batch: Annotated[_Texts, typer.Option(help="Batch size, or several: 1,8,32.")] = None,
    dim: Annotated[
        _Texts, typer.Option(help="Named dimensions: batch=8,seq=128. Repeatable.")
    ] = None,
    trip: Annotated[_Texts, typer.Option(help="How often a loop runs: name=N. Repeatable.")] = None,
    value: Annotated[
        _Texts,
        typer.Option(help="What an input holds that shapes depend on: name=16000. Repeatable."),
    ] = None,
    shape: Annotated[
        _Texts, typer.Option(help="Shape of an input: name=1x3x224x224. Repeatable.")
    ] = None,
    prefill: Annotated[
        int | None, typer.Option(min=1, help="Of a decoder: read so many tokens, nothing cached.")
    ] = None,
    decode: Annotated[
        int | None, typer.Option(min=1, help="Of a decoder: make one token, so many cached.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Count as fp64, fp32, fp16, bf16, int8, …")
    ] = None,
    mode: Annotated[
        Literal["inference", "training"], typer.Option(help="What the network does.")
    ] = "inference",
    optimizer: Annotated[
        Optimizer | None, typer.Option(help="Of a training step; sgd by default.")
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Training computes activations again.")
    ] = False,
    cache: Annotated[
        str | None,
        typer.Option(help="Last-level cache for the cache-aware traffic: 4MiB, or a board."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print.")] = "table",
    layers: Annotated[
        bool, typer.Option("--layers", help="Show the layers that work or move something.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write here instead of stdout; parquet needs it."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page about the layers.")] = None,
    machine: Annotated[
        Path | None, typer.Option(help="Folder of runs: the page draws its roofs.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Files scored at a time; all cores by default.")
    ] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Count unknown operators as unknown.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Count FLOPs, parameters and bytes of every layer of MODELS, without executing them."""
    from mansard.cli import given_options as options
    from mansard.cli.score_jobs import score_models
    from mansard.cli.score_output import write_scores
    from mansard.cli.score_report import report_failures, write_page
    from mansard.cli.score_request import Request, check_targets, check_understood, find_models
    from mansard.core.errors import UsageError
    from mansard.core.hardware import cache_bytes
    from mansard.core.precision import parse_precision
    from mansard.estimator import Given, Settings

    if as_json:
        form = "json"
    if form == "parquet" and output is None:
        raise UsageError("parquet is not for a terminal", fix="add --output scores.parquet")
    if form == "table" and output is not None:
        raise UsageError("a table is for the terminal", fix="add --format json, csv or parquet")
    if machine is not None and html is None:
        raise UsageError("--machine is for the page", fix="add --html page.html")
    if mode == "inference" and (optimizer is not None or recompute):
        option = "--recompute" if recompute else "--optimizer"
        raise UsageError(f"{option} is for training", fix="add --mode training")
    given = Given(
        dims=options.parse_dimensions(dim or []),
        trips=options.parse_trips(trip or []),
        values=options.parse_values(value or []),
        shapes=options.parse_shapes(shape or []),
    )
    settings = Settings(
        given,
        parse_precision(precision) if precision is not None else None,
        mode,
        optimizer or "sgd",
        recompute,
        cache_bytes(cache) if cache is not None else None,
        allow_unknown,
    )
    stages = [(prefill, 0)] if prefill else []
    stages += [(1, decode)] if decode else []
    batches = options.parse_sizes("--batch", batch) if batch else (None,)
    found = find_models(models)
    check_targets(found, [target for target in (output, html) if target is not None])
    request = Request(settings, batches, tuple(stages) or (None,), len(found) > 1)
    outcomes = score_models(found, request, jobs)
    check_understood(outcomes, request)
    scores = report_failures(outcomes)
    if scores:
        write_scores(scores, form, with_layers=layers, output=output)
        if html is not None:
            write_page(scores, html, machine)
    if any(outcome.errors for outcome in outcomes):
        raise typer.Exit(1)
