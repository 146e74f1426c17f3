"""Power monitors, thermal zones and counters of a simulated board: their files and readings."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mansard.simulator.boards.spec import BoardSpec, MonitorSpec, RailSpec
from mansard.simulator.clocks import (
    AMBIENT_C,
    BoardLoad,
    Shares,
    ina238_uw,
    ina3221_reading,
    rail_powers,
)
from mansard.simulator.kernel import ReadingFile
from mansard.simulator.tree import Tree, stat_text

OVERCURRENT = "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon1"
TRIP_C = 95.0  # where the kernel starts to throttle; made up
_IIO_NUMBERS = {"0040": 0, "0041": 1, "0042": 2}


def add_sensors(tree: Tree, board: BoardSpec) -> None:
    """Add the files of all sensors, which are read only, except for current limits."""
    # As a board reads that does nothing, until the daemon comes.
    powers_w = rail_powers(board.rails, Shares(0, 0, 0), AMBIENT_C)
    for monitor in board.monitors:
        _add_monitor(tree, board, monitor, powers_w)
    for number, zone in enumerate(board.zones):
        folder = f"/sys/devices/virtual/thermal/thermal_zone{number}"
        tree.put(folder, {"type": zone_type(board, zone), "temp": 35000, "mode": "enabled"})
        tree.put(folder, {"trip_point_0_temp": round(TRIP_C * 1000)})
        tree.put(folder, {"trip_point_0_type": "passive"})
        tree.link(f"/sys/class/thermal/thermal_zone{number}", folder)
    for number, (kind, highest) in enumerate(cooling(board)):
        folder = f"/sys/devices/virtual/thermal/cooling_device{number}"
        tree.put(folder, {"type": kind, "cur_state": 0, "max_state": highest})
        tree.link(f"/sys/class/thermal/cooling_device{number}", folder)
    for path in fan_files(board):
        folder, _, name = path.rpartition("/")
        tree.put(folder, {name: 0})
        if "/hwmon/" in folder:
            tree.put(folder, {"name": "pwmfan" if name == "pwm1" else "pwm_tach"})
            tree.link(f"/sys/class/hwmon/{folder.rpartition('/')[2]}", folder)
    tree.put(OVERCURRENT, {"name": "soctherm_oc"})
    for number in (1, 2, 3):
        tree.put(OVERCURRENT, {f"oc{number}_event_cnt": 0, f"oc{number}_throt_en": 1})
    tree.link("/sys/class/hwmon/hwmon1", OVERCURRENT)


def fan_files(board: BoardSpec) -> tuple[str, str]:
    """The files of the fan's drive (0 to 255) and its revolutions per minute, as in L4T."""
    if board.l4t[0] < 34:
        return "/sys/devices/pwm-fan/cur_pwm", "/sys/devices/pwm-fan/rpm_measured"
    drive, tachometer = "pwm-fan/hwmon/hwmon0/pwm1", "39c0000.tachometer/hwmon/hwmon2/rpm"
    return f"/sys/devices/platform/{drive}", f"/sys/devices/platform/{tachometer}"


def zone_type(board: BoardSpec, zone: str) -> str:
    """A zone's name in /sys; tegrastats drops what follows the dash."""
    special = {"thermal": "thermal-fan-est", "PMIC": "PMIC-Die"}
    return special.get(zone, f"{zone}-{'thermal' if board.l4t[0] >= 36 else 'therm'}")


def cooling(board: BoardSpec) -> tuple[tuple[str, int], ...]:
    """The fan first, then what slows the board down: name and highest state.

    Names are NVIDIA's, of r32 and since (its developer guides, "Thermal management").
    """
    alerts = ("cpu-throttle-alert", "gpu-throttle-alert", "soc0-throttle-alert")
    limiters = ("cpu-balanced", "gpu-balanced", "tegra-heavy") if board.l4t[0] < 34 else alerts
    return (("pwm-fan", 3), *((name, 1) for name in limiters))


