"""``mansard score``: work, traffic and intensity of networks, without running them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, note, print_error, print_json
from mansard.cli.json_output import ErrorDocument, json_document
from mansard.cli.options import (
    DaskOption,
    ForceOption,
    PhaseOption,
    PrecisionsOption,
    check_outputs,
    parse_dimensions,
    parse_precisions,
    parse_shapes,
    parse_sizes,
    parse_trips,
    parse_values,
)
from mansard.cli.tables import print_fitting, print_table
from mansard.core.errors import UsageError
from mansard.core.precision import unit_title
from mansard.core.records import KvCacheUpdate, LayerScore, ModelScore, Optimizer
from mansard.core.storage.files import write_atomic
from mansard.core.table import Table
from mansard.core.text import first_of

_SHOWN = 20  # notes on the terminal
_NAMED = 3  # networks that a note names
_DETAILED = 1  # up to this number of scores the work is shown by class
_MOST_ROWS = 5000  # of a table; drawing one takes about a millisecond

# Columns to drop on a narrow terminal, in this order; of layers then intensity and operator, and
# last the parameters. MMAC and MFLOP stay: papers quote either.
_DROPPED_FIRST = (
    "nodes",
    "phase",
    "weights (MB)",
    "traffic (MB)",
    "peak (MB)",
    "precision",
    "GMAC",
)
_DROPPED_OF_LAYERS = ("runs", "precision", "unit", "group", "fused (MB)")
# Columns without values in training.
_INFERENCE_ALONE = frozenset({"fused (MB)", "group", "sum (MB)"})

_UPDATES = {"in-place": "in place", "copied": "copied", "none": "–"}

Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]  # columns and rows of a table
Format = Literal["table", "json", "csv", "parquet"]
_Texts = list[str] | None


def score(
    models: Annotated[
        list[str],
        typer.Argument(
            help="ONNX or GGUF files, folders of them, Hugging Face folders, or names such as "
            "resnet50 and llama-3.1-8b:Q4_K_M."
        ),
    ],
    batch: Annotated[
        _Texts, typer.Option(help="Batch sizes: 1,8,32. By default the file's, else 1.")
    ] = None,
    dim: Annotated[
        _Texts,
        typer.Option(
            help="Sizes of named dimensions: batch=8,seq=128. Data-dependent ones also by "
            "pattern: '*NonZero*=64'. Repeatable."
        ),
    ] = None,
    trip: Annotated[_Texts, typer.Option(help="Iterations of a loop: name=N. Repeatable.")] = None,
    value: Annotated[
        _Texts,
        typer.Option(help="Value of an input that shapes depend on: name=16000. Repeatable."),
    ] = None,
    shape: Annotated[
        _Texts,
        typer.Option(
            help="Shape of an input or of an unknown operator's output: name=1x3x224x224, "
            "name=100x4:float16. Repeatable."
        ),
    ] = None,
    upper: Annotated[
        bool,
        typer.Option("--upper-bounds", help="Count data-dependent sizes at their upper bounds."),
    ] = False,
    prefill: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000_000, help="Decoder: read N tokens with an empty cache."),
    ] = None,
    decode: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000_000, help="Decoder: generate one token with N cached."),
    ] = None,
    kv_cache: Annotated[
        KvCacheUpdate | None,
        typer.Option(
            help="Decoder caches grow in place or are copied; in place by default with "
            "--prefill and --decode, else as in the file."
        ),
    ] = None,
    precision: PrecisionsOption = None,
    phase: PhaseOption = "inference",
    optimizer: Annotated[
        Optimizer | None, typer.Option(help="Optimizer of a training step; sgd by default.")
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Recompute activations in training.")
    ] = False,
    cache: Annotated[
        str | None,
        typer.Option(help="Last-level cache for cache-aware traffic: 4MiB, or a board."),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="Output format.")] = "table",
    layers: Annotated[bool, typer.Option("--layers", help="Show the layers.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; parquet needs it."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="HTML page of the layers to write.")] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder of runs whose roofs the page draws.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Files to score in parallel; one per core by default."),
    ] = None,
    dask: DaskOption = None,
    allow_unknown: Annotated[
        bool,
        typer.Option(
            "--allow-unknown", help="Accept operators without a definition; their work is unknown."
        ),
    ] = False,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Count FLOPs, parameters and bytes of every layer of MODELS, without executing them."""
    if as_json:
        output_format = "json"
    _check_format(output_format, output)
    files = {Path(model).resolve() for model in models}
    others = [path for path in (output, html) if path is not None and path.resolve() not in files]
    check_outputs(others, force=force)  # a model among them is refused below
    if runs is not None and html is None:
        raise UsageError("--runs is for the page", fix="add --html page.html")
    if phase == "inference" and (optimizer is not None or recompute):
        option = "--recompute" if recompute else "--optimizer"
        raise UsageError(f"{option} is for training", fix="add --phase training")
    shapes, types = parse_shapes(shape or [])
    given = api.Given(
        dims=parse_dimensions(dim or []),
        trips=parse_trips(trip or []),
        values=parse_values(value or []),
        shapes=shapes,
        types=types,
        upper=upper,
    )
    settings = api.Settings(
        given,
        phase=phase,
        optimizer=optimizer or "sgd",
        recompute=recompute,
        cache_bytes=None if cache is None else _cache_bytes(cache),
        allow_unknown=allow_unknown,
        kv_cache=kv_cache,
    )
    scored = api.score(
        models,
        settings,
        batches=parse_sizes("--batch", batch) if batch else (),
        precisions=parse_precisions(precision) if precision else (),
        prefill=prefill,
        decode=decode,
        jobs=jobs,
        dask=dask,
        outputs=[path for path in (output, html) if path is not None],
        reporter=TerminalReporter(),
    )
    for error in scored.errors:
        print_error(str(error))
    _print_notes(scored.scores)
    if scored.scores or (output_format == "json" and output is None):
        errors = [ErrorDocument.of(error) for error in scored.errors]
        _print_scores(scored.scores, errors, output_format, with_layers=layers, output=output)
    if scored.scores and html is not None:
        api.write_score_page(scored.scores, html, runs)
    if scored.errors:
        raise typer.Exit(1)


