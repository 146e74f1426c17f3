"""The version of Mansard, which the packaging reads from here, and its commit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.core.processes.programs import run_program

VERSION = "0.1.0"


@cache
def read_commit() -> str | None:
    """The commit, with ``-dirty`` where files were changed; None outside a checkout of ours."""
    place = Path(__file__).resolve()
    git = ["git", "-C", str(place.parent)]
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]

    try:
        described = run_program(describe, timeout_s=10)
        # An installed package may lie inside another project's checkout: that commit is not ours.
        ours = run_program([*git, "ls-files", "--error-unmatch", place.name], timeout_s=10)
    except MansardError:
        return None
    return (described.text.strip() or None) if ours.exit_code == 0 else None
