"""Energy windows of real meters on a machine that may be busy."""

from __future__ import annotations

from collections.abc import Iterable

from mansard.core.records import EnergyWindow
from tests.waiting import is_overloaded


def is_unread(reason: str) -> bool:
    """Whether a window has no energy because a busy machine let its sampler wait for too long."""
    return "not measurable: no reading for " in reason


def windows_read(windows: Iterable[EnergyWindow]) -> list[EnergyWindow]:
    """Those whose meter was read throughout; at least one, unless the machine is overloaded.

    A busy machine lets a sampler wait for longer than a window allows. The window says so and
    has no energy; for any other reason none may be without.
    """
    windows = list(windows)
    read = [window for window in windows if window.total_j is not None]
    for window in windows:
        assert window in read or "not measurable: " in window.unknown["total_j"], window.unknown
    assert read or is_overloaded()
    return read
