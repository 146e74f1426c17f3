"""Signals: those that end a command do so cleanly and resumably, and how a process ended."""

from __future__ import annotations

import math
import re
import select
import signal
import time
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_WAIT_S = 0.5


def turn_signals_into_interrupts() -> None:
    """Make a polite request to stop raise KeyboardInterrupt, so that clean-up runs.

    Python's own reaction to both is to die on the spot, without ``finally``.
    """
    for number in _ENDING[1:]:
        # A command started with nohup has SIGHUP ignored and must keep it so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def let_interrupts_end_waits() -> None:
    """Make the signals that end a command end its system calls that wait, whoever handles them.

    To be called before such a wait: a library that handles SIGINT itself, as polars does once it is
    imported, has the kernel begin the call again (SA_RESTART, signal(7)), and Python does not react
    to the signal before the call returns.
    """
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.siginterrupt(number, True)


def is_readable_within(handle: int, seconds: float = math.inf) -> bool:
    """Whether a descriptor has something to read, or its end, within so many seconds.

    A signal that comes just before a wait begins does not end it, so no wait is long.
    """
    end_s = time.monotonic() + seconds
    while True:
        let_interrupts_end_waits()
        left_s = end_s - time.monotonic()
        if select.select([handle], [], [], max(0.0, min(left_s, _LONGEST_WAIT_S)))[0]:
            return True
        if left_s <= 0:
            return False


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


# What an instruction of the process itself causes: the same input causes it again.
_FAULTS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
_ENDED_FROM_OUTSIDE = re.compile(r"\bwas killed, as |\bended by (SIG|signal [0-9])")


def how_it_ended(code: int) -> str:
    """How a process ended, from its exit code or, below 0, the number of the signal."""
    if code >= 0:
        return f"ended with code {code}"
    if -code == signal.SIGKILL:
        return "was killed, as it is where the memory runs out"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # one without a name
        return f"was ended by signal {-code}"
    return f"crashed ({name})" if name in _FAULTS else f"was ended by {name}"


def names_outer_signal(text: str) -> bool:
    """Whether a text of ``how_it_ended`` is of a process that was ended from outside.

    A process that its own fault ended (SIGSEGV) is not: the same input ends the next one too.
    """
    return _ENDED_FROM_OUTSIDE.search(text) is not None
