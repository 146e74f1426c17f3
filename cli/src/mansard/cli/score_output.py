"""A score on the terminal, or in a file of the format that was asked for."""

from __future__ import annotations

import sys
from pathlib import Path

from mansard.cli.console import print_table
from mansard.cli.scoring import is_free, layer_rows, score_rows
from mansard.core.documents import readable_json
from mansard.core.files import write_atomic
from mansard.core.records import ModelScore


def write_score(scored: ModelScore, form: str, *, with_layers: bool, output: Path | None) -> None:
    """Write ``scored`` to ``output``, or print it; raises StorageError."""
    if form == "table":
        _print_tables(scored, with_layers)
        return
    content = _encode(scored, form)
    if output is not None:
        write_atomic(output, content)
    else:
        sys.stdout.buffer.write(content)


def _print_tables(scored: ModelScore, with_layers: bool) -> None:
    if with_layers:
        n_free = sum(is_free(layer) for layer in scored.layers)
        title = f"Layers of {scored.model}, without {n_free} that neither work nor move anything"
        print_table(title, *layer_rows(scored.layers))
    print_table(f"{scored.model} (modelled)", *score_rows([scored]))


def _encode(scored: ModelScore, form: str) -> bytes:
    from mansard.estimator import totals

    if form == "json":
        return readable_json({"score": scored, "totals": totals(scored)})
    from mansard.analytics.tables import encode_layers

    return encode_layers(scored, form)
