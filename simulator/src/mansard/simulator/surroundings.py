"""What is neither clock nor power on a simulated board: heat, counters, time, memory."""

from __future__ import annotations

import time
from bisect import bisect_right
from pathlib import Path
from typing import Any

from mansard.simulator.figures import Figures
from mansard.simulator.load import Load
from mansard.simulator.readings import Reading
from mansard.simulator.tree_sensors import OVERCURRENT, TRIP_C, cooling
from mansard.simulator.tree_system import stat_text

_HOT_C = TRIP_C + 2
_FAN_C = (50.0, 65.0, 80.0)  # from where it turns faster
_TICKS_PER_S = 100
_OFFSETS_C = {"cpu": 0.4, "gpu": 0.0, "board": -9.0, "diode": -8.0, "soc": -1.0, "thermal": -0.6}


class Surroundings:
    """Thermal zones, cooling devices, over-current counters and /proc/stat."""

    def __init__(self, board: Figures, root: Path) -> None:
        thermal = root / "sys/devices/virtual/thermal"
        self._zones = [
            (_offset_c(zone), Reading(thermal / f"thermal_zone{number}/temp"))
            for number, zone in enumerate(board.zones)
        ]
        self._fan, *self._limiters = (
            Reading(thermal / f"cooling_device{number}/cur_state")
            for number in range(len(cooling(board)))
        )
        folder = root / OVERCURRENT.lstrip("/")
        # The third counts over-current of a moment, the first under-voltage (NVIDIA's guide).
        self._events = Reading(folder / "oc3_event_cnt")
        self._stat = Reading(root / "proc/stat", width=2048)
        self._uptime = Reading(root / "proc/uptime", width=32)
        self._ticks = {cpu: [0.0, 0.0] for cpu in board.cpus}
        self._started_s = time.monotonic()
        self._throttled = False

    def is_throttled(self, temperature_c: float, faults: dict[str, Any]) -> bool:
        """Too hot, or said to be."""
        self._throttled = bool(faults.get("throttle")) or temperature_c > TRIP_C
        return self._throttled

    def show(
        self, temperature_c: float, load: Load, faults: dict[str, Any], elapsed_s: float
    ) -> None:
        """Bring every file up to date."""
        shown_c = max(temperature_c, _HOT_C) if faults.get("throttle") else temperature_c
        for offset_c, file in self._zones:
            file.show(round((shown_c + offset_c) * 1000))
        self._fan.show(bisect_right(_FAN_C, shown_c))
        for file in self._limiters:
            file.show(int(self._throttled))
        events = faults.get("over_current")
        self._events.show(events if isinstance(events, int) else 0)
        self._count_time(load, elapsed_s)

    def _count_time(self, load: Load, elapsed_s: float) -> None:
        for cpu, share in load.cpus.items():
            self._ticks[cpu][0] += share * elapsed_s * _TICKS_PER_S
            self._ticks[cpu][1] += (1 - share) * elapsed_s * _TICKS_PER_S
        on = {cpu: (round(self._ticks[cpu][0]), round(self._ticks[cpu][1])) for cpu in load.cpus}
        self._stat.show(stat_text(on))
        up_s = time.monotonic() - self._started_s + 100
        self._uptime.show(f"{up_s:.2f} {up_s:.2f}")


def _offset_c(zone: str) -> float:
    lowered = zone.lower()
    return next((offset for part, offset in _OFFSETS_C.items() if part in lowered), 0.0)
