"""Which files are read and written, for a caller that wants to tell it: ``mansard --verbose``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

_listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def told_files(tell: Callable[[str], None]) -> Iterator[None]:
    """While the block runs ``tell`` gets a line for each file that ``files`` reads or writes."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def tell_file(what: Literal["reads", "writes"], path: Path) -> None:
    """Tell that ``path`` is used."""
    for tell in _listeners:
        tell(f"{what} {path}")