def device_folder(board: BoardSpec, monitor: MonitorSpec) -> str:
    """The I2C device of a power monitor."""
    prefix = "/sys/devices/platform/bus@0" if board.l4t >= (36, 4) else "/sys/devices"
    name = f"{monitor.bus}-{monitor.address}"
    return f"{prefix}/{monitor.controller}/i2c-{monitor.bus}/{name}"


def readings_folder(board: BoardSpec, monitor: MonitorSpec) -> str:
    """Where a power monitor's readings are."""
    last = (
        f"iio:device{_IIO_NUMBERS[monitor.address]}"
        if monitor.chip == "ina3221x"
        else f"hwmon/hwmon{monitor.hwmon}"
    )
    return f"{device_folder(board, monitor)}/{last}"


def _add_monitor(
    tree: Tree, board: BoardSpec, monitor: MonitorSpec, powers_w: Mapping[str, float]
) -> None:
    device = device_folder(board, monitor)
    folder = readings_folder(board, monitor)
    name = f"{monitor.bus}-{monitor.address}"
    add = {"ina3221": _add_ina3221, "ina3221x": _add_iio, "ina238": _add_ina238}[monitor.chip]
    add(tree, folder, monitor, powers_w)
    tree.put(device, {"name": monitor.chip})
    tree.link(f"/sys/bus/i2c/drivers/{monitor.chip}/{name}", device)
    tree.link(f"/sys/bus/i2c/devices/{name}", device)
    last = folder.rpartition("/")[2]
    kind = "bus/iio/devices" if monitor.chip == "ina3221x" else "class/hwmon"
    tree.link(f"/sys/{kind}/{last}", folder)


def _add_ina3221(
    tree: Tree, folder: str, monitor: MonitorSpec, powers_w: Mapping[str, float]
) -> None:
    tree.put(folder, {"name": "ina3221", "samples": 1, "update_interval": 8})
    for number, rail in enumerate(monitor.rails, 1):
        volt_mv, current_ma, shunt_uv = _reading(rail, powers_w)
        shunt_uohm = round((rail.shunt_ohm if rail else 0.005) * 1e6)
        tree.put(
            folder,
            {
                f"in{number}_label": rail.label if rail else "NC",
                f"in{number}_input": volt_mv,
                f"in{number}_enable": 1,
                f"curr{number}_input": current_ma,
                f"curr{number}_max": rail.max_ma if rail else 32760,
                f"curr{number}_crit": rail.crit_ma if rail else 32760,
                f"curr{number}_max_alarm": 0,
                f"curr{number}_crit_alarm": 0,
                f"shunt{number}_resistor": shunt_uohm,
                f"in{number + 3}_input": shunt_uv,
            },
        )
    tree.put(folder, {"in7_label": "sum of shunt voltages", "in7_input": 0, "curr4_input": 0})


def _add_iio(tree: Tree, folder: str, monitor: MonitorSpec, powers_w: Mapping[str, float]) -> None:
    tree.put(folder, {"name": "ina3221x"})
    for number, rail in enumerate(monitor.rails):
        volt_mv, current_ma, _ = _reading(rail, powers_w)
        tree.put(
            folder,
            {
                f"rail_name_{number}": rail.label if rail else "NC",
                f"in_voltage{number}_input": volt_mv,
                f"in_current{number}_input": current_ma,
                f"in_power{number}_input": volt_mv * current_ma // 1000,
                f"warn_current_limit_{number}": rail.max_ma if rail else 32760,
                f"crit_current_limit_{number}": rail.crit_ma if rail else 32760,
            },
        )


