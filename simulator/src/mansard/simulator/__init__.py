"""Simulated Jetson boards, for tests and ``mansard demo simulated``; see docs/use/simulator.md."""

from __future__ import annotations

from mansard.simulator.create import READINGS, create_board, snapshot
from mansard.simulator.daemon import running, switched_on
from mansard.simulator.faults import set_fault, set_load

__all__ = [
    "READINGS",
    "create_board",
    "running",
    "set_fault",
    "set_load",
    "snapshot",
    "switched_on",
]
