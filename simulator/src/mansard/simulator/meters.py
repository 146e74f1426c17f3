"""The power monitors of a simulated board, and what the daemon makes them show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.simulator.figures import Figures, Monitor, Rail
from mansard.simulator.physics import ina238_uw, ina3221_reading
from mansard.simulator.readings import Reading
from mansard.simulator.tree_sensors import readings_folder

_JUMP = 10.0
_JUMPS_EVERY = 3


class _Channel:
    """One rail's files on one monitor."""

    def __init__(self, rail: Rail, chip: str, folder: Path, number: int) -> None:
        self.rail, self._chip = rail, chip
        names = {
            "ina3221": (f"in{number}_input", f"curr{number}_input", f"in{number + 3}_input"),
            "ina3221x": (
                f"in_voltage{number - 1}_input",
                f"in_current{number - 1}_input",
                f"in_power{number - 1}_input",
            ),
            "ina238": ("in1_input", "curr1_input", "power1_input"),
        }[chip]
        self._files = [Reading(folder / name) for name in names]
        alarms = (f"curr{number}_max_alarm", f"curr{number}_crit_alarm")
        self._alarms = [Reading(folder / name) for name in alarms]
        self._limits = [folder / f"curr{number}_max", folder / f"curr{number}_crit"]

    def show(self, power_w: float, *, alarm: bool) -> None:
        bus_mv, current_ma, shunt_uv = ina3221_reading(self.rail, power_w)
        third: int
        if self._chip == "ina238":
            bus_mv = round(self.rail.volt * 1000)
            current_ma, third = round(power_w / self.rail.volt * 1000), ina238_uw(power_w)
        elif self._chip == "ina3221x":
            third = bus_mv * current_ma // 1000
        else:
            third = shunt_uv
        for file, value in zip(self._files, (bus_mv, current_ma, third), strict=True):
            file.show(value)
        for file in self._alarms[:1]:
            file.show(int(alarm))


class MonitorBank:
    """All power monitors of one tree."""

    def __init__(self, board: Figures, root: Path) -> None:
        self._channels = [
            _Channel(rail, monitor.chip, _folder(board, root, monitor), number)
            for monitor in board.monitors
            for number, rail in enumerate(monitor.rails, 1)
            if rail is not None
        ]
        self._n_shown = 0

    def show(self, powers_w: dict[str, float], faults: dict[str, Any], *, alarm: bool) -> None:
        """One reading of every rail, unless a fault keeps it from that."""
        self._n_shown += 1
        stopped, jumping = faults.get("sensor_stops"), faults.get("sensor_jumps")
        for channel in self._channels:
            label = channel.rail.label
            if stopped is True or stopped == label:
                continue
            jumps = jumping == label and self._n_shown % _JUMPS_EVERY == 0
            channel.show(powers_w[label] * (_JUMP if jumps else 1.0), alarm=alarm)


def _folder(board: Figures, root: Path, monitor: Monitor) -> Path:
    return root / readings_folder(board, monitor).lstrip("/")
