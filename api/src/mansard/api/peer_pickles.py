"""What Dask may unpickle of its peers: the state of a lost task, and nothing that acts.

Results of workers are data (``wire.py``), but Dask's client also unpickles what surrounds them:
exceptions and tracebacks of tasks, types of results, warnings, answers of ``Client.run``. A pickle
acts by naming what it calls, and Python reports each name before it is looked up, as the audit
event ``pickle.find_class`` (PEP 578). So one list of names holds for every way into the client, on
all of its threads, also for ways that later versions of Dask add.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any

# The type of every result, and what the exception of a lost task consists of.
_NAMES = frozenset(
    {
        ("builtins", "bytes"),
        ("builtins", "int"),
        ("builtins", "tuple"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("distributed.core", "Status"),
        ("distributed.scheduler", "KilledWorker"),
        ("distributed.scheduler", "WorkerState"),
    }
)
_OPEN: list[list[str]] = []  # what each block below that runs has refused


class RefusedPickle(TypeError):  # noqa: N818 - a TypeError: Dask leaves a traceback out for it
    """A peer sent a pickle with this name, which is not on the list."""


@contextlib.contextmanager
def refused_pickles() -> Iterator[list[str]]:
    """While the block runs, Dask unpickles nothing in this process that names anything else.

    Gives the names that were refused so far: Dask stops to listen after some of them, and says
    nothing. A worker of Dask in this very process is affected too, unpickling outside of Dask not.
    """
    _install()
    names: list[str] = []
    _OPEN.append(names)
    try:
        yield names
    finally:
        _OPEN[:] = [other for other in _OPEN if other is not names]


@cache
def _install() -> None:
    """Once in a process: Python has no way to remove such a function."""
    sys.addaudithook(_check)


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "pickle.find_class" or not _OPEN:
        return
    if arguments not in _NAMES and _is_within_dask(sys._getframe(1)):
        name = ".".join(map(str, arguments))
        for names in _OPEN:
            names.append(name)
        raise RefusedPickle(name)


def _is_within_dask(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "distributed":
            return True
        frame = frame.f_back
    return False
