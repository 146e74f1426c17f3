"""The output of ``--dry-run``: each write that the command would make."""

from __future__ import annotations

from collections.abc import Iterable

from mansard.api import results
from mansard.cli.console import print_json, print_lines
from mansard.cli.tables import print_table


def print_dry_runs(planned: Iterable[results.DryRun], *, as_json: bool) -> None:
    """Print the writes that set each mode, in order, and the estimated time.

    Raises what ``planned`` raises, after the boards before it.
    """
    boards: list[results.DryRun] = []
    try:
        for board in planned:
            boards.append(board)
            if not as_json:
                _print_board(board)
    finally:
        if as_json and boards:
            print_json("dry-run", {"boards": boards})


def _print_board(board: results.DryRun) -> None:
    rows = [(one.mode.name, line) for one in board.modes for line in one.steps or ("no writes",)]
    of = "" if board.board is None else f" of {board.board}"
    print_table(f"Dry run{of}: nothing is changed", ("mode", "step"), rows)
    print_lines([board.summary if board.board is None else f"{board.board}: {board.summary}"])
