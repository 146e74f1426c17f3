"""``mansard doctor``: what can be measured on this machine, and what is missing."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Say what can be measured on this machine, what is missing, and what to do about it.

    Exit code 1 if measuring is impossible; things that are only missing do not fail.
    """
    from mansard.cli.checks import run_checks
    from mansard.cli.console import print_json, print_table

    checks = run_checks()
    if as_json:
        print_json(checks)
    else:
        rows = [(check.name, check.status, check.detail, check.fix or "") for check in checks]
        print_table("What Mansard finds here", ("check", "status", "found", "what to do"), rows)
    if any(check.status == "broken" for check in checks):
        raise typer.Exit(1)