def _check_format(output_format: Format, output: Path | None) -> None:
    """Raises UsageError."""
    if output_format == "parquet" and output is None:
        raise UsageError("parquet is not for a terminal", fix="add --output scores.parquet")
    if output_format == "table" and output is not None:
        raise UsageError("a table is for the terminal", fix="add --format json, csv or parquet")


def _print_notes(scores: Sequence[ModelScore]) -> None:
    models_of: dict[str, dict[str, None]] = {}  # a note on several networks is printed once
    for score in scores:
        for text in score.notes:
            models_of.setdefault(text, {})[score.model] = None
    texts = [f"{first_of(list(models), _NAMED)}: {text}" for text, models in models_of.items()]
    for text in texts[:_SHOWN]:
        note(f"note: {text}")
    if len(texts) > _SHOWN:
        note(f"note: and {len(texts) - _SHOWN} more; --format json prints all")


def _print_scores(
    scores: Sequence[ModelScore],
    errors: Sequence[ErrorDocument],
    output_format: Format,
    *,
    with_layers: bool,
    output: Path | None,
) -> None:
    """Write ``scores`` to ``output``, or print them; raises StorageError."""
    if output_format == "table":
        _print_tables(scores, with_layers)
        return
    if output_format == "json":
        summed = [{"score": score, "totals": api.totals(score)} for score in scores]
        document = {"scores": summed, "errors": errors}
        if output is None:
            print_json("score", document)
            return
        content = json_document("score", document)
    else:
        content = api.encode_scores(scores, output_format)
    if output is not None:
        write_atomic(output, content)
    else:
        sys.stdout.buffer.write(content)


def _cache_bytes(cache: str) -> int:
    from mansard.core.hardware import cache_bytes  # the tables of all boards: for this alone

    return cache_bytes(cache)


