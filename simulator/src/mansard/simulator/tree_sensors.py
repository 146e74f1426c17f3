"""The sensors of a simulated tree: power monitors, thermal zones, over-current counters."""

from __future__ import annotations

from collections.abc import Mapping

from mansard.simulator.figures import Figures, Monitor, Rail
from mansard.simulator.physics import (
    AMBIENT_C,
    Shares,
    ina238_uw,
    ina3221_reading,
    rail_powers,
)
from mansard.simulator.tree import Tree

OVERCURRENT = "/sys/devices/platform/soctherm-oc-event/hwmon/hwmon1"
TRIP_C = 95.0  # where the kernel starts to throttle; made up
_IIO_NUMBERS = {"0040": 0, "0041": 1, "0042": 2}


def add_sensors(tree: Tree, board: Figures) -> None:
    """Everything that is read and not set, but for the limits of the currents."""
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
    tree.put(OVERCURRENT, {"name": "soctherm_oc"})
    for number in (1, 2, 3):
        tree.put(OVERCURRENT, {f"oc{number}_event_cnt": 0, f"oc{number}_throt_en": 1})
    tree.link("/sys/class/hwmon/hwmon1", OVERCURRENT)


def zone_type(board: Figures, zone: str) -> str:
    """A zone's name in /sys; tegrastats drops what follows the dash."""
    special = {"thermal": "thermal-fan-est", "PMIC": "PMIC-Die"}
    return special.get(zone, f"{zone}-{'thermal' if board.l4t[0] >= 36 else 'therm'}")


def cooling(board: Figures) -> tuple[tuple[str, int], ...]:
    """The fan first, then what slows the board down: name and highest state.

    Names are NVIDIA's, of r32 and since (its developer guides, "Thermal management").
    """
    alerts = ("cpu-throttle-alert", "gpu-throttle-alert", "soc0-throttle-alert")
    limiters = ("cpu-balanced", "gpu-balanced", "tegra-heavy") if board.l4t[0] < 34 else alerts
    return (("pwm-fan", 3), *((name, 1) for name in limiters))


def device_folder(board: Figures, monitor: Monitor) -> str:
    """The I2C device of a power monitor."""
    prefix = "/sys/devices/platform/bus@0" if board.l4t >= (36, 4) else "/sys/devices"
    name = f"{monitor.bus}-{monitor.address}"
    return f"{prefix}/{monitor.controller}/i2c-{monitor.bus}/{name}"


def readings_folder(board: Figures, monitor: Monitor) -> str:
    """Where a power monitor's readings are."""
    last = (
        f"iio:device{_IIO_NUMBERS[monitor.address]}"
        if monitor.chip == "ina3221x"
        else f"hwmon/hwmon{monitor.hwmon}"
    )
    return f"{device_folder(board, monitor)}/{last}"


def _add_monitor(
    tree: Tree, board: Figures, monitor: Monitor, powers_w: Mapping[str, float]
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


def _add_ina3221(tree: Tree, folder: str, monitor: Monitor, powers_w: Mapping[str, float]) -> None:
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


def _add_iio(tree: Tree, folder: str, monitor: Monitor, powers_w: Mapping[str, float]) -> None:
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


def _add_ina238(tree: Tree, folder: str, monitor: Monitor, powers_w: Mapping[str, float]) -> None:
    (rail,) = monitor.rails
    if rail is None:
        return
    power_w = powers_w[rail.label]
    tree.put(folder, {"name": "ina238", "in0_input": 0, "in1_input": round(rail.volt * 1000)})
    tree.put(folder, {"curr1_input": round(power_w / rail.volt * 1000), "temp1_input": 40000})
    tree.put(folder, {"power1_input": ina238_uw(power_w)})


def _reading(rail: Rail | None, powers_w: Mapping[str, float]) -> tuple[int, int, int]:
    return ina3221_reading(rail, powers_w[rail.label]) if rail else (0, 0, 0)