def _add_ina238(
    tree: Tree, folder: str, monitor: MonitorSpec, powers_w: Mapping[str, float]
) -> None:
    (rail,) = monitor.rails
    if rail is None:
        return
    power_w = powers_w[rail.label]
    tree.put(folder, {"name": "ina238", "in0_input": 0, "in1_input": round(rail.volt * 1000)})
    tree.put(folder, {"curr1_input": round(power_w / rail.volt * 1000), "temp1_input": 40000})
    tree.put(folder, {"power1_input": ina238_uw(power_w)})


def _reading(rail: RailSpec | None, powers_w: Mapping[str, float]) -> tuple[int, int, int]:
    return ina3221_reading(rail, powers_w[rail.label]) if rail else (0, 0, 0)


_JUMP = 10.0
_JUMPS_EVERY = 3


class _Channel:
    """One rail's files on one monitor."""

    def __init__(self, rail: RailSpec, chip: str, folder: Path, number: int) -> None:
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
        self._files = [ReadingFile(folder / name) for name in names]
        alarms = (f"curr{number}_max_alarm", f"curr{number}_crit_alarm")
        self._alarms = [ReadingFile(folder / name) for name in alarms]
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

    def __init__(self, board: BoardSpec, root: Path) -> None:
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


def _folder(board: BoardSpec, root: Path, monitor: MonitorSpec) -> Path:
    return root / readings_folder(board, monitor).lstrip("/")


_HOT_C = TRIP_C + 2
_FAN_C = (50.0, 65.0, 80.0)  # from where it turns faster
_FAN_STEP, _FAN_STEP_RPM = 85, 1600  # of 255, and of revolutions a minute; made up
_TICKS_PER_S = 100
_OFFSETS_C = {"cpu": 0.4, "gpu": 0.0, "board": -9.0, "diode": -8.0, "soc": -1.0, "thermal": -0.6}


class Surroundings:
    """Thermal zones, cooling devices, over-current counters and /proc/stat."""

    def __init__(self, board: BoardSpec, root: Path) -> None:
        thermal = root / "sys/devices/virtual/thermal"
        self._zones = [
            (_offset_c(zone), ReadingFile(thermal / f"thermal_zone{number}/temp"))
            for number, zone in enumerate(board.zones)
        ]
        self._fan, *self._limiters = (
            ReadingFile(thermal / f"cooling_device{number}/cur_state")
            for number in range(len(cooling(board)))
        )
        self._fan_drive, self._fan_speed = (
            ReadingFile(root / path.lstrip("/")) for path in fan_files(board)
        )
        folder = root / OVERCURRENT.lstrip("/")
        # The third counts momentary over-current, the first under-voltage (NVIDIA's guide).
        self._events = ReadingFile(folder / "oc3_event_cnt")
        self._stat = ReadingFile(root / "proc/stat", width=2048)
        self._uptime = ReadingFile(root / "proc/uptime", width=32)
        self._ticks = {cpu: [0.0, 0.0] for cpu in board.cpus}
        self._started_s = time.monotonic()
        self._throttled = False

    def is_throttled(self, temperature_c: float, faults: dict[str, Any]) -> bool:
        """Whether it is too hot, or a fault says so."""
        self._throttled = bool(faults.get("throttle")) or temperature_c > TRIP_C
        return self._throttled

    def show(
        self, temperature_c: float, load: BoardLoad, faults: dict[str, Any], elapsed_s: float
    ) -> None:
        """Bring every file up to date."""
        shown_c = max(temperature_c, _HOT_C) if faults.get("throttle") else temperature_c
        for offset_c, file in self._zones:
            file.show(round((shown_c + offset_c) * 1000))
        state = bisect_right(_FAN_C, shown_c)
        self._fan.show(state)
        self._fan_drive.show(state * _FAN_STEP)
        self._fan_speed.show(state * _FAN_STEP_RPM)
        for file in self._limiters:
            file.show(int(self._throttled))
        events = faults.get("over_current")
        self._events.show(events if isinstance(events, int) else 0)
        self._count_time(load, elapsed_s)

    def _count_time(self, load: BoardLoad, elapsed_s: float) -> None:
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
