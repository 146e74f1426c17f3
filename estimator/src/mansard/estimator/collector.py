"""Python's cyclic garbage collector, paused while a network is scored."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """What a score is made of stays until it is done: going through it again finds nothing.

    The collector would, every time that a quarter more has been made.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
