"""``mansard merge``: runs of many boards in one dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard import api
from mansard.cli.console import print_json, print_lines
from mansard.cli.options import JsonOption


def merge(
    places: Annotated[
        list[str], typer.Argument(help="Folders of runs, or datasets that were merged before.")
    ],
    into: Annotated[
        str, typer.Option(help="Folder or URL of the dataset, such as s3://bucket/boards.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Bring runs into one dataset, in a folder or an object store; report it with --runs.

    A run that is there already is not written again; credentials come from the environment.
    """
    done = api.merge(places, into)
    if as_json:
        print_json("merge", done)
    else:
        counts = f"{done.n_new} new runs, {done.n_grown} that grew, {done.n_same} unchanged"
        print_lines([f"{done.place}: {counts}"])
