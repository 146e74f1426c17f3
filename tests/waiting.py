"""Waiting for what another thread, process or engine does, on a machine that may be busy."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

_PATIENCE_S = 300.0
_PERIOD_S = 0.005


def awaited(condition: Callable[[], bool], patience_s: float = _PATIENCE_S) -> bool:
    """Whether ``condition`` comes true; how soon is the machine's matter."""
    end_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(_PERIOD_S)
    return True


def is_overloaded() -> bool:
    """Whether processes wait for a CPU: by the load of the last minute, or the last 10 seconds.

    Above 1.5 processes per core, or where some process waited for half of the time. Then a
    measurement may have no undisturbed sample; it says so.
    """
    if os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1):
        return True
    with contextlib.suppress(OSError):  # a kernel without pressure stall information
        words = Path("/proc/pressure/cpu").read_text().split()
        return float(words[1].removeprefix("avg10=")) > 50.0
    return False
