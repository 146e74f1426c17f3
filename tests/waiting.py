"""Waiting for what another thread, process or engine does, on a machine that may be busy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

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
    """Whether the load of the last minute is above 1.5 per core.

    Then a measurement may have no undisturbed sample; it says so.
    """
    return os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
