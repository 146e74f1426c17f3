"""SIGTERM and SIGHUP end a command the way Ctrl-C does: cleanly, and resumable."""

from __future__ import annotations

import signal
from types import FrameType


def turn_signals_into_interrupts() -> None:
    """Make a polite request to stop raise KeyboardInterrupt, so that clean-up runs.

    Python's own reaction to both is to die on the spot, without ``finally``.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A command started with nohup has SIGHUP ignored and must keep it so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
