"""``mansard doctor``: what can be measured on this machine, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from mansard import api
from mansard.api import results
from mansard.cli.console import print_beside, print_json
from mansard.cli.options import BoardOption, JsonOption
from mansard.core.text import printable


def doctor(board: BoardOption = None, as_json: JsonOption = False) -> None:
    """Say what can be measured on this machine, what is missing, and what to do about it.

    One line for each check, and one more with the remedy where something is wrong.
    Exit code 1 if measuring is impossible; things that are only missing do not fail.
    """
    checks = api.doctor(board)
    if as_json:
        print_json("doctor", {"checks": checks})
    else:
        print_checks(checks)
    if any(check.status == "broken" for check in checks):
        raise typer.Exit(1)


def print_checks(checks: Sequence[results.Check]) -> None:
    """Print a line for each check, and one with the remedy where something is wrong."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        lead = f"{check.status:<8} {printable(check.name):<{width}}  "
        print_beside(lead, check.detail)
        if check.fix is not None:
            print_beside(f"{'':<{len(lead)}}→ ", check.fix)
