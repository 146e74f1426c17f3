"""Files that a command is asked to write: those that hold something else stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from mansard.core.errors import UsageError

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace a file that Mansard did not write.")
]

REPORT = "report.html"  # in the first folder of runs

_HEAD_BYTES = 4096
# How each form begins: pages name their generator, documents their schema, tables our columns.
_OURS = re.compile(
    rb'\s*<!doctype html>.*<meta name="generator" content="Mansard |'
    rb'\s*\{\s*"schema"\s*:\s*"mansard/|'
    rb"(?:score_id,model,|threshold,share,accuracy_least,|log,time,time_s,)",
    re.DOTALL,
)


def check_outputs(paths: Iterable[Path | None], *, force: bool) -> None:
    """Raises UsageError where a file holds something that Mansard did not write.

    An empty file holds nothing; what is no regular file is the business of who writes it.
    """
    for path in paths:
        if force or path is None or not path.is_file():
            continue
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
        except OSError:
            head = b"?"
        if head and not _OURS.match(head):
            raise UsageError(
                "is there already, and Mansard did not write it",
                where=str(path),
                fix="give another name, or --force to replace it",
            )
