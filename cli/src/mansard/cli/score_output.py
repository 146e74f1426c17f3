"""Scores on the terminal, or in a file of the format that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mansard.cli.console import note, print_table
from mansard.cli.score_tables import is_free, layer_rows, score_rows, work_rows
from mansard.core.documents import readable_json
from mansard.core.files import write_atomic
from mansard.core.records import LayerScore, ModelScore

_DETAILED = 1  # so many scores are shown with their work by class
_MOST_ROWS = 5000  # of a table; drawing one takes about a millisecond


def write_scores(
    scores: Sequence[ModelScore], form: str, *, with_layers: bool, output: Path | None
) -> None:
    """Write ``scores`` to ``output``, or print them; raises StorageError."""
    if form == "table":
        _print_tables(scores, with_layers)
        return
    content = _encode(scores, form)
    if output is not None:
        write_atomic(output, content)
    else:
        sys.stdout.buffer.write(content)


def _print_tables(scores: Sequence[ModelScore], with_layers: bool) -> None:
    for score in scores if with_layers else ():
        _print_layers(score)
    if len(scores) <= _DETAILED:
        for score in scores:
            print_table(f"Work of {score.model}", *work_rows(score))
    print_table("Scores (modelled)", *score_rows(scores))


def _print_layers(score: ModelScore) -> None:
    n_free = sum(is_free(layer) for layer in score.layers)
    title = f"Layers of {score.model}, without {n_free} that neither work nor move anything"
    _print_rows(title, score.layers, f"layers of {score.model}; --format csv")
    if score.alternatives:
        title = f"Branches of {score.model} that are not taken and in no sum"
        _print_rows(title, score.alternatives, f"of these layers of {score.model}; --format json")


def _print_rows(title: str, layers: Sequence[LayerScore], rest: str) -> None:
    columns, rows = layer_rows(layers)
    print_table(title, columns, rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        note(f"{len(rows) - _MOST_ROWS} more {rest} has them all")


def _encode(scores: Sequence[ModelScore], form: str) -> bytes:
    from mansard.estimator import totals

    if form == "json":
        documents = [{"score": score, "totals": totals(score)} for score in scores]
        return readable_json(documents[0] if len(documents) == 1 else {"scores": documents})
    from mansard.analytics.data.frames import encode_layers

    return encode_layers(scores, form)
