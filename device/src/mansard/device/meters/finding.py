"""Looking for the meters of a machine: each tried once, none counted twice."""

from __future__ import annotations

from pathlib import Path

from mansard.core.records import MachineIdentity
from mansard.device.identity import find_module, is_jetson
from mansard.device.meters.ina import open_hwmon, open_iio
from mansard.device.meters.meter import Meter, Meters
from mansard.device.meters.processors import open_nvml_meter, open_rapl
from mansard.device.meters.tegrastats import open_tegrastats
from mansard.device.system import SYSTEM_ROOT
from mansard.device.totals import Total, find_total

_INA_ADVICE = (
    "/sys/bus/i2c/drivers shows no power monitor: a carrier board without one (Nano 2GB, some "
    "Xavier NX carriers), or a container that hides it; on the board try 'sudo modprobe ina3221', "
    "in a container mount /sys"
)


def find_meters(root: Path = SYSTEM_ROOT, machine: MachineIdentity | None = None) -> Meters:
    """The meters of a machine, each tried once: a Jetson's own chips; elsewhere RAPL and NVML."""
    on_board = machine.kind == "jetson" if machine is not None else is_jetson(root)
    return _find_on_board(root) if on_board else _find_elsewhere(root)


def _find_on_board(root: Path) -> Meters:
    missing: dict[str, str] = {}
    for open_chips in (open_hwmon, open_iio):
        chips, problems = open_chips(root)
        missing.update(problems)
        if chips is not None:
            return _with_board_total(chips, missing, root)
    if not missing:
        missing["INA3221"] = _INA_ADVICE
    tegrastats, reason = open_tegrastats(root)
    if tegrastats is not None:
        return _with_board_total(tegrastats, missing, root)
    missing["tegrastats"] = reason
    nvml, reason = open_nvml_meter(root)
    if nvml is not None:
        return Meters((nvml,), missing, None, "NVML reads the GPU alone, and no rail of the board")
    return Meters((), {**missing, "NVML": reason})


def _with_board_total(meter: Meter, missing: dict[str, str], root: Path) -> Meters:
    total = find_total(meter.rails, find_module(root))
    if isinstance(total, Total):
        return Meters((meter,), missing, total, "")
    return Meters((meter,), missing, None, total)


def _find_elsewhere(root: Path) -> Meters:
    meters: list[Meter] = []
    missing: dict[str, str] = {}
    for name, open_meter in (("RAPL", open_rapl), ("NVML", open_nvml_meter)):
        meter, reason = open_meter(root)
        if meter is not None:
            meters.append(meter)
        else:
            missing[name] = reason
    return _with_sum(tuple(meters), missing) if meters else Meters((), missing)


def _with_sum(meters: tuple[Meter, ...], missing: dict[str, str]) -> Meters:
    """Meters whose rails all add up, none inside another: processors and graphics cards."""
    total = Total(
        tuple(rail for meter in meters for rail in meter.rails),
        "; ".join(meter.total_rule or "" for meter in meters),
        "; ".join(meter.boundary or "" for meter in meters) + "; no fans, disks or power supply",
    )
    return Meters(meters, missing, total, "")
