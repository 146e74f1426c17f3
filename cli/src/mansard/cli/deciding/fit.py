"""``models fit``: whether networks fit into the memory of a board, and what fits instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics.data.quantities import capacity
from mansard.api import results
from mansard.cli.console import TerminalReporter, print_json, print_lines, print_whole
from mansard.cli.options import JsonOption, parse_tokens
from mansard.cli.tables import print_tables
from mansard.core.errors import UsageError
from mansard.core.table import Table

_BAR = 60  # columns
_DETAILED = 2  # answers with a bar and the parts; more are one table
_MARKS = "█▓▒░"  # of the parts in their order; what follows shares the last


def fit(
    models: Annotated[
        list[str],
        typer.Argument(
            help="ONNX or GGUF files, Hugging Face folders, or names such as llama-3.1-8b:Q4_K_M."
        ),
    ],
    board: Annotated[
        str | None,
        typer.Option(help="Module, such as orin-nano-8gb, or root folder of a board."),
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="This machine; the default.")] = False,
    context: Annotated[
        str | None, typer.Option(help="Context length of a language model: 8k. 4096 by default.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Batch size, or number of sequences.")
    ] = 1,
    engine: Annotated[
        Literal["llama.cpp", "vllm", "tensorrt", "ort"] | None,
        typer.Option(
            help="Engine. By default llama.cpp for language models, else TensorRT on a Jetson "
            "and ONNX Runtime elsewhere."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether MODELS fit into a board's memory, and find the largest that fits; runs nothing.

    Counts weights, caches and activations. The engine's share is a range of published figures, so
    the answer may be uncertain. On this machine MemAvailable counts.
    """
    if here and board is not None:
        raise UsageError("--here and --board exclude each other", fix="leave one of them out")
    answers = api.fit(
        models,
        board=board,
        context=_tokens(context),
        batch=batch,
        engine=engine,
        reporter=TerminalReporter(),
    )
    if as_json:
        print_json("fit", {"fits": answers})
    elif len(answers) > _DETAILED:
        print_tables([_overview(answers)])
    else:
        for answer in answers:
            _print(answer)


def _tokens(context: str | None) -> int | None:
    if context is None:
        return None
    lengths = parse_tokens("--context", [context])
    if len(lengths) != 1:
        raise UsageError("--context of 'mansard models fit' is one length", fix="--context 8k")
    return lengths[0]


def _print(answer: results.MemoryFit) -> None:
    print_lines([_sentence(answer)])
    print_whole(f"  {_bar(answer)}")
    rows = [
        (f"{mark} {need.part}", _range(need.low_bytes, need.high_bytes), need.source)
        for mark, need in _marked(answer)
    ]
    rows += [
        ("  together", _range(answer.low_bytes, answer.high_bytes), ""),
        (
            f"  {answer.capacity.name}",
            _range(answer.capacity.low_bytes, answer.capacity.high_bytes),
            answer.capacity.source,
        ),
    ]
    print_tables([Table("", ("part", "memory", "source"), rows)])
    print_lines(_lines(answer))


def _sentence(answer: results.MemoryFit) -> str:
    asked = f"with a context of {answer.context:,} tokens and " if answer.context else "with "
    verdict = {
        "fits": "fits",
        "fits with less": f"does not fit, but fits with {answer.less}",
        "uncertain": "may or may not fit",
        "does not fit": "does not fit",
    }[answer.verdict]
    return (
        f"{answer.model} {verdict}: {answer.engine} needs "
        f"{_range(answer.low_bytes, answer.high_bytes)} {asked}batch {answer.batch}; "
        f"{answer.capacity.name} gives "
        f"{_range(answer.capacity.low_bytes, answer.capacity.high_bytes)}"
    )


def _lines(answer: results.MemoryFit) -> Iterator[str]:
    if answer.verdict == "uncertain" and answer.less is not None:
        yield f"  surely: {answer.less}"
    none = "none surely fits"
    if answer.context is not None:
        longest = answer.longest_context
        yield f"  longest context: {none if longest is None else f'{longest:,} tokens'}"
    largest = answer.largest_batch
    yield f"  largest batch: {none if largest is None else f'{largest:,}'}"
    if answer.verdict != "fits":
        yield f"  next smaller format that fits: {answer.smaller or 'none that is known'}"
    if answer.build is not None:
        needed = _range(answer.build.low_bytes, answer.build.high_bytes)
        yield f"  building its engine file there {answer.build.verdict}: {needed}"
    yield from (f"  note: {line}" for line in answer.notes)


def _marked(answer: results.MemoryFit) -> Iterator[tuple[str, results.MemoryNeed]]:
    for at, need in enumerate(answer.needs):
        yield _MARKS[min(at, len(_MARKS) - 1)], need


def _bar(answer: results.MemoryFit) -> str:
    """The most that each part needs, and what is free; | is the least that the machine gives."""
    most = max(answer.high_bytes, answer.capacity.high_bytes)
    parts, end = "", 0.0
    for mark, need in _marked(answer):
        end += need.high_bytes
        parts += mark * (round(_BAR * end / most) - len(parts))
    at = min(round(_BAR * answer.capacity.low_bytes / most), _BAR - 1)
    bar = parts.ljust(_BAR, "·")
    return f"{bar[:at]}|{bar[at:]}"


def _overview(answers: Sequence[results.MemoryFit]) -> Table:
    columns = ("network", "engine", "verdict", "needs", "longest context", "batch", "smaller")
    rows = [
        (
            answer.model,
            answer.engine,
            answer.verdict,
            _range(answer.low_bytes, answer.high_bytes),
            "–" if answer.longest_context is None else f"{answer.longest_context:,}",
            "–" if answer.largest_batch is None else f"{answer.largest_batch:,}",
            answer.smaller or "–",
        )
        for answer in answers
    ]
    given = answers[0].capacity
    gives = _range(given.low_bytes, given.high_bytes)
    return Table(f"Memory on {given.name}, which gives {gives}", columns, rows)


def _range(low_bytes: int, high_bytes: int) -> str:
    low, high = capacity(low_bytes), capacity(high_bytes)
    if low == high:
        return low
    number, unit = low.split("\N{NO-BREAK SPACE}")
    return f"{number if high.endswith(unit) else low} to {high}"
