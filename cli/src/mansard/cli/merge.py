"""``mansard merge``: runs of many boards in one dataset."""

from __future__ import annotations

from typing import Annotated

import typer


def merge(
    places: Annotated[
        list[str], typer.Argument(help="Folders of runs, or datasets that were merged before.")
    ],
    into: Annotated[
        str, typer.Option(help="Folder or URL of the dataset, such as s3://bucket/boards.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Bring runs into one dataset, in a folder or an object store; report it with --runs.

    A run that is there already is not written again; credentials come from the environment.
    """
    from mansard.analytics.data.opening import merge as merge_runs
    from mansard.cli.console import print_json

    done = merge_runs(places, into)
    if as_json:
        print_json(done)
        return
    print(  # noqa: T201 - this line is the command's data
        f"{done.place}: {done.n_new} new runs, {done.n_grown} that grew, {done.n_same} unchanged"
    )
