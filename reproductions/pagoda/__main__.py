"""Reproduce Pagoda's analytical table and its 25 measured points, with ours beside them.

python -m reproductions.pagoda [--output demo/pagoda.html] [--json]

Its figures are published ones; the five networks are scored here. Nothing is measured. Writes a
page, and prints the points and what they say. docs/understand/pagoda.md explains every difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from mansard.cli.console import print_lines, print_whole
from mansard.cli.tables import print_tables
from mansard.core.errors import MansardError
from mansard.core.records import ModelScore
from mansard.estimator import score, zoo
from reproductions.pagoda.figures import point_table
from reproductions.pagoda.page import Pagoda, findings, write_pagoda_page
from reproductions.pagoda.table import BATCHES, MEASURED_BATCHES, NETWORKS
from reproductions.pagoda.word_lstm import word_lstm
from tools.zoo.serialise import to_bytes, to_model

_SEQUENCE = {"bert_large": 128, "word_lstm": 8}  # that it counted


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and print the points; the exit code."""
    parser = argparse.ArgumentParser(prog="reproductions.pagoda", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-o", "--output", type=Path, default=Path("demo/pagoda.html"))
    parser.add_argument("--json", action="store_true", help="print counts and points as JSON")
    options = parser.parse_args(arguments)
    try:
        pagoda = write_pagoda_page(pagoda_scores(), options.output)
    except MansardError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        document = {
            "page": str(options.output),
            "counts": pagoda.counts.to_dicts(),
            "points": pagoda.points.to_dicts(),
            "findings": findings(pagoda.points),
        }
        print(json.dumps(document, ensure_ascii=False))
    else:
        print_points(pagoda)
        print_whole(f"page: {options.output}")
    return 0


def pagoda_scores() -> list[ModelScore]:
    """Each network at Pagoda's shapes and batches in FP32; where it was measured also in TF32."""
    scores = []
    for name in NETWORKS:
        model = to_bytes(to_model(word_lstm())) if name == "word_lstm" else zoo.read(name)
        dims = {"sequence": _SEQUENCE[name]} if name in _SEQUENCE else {}
        scores += [
            score(model, name=name, batch=batch, dims=dims, precision=precision)
            for batch in BATCHES
            for precision in (("fp32", "tf32") if batch in MEASURED_BATCHES else ("fp32",))
        ]
    return scores


def print_points(pagoda: Pagoda) -> None:
    """Print Pagoda's points beside ours, times and powers apart, and what they say."""
    table = point_table(pagoda.points)
    watts = next(at for at, name in enumerate(table.columns) if name.endswith(", W"))
    for what, shown in (
        ("times", range(2, watts)),
        ("power", range(watts, len(table.columns))),
    ):
        part = table.with_only((0, 1, *shown))  # the network and its batch
        print_tables([replace(part, title=f"{table.title}: {what}")])
    print_lines(findings(pagoda.points))


if __name__ == "__main__":
    sys.exit(main())
