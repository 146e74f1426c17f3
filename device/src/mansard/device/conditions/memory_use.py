"""How much of the memory's bandwidth is in use: the board's activity monitor, or a card's NVML.

Sources: L4T's activity monitor (actmon) counts the activity of the memory controller for all its
clients (``mc_all``) in kHz of the memory's clock, averaged over some milliseconds; activity over
clock is what tegrastats prints as EMC_FREQ. Its file is actmon_avg_activity/mc_all on r32,
cactmon/mc_all of debugfs on r35 and r36 (root alone), and on some kernels the boot processor's
own. NVML API reference, nvmlUtilization_t: ``memory`` is the per cent of the last sample period
(a sixth of a second to a second) in which the card's memory was read or written at all: of time,
not of bandwidth, so it is used on cards alone, which have nothing better.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import MemoryUse
from mansard.device.cards import card_handle, load_nvml
from mansard.device.system import SYSTEM_ROOT, below, read_int, why_unreadable

ACTIVITIES = (
    "/sys/kernel/actmon_avg_activity/mc_all",
    "/sys/kernel/debug/cactmon/mc_all",
    "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
)
_ACTIVITY_UNIT_HZ = 1000
_MOST_SHARE = 1.05  # activity and clock are not read at once; beyond that one of them is wrong


class MemoryMonitor(msgspec.Struct, frozen=True, kw_only=True):
    """Where the share of the memory's bandwidth in use is read; ``why_not``: why nowhere."""

    source: str = ""  # as a record names it
    activity: Path | None = None
    nvml: Any = None
    card: Any = None
    why_not: str = ""

    def read_share(self, memory_hz: float | None) -> float | None:
        """The share in use now, 0 to 1, at the memory's clock; None where it is not known."""
        if self.activity is not None:
            active = read_int(self.activity)
            if active is None or active < 0 or not memory_hz:
                return None
            share = active * _ACTIVITY_UNIT_HZ / memory_hz
            return min(share, 1.0) if share <= _MOST_SHARE else None
        if self.nvml is not None:
            try:
                percent = self.nvml.nvmlDeviceGetUtilizationRates(self.card).memory
            except self.nvml.NVMLError:
                return None
            return float(percent) / 100 if 0 <= percent <= 100 else None
        return None


def find_memory_monitor(root: Path, *, uses_gpu: bool) -> MemoryMonitor:
    """The board's activity monitor; else, where the GPU is used, the first card's NVML."""
    paths = [below(root, path) for path in ACTIVITIES]
    activity = next((path for path in paths if read_int(path) is not None), None)
    if activity is not None:
        return MemoryMonitor(source="actmon", activity=activity)
    hidden = next((path for path in paths if path.is_file()), None)
    if hidden is not None:
        return MemoryMonitor(why_not=why_unreadable(hidden))
    why_not = "there is no activity monitor of the memory, or only root can read it"
    if not uses_gpu or root != SYSTEM_ROOT:
        return MemoryMonitor(why_not=why_not)
    try:
        nvml = load_nvml()
        card = card_handle(nvml, 0, None)
        nvml.nvmlDeviceGetUtilizationRates(card)
    except DeviceError as error:
        return MemoryMonitor(why_not=f"{why_not}; {error}")
    except nvml.NVMLError as error:
        return MemoryMonitor(why_not=f"{why_not}; NVML: {str(error).lower()}")
    return MemoryMonitor(source="NVML, share of time", nvml=nvml, card=card)


def memory_use_of(source: str, shares: Sequence[float | None]) -> MemoryUse | None:
    """Mean and extremes of the readings that were taken while the trial ran; None without any."""
    known = [share for share in shares if share is not None]
    if not known:
        return None
    return MemoryUse(
        mean_share=sum(known) / len(known),
        low_share=min(known),
        high_share=max(known),
        n_readings=len(known),
        source=source,
    )
