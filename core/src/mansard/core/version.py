"""The version of Mansard, which the packaging reads from here, and the commit it is of."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

VERSION = "0.1.0"


@cache
def read_commit() -> str | None:
    """The commit, with ``-dirty`` where files were changed; None outside a checkout of ours."""
    place = Path(__file__).resolve()
    git = ["git", "-C", str(place.parent)]
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(describe, capture_output=True, text=True, timeout=10, check=False)
        # An installed package may lie inside another project's checkout: that commit is not ours.
        ours = subprocess.run(
            [*git, "ls-files", "--error-unmatch", place.name],
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (told.stdout.strip() or None) if ours.returncode == 0 else None
