"""The options that say which runs are meant: --runs, several times, and --mix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

RunsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Folder of runs, or a dataset that was merged: a folder or a URL such as "
        "s3://bucket/boards. Repeatable; runs by default."
    ),
]
MixOption = Annotated[
    bool,
    typer.Option(
        "--mix",
        help="Take together runs of one device by different versions, and boards that are alike.",
    ),
]


def run_places(runs: list[str] | None) -> tuple[str, ...]:
    """The places that --runs names, ``runs`` where it names none."""
    return tuple(runs or ("runs",))


def report_path(places: Sequence[str]) -> Path:
    """Where a report goes by default: the first place, or this folder where that is a URL."""
    first = places[0]
    return Path("report.html") if "://" in first else Path(first) / "report.html"
