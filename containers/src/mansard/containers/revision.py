"""Which commit this Mansard is of, for the label of its images."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

UNKNOWN = "unknown"


@cache
def revision() -> str:
    """The commit, with ``-dirty`` where files were changed; ``unknown`` outside a checkout."""
    folder = str(Path(__file__).resolve().parent)
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        # An installed package may lie inside somebody else's checkout: that commit is not ours.
        ours = subprocess.run(
            ["git", "-C", folder, "ls-files", "--error-unmatch", "revision.py"],
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return told.stdout.strip() if ours.returncode == 0 and told.stdout.strip() else UNKNOWN