def _print_tables(scores: Sequence[ModelScore], with_layers: bool) -> None:
    for score in scores if with_layers else ():
        _print_layers(score)
    if len(scores) <= _DETAILED:
        for score in scores:
            print_table(f"Work of {score.model}", *_work_rows(score))
    table = Table("Scores (modelled)", *score_rows(scores))
    if all(score.phase == "training" for score in scores):
        fused = {name for name in table.columns if name.endswith("/byte, fused")}
        table = table.without(_INFERENCE_ALONE | fused)
    print_fitting(table, _DROPPED_FIRST, "--format csv or json has them")


def _print_layers(score: ModelScore) -> None:
    n_free = sum(not command_line.is_functional(layer) for layer in score.layers)
    title = f"Layers of {_named(score)}"
    if n_free:
        title += f"; hidden: {n_free} without work or traffic"
    if score.bounds:
        title += "; every figure is an upper bound"
    _print_rows(score, title, score.layers, f"layers of {score.model}; --format csv")
    if score.alternatives:
        title = f"Branches of {_named(score)} that are not taken and not counted in sums"
        rest = f"of these layers of {score.model}; --format json"
        _print_rows(score, title, score.alternatives, rest)


def _named(score: ModelScore) -> str:
    """``resnet50 (batch 8, fp16, training)``: unique among the scores of a network."""
    batch = () if score.batch is None else (f"batch {score.batch}",)
    return f"{score.model} ({', '.join((*batch, score.precision, score.phase))})"


def _print_rows(score: ModelScore, title: str, layers: Sequence[LayerScore], rest: str) -> None:
    columns, rows = _layer_rows(layers)
    table = Table(title, columns, rows[:_MOST_ROWS])
    # The title has the precision, and most layers run once.
    usual = {"precision": score.precision, "runs": "1"}
    hidden = {name for name, text in usual.items() if {text} == set(_column(table, name))}
    table = table.without(hidden | (_INFERENCE_ALONE if score.phase == "training" else set()))
    less_important = (*_DROPPED_OF_LAYERS, columns[-1], "operator", "parameters (k)")
    print_fitting(table, less_important, "--format csv or json has them")
    if len(rows) > _MOST_ROWS:
        note(f"{len(rows) - _MOST_ROWS} more {rest} prints all")


def _column(table: Table, name: str) -> list[str]:
    return table.column(table.columns.index(name))


def score_rows(scores: Sequence[ModelScore]) -> Rows:
    """Columns and one row of totals for each score.

    Only nodes with work or traffic are counted. Weights, the peak of activations, and keys and
    values are followed by their sum. The cached traffic, keys and values, and dimensions have a
    column if a score has a value or they differ.
    """
    precisions = [score.precision for score in scores]
    columns = ("network", "batch", "precision", "phase", "nodes", "GMAC")
    work = (unit_title("G{}", precisions), "params (M)")
    moved = ("traffic (MB)", "fused (MB)")
    intensities = (
        unit_title("{}/byte, traffic", precisions),
        unit_title("{}/byte, fused", precisions),
    )
    more: dict[str, list[str]] = {}
    memory = {
        "weights (MB)": [_total(api.totals(score), "weight_bytes", 1e6) for score in scores],
        "peak (MB)": [_of_network(score, score.peak_activation_bytes) for score in scores],
    }
    if any(score.cache_bytes is not None for score in scores):
        more["cached (MB)"] = [_cached(score) for score in scores]
    if any(score.kv_cache_bytes or score.kv_cache_update != "none" for score in scores):
        memory["KV cache (MB)"] = [_of_network(score, score.kv_cache_bytes) for score in scores]
        more["KV cache"] = [_UPDATES[score.kv_cache_update] for score in scores]
    memory["sum (MB)"] = [_total(api.totals(score), "memory_bytes", 1e6) for score in scores]
    more = memory | more
    differing = command_line.differing_dimensions(scores)
    if any(differing):
        more["dimensions"] = differing
    rows = [
        (*_score_row(score), *(cells[i] for cells in more.values()))
        for i, score in enumerate(scores)
    ]
    return (*columns, *work, *moved, *intensities, *more), rows


