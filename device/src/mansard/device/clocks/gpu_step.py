"""The step between two clocks of the GPU: of a board by its kernel's table, of a card by NVML."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from mansard.core.errors import DeviceError
from mansard.device.cards import read_card_limits
from mansard.device.clocks.domains import find_gpu_clocks
from mansard.device.system import SYSTEM_ROOT


def read_gpu_step_hz(root: Path = SYSTEM_ROOT) -> float | None:
    """The usual step between neighbouring clocks of the first GPU, Hz; None where none is listed.

    It reads, and sets nothing.
    """
    for clock in find_gpu_clocks(root)[:1]:
        return _usual_step(clock.available_hz)
    if root != SYSTEM_ROOT:
        return None  # NVML answers for this machine only
    try:
        return _usual_step([mhz * 1e6 for mhz in read_card_limits().gpu_mhz])
    except DeviceError:
        return None


def _usual_step(clocks_hz: Sequence[float]) -> float | None:
    steps_hz = [high - low for low, high in pairwise(clocks_hz)]
    return median(steps_hz) if steps_hz else None
