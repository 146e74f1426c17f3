"""Asking before something large is downloaded, where there is somebody to ask."""

from __future__ import annotations

import sys
from collections.abc import Callable


def asker(*, agreed: bool = False) -> Callable[[str], bool] | None:
    """What asks a question on the terminal; None where all is agreed or nobody is there."""
    if agreed or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str) -> bool:
        import typer

        from mansard.core.text import printable

        return typer.confirm(printable(question), default=True, err=True)

    return ask