def _cached(score: ModelScore) -> str:
    return _total(api.totals(score), "cached_traffic_bytes", 1e6)


def _score_row(score: ModelScore) -> tuple[str, ...]:
    total = api.totals(score)
    return (
        score.model,
        "–" if score.batch is None else str(score.batch),
        score.precision,
        score.phase,
        str(total.n_functional_layers),
        _total(total, "macs", 1e9),
        _total(total, "work_flop", 1e9),
        _total(total, "parameters", 1e6),
        _total(total, "traffic_bytes", 1e6),
        _total(total, "fused_traffic_bytes", 1e6),
        _scaled(total.intensity, 1),
        _scaled(total.fused_intensity, 1),
    )


def _of_network(score: ModelScore, n_bytes: int | None) -> str:
    """A figure of the whole network in MB."""
    text = _scaled(n_bytes, 1e6)
    return f"at most {text}" if score.bounds and n_bytes is not None else text


def _total(total: results.Totals, name: str, unit: float) -> str:
    """A sum; "at most" marks a bound, "at least" a sum over the known layers alone."""
    value = getattr(total, name)
    if value is None:
        known = total.at_least.get(name)
        return "unknown" if known is None else f"at least {_scaled(known, unit)}"
    return f"at most {_scaled(value, unit)}" if total.is_upper_bound else _scaled(value, unit)


def _work_rows(score: ModelScore) -> Rows:
    """The work of one score by class, precision and execution unit."""
    total = api.totals(score)
    classes = {
        "multiply-adds": "multiply_add_flop",
        "single operations": "simple_flop",
        "functions": "function_flop",
    }
    rows: list[tuple[str, ...]] = [
        ("class", name, _total(total, flop, 1e9), _share(getattr(total, flop), total))
        for name, flop in classes.items()
    ]
    # The layers that are unknown are in no part.
    word = "at most " if total.is_upper_bound else "at least " if total.n_unknown_layers else ""
    for what, parts in (("precision", total.by_precision), ("unit", total.by_unit)):
        rows += [
            (what, name, f"{word}{_scaled(flop, 1e9)}", _share(flop, total))
            for name, flop in parts.items()
        ]
    return ("by", "work", unit_title("G{}", total.by_precision), "share"), rows


def _share(flop: int | None, total: results.Totals) -> str:
    if flop is None or not total.work_flop or total.is_upper_bound:
        return "–"
    return f"{flop / total.work_flop:.1%}"


def _layer_rows(layers: Sequence[LayerScore]) -> Rows:
    """Columns and one row for each layer that works or moves something."""
    shown = [layer for layer in layers if command_line.is_functional(layer)]
    precisions = [layer.precision for layer in shown if layer.work_flop]
    work = ("layer", "operator", "precision", "unit", "runs", "MMAC", unit_title("M{}", precisions))
    moved = ("parameters (k)", "read (MB)", "written (MB)", "fused (MB)", "group")
    intensity = unit_title("{}/byte, traffic", precisions)
    return (*work, *moved, intensity), [_layer_row(layer) for layer in shown]


def _layer_row(layer: LayerScore) -> tuple[str, ...]:
    name = layer.name or f"(node {layer.index})"
    return (
        f"{layer.scope}/{name}" if layer.scope else name,
        layer.op_type,
        layer.precision,
        layer.unit,
        str(layer.runs),
        _scaled(layer.macs, 1e6),
        _scaled(layer.work_flop, 1e6),
        _scaled(layer.parameters, 1e3),
        _scaled(layer.read_bytes, 1e6),
        _scaled(layer.write_bytes, 1e6),
        _scaled(layer.fused_traffic_bytes, 1e6),
        "unknown" if layer.fused_group is None else str(layer.fused_group),
        _intensity(layer),
    )


def _intensity(layer: LayerScore) -> str:
    if layer.work_flop is None or not layer.traffic_bytes:
        return "–"  # unknown work, or a layer that moves nothing
    return f"{layer.work_flop / layer.traffic_bytes:.4g}"


def _scaled(value: float | None, unit: float) -> str:
    return "unknown" if value is None else f"{value / unit:.4g}"
