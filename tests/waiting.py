"""Waiting for what another thread, process or engine does."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_S = 60.0
_PERIOD_S = 0.005


def awaited(condition: Callable[[], bool], patience_s: float = _PATIENCE_S) -> bool:
    """Whether ``condition`` comes true; how soon is the machine's matter."""
    end_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(_PERIOD_S)
    return True
