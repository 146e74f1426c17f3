"""``mansard demo pagoda``: Pagoda's table and points, with our estimates beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mansard.core.records import ModelScore

_SEQUENCE = {"bert_large": 128, "word_lstm": 8}  # that Pagoda counted: docs/pagoda.md


def pagoda(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the page.", readable=False)
    ] = Path("demo/pagoda.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Reproduce Pagoda's analytical table and its 25 measured points, with ours beside them.

    Its figures ship with Mansard; the five networks are scored here. Nothing is measured.
    """
    from mansard.analytics.figures.pagoda import point_table
    from mansard.analytics.report.pagoda_page import findings, write_pagoda_page
    from mansard.cli.console import path_text, print_json, print_table

    found = write_pagoda_page(_scores(), output)
    said = findings(found.points)
    if as_json:
        print_json(
            {
                "page": path_text(output),
                "counts": found.counts.to_dicts(),
                "points": found.points.to_dicts(),
                "findings": said,
            }
        )
        return
    table = point_table(found.points)
    plain = [[cell.replace("\u00a0", " ") for cell in row] for row in table.rows]
    print_table(table.caption, table.columns, plain)
    for line in said:
        typer.echo(line.replace("\u00a0", " "))
    typer.echo(f"page: {output}")


def _scores() -> list[ModelScore]:
    """Each network at Pagoda's shapes and batches in FP32; where it was measured also in TF32."""
    from mansard.analytics.published.reference import BATCHES, MEASURED_BATCHES, NETWORKS
    from mansard.estimator import score, zoo

    scores = []
    for name in NETWORKS:
        model = zoo.read_word_lstm() if name == "word_lstm" else zoo.read(name)
        dims = {"sequence": _SEQUENCE[name]} if name in _SEQUENCE else {}
        scores += [
            score(model, name=name, batch=batch, dims=dims, precision=precision)
            for batch in BATCHES
            for precision in (("fp32", "tf32") if batch in MEASURED_BATCHES else ("fp32",))
        ]
    return scores
