"""INA3221 and INA238 chips through the kernel's hwmon files (L4T r34 and later).

Sources: Documentation/hwmon/ina3221.rst of the Linux kernel: ``in[123]_label``,
``in[123]_input`` (mV), ``curr[123]_input`` (mA), ``shunt[123]_resistor`` (µΩ); in4 to in7
and curr4 are shunt voltages and sums, no rails. Documentation/hwmon/ina238.rst:
``power1_input`` (µW). Steps: TI's data sheet SBOS576, INA3221: 40 µV of shunt voltage,
8 mV of bus voltage. The chips' addresses and labels on each board: recorded by others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mansard.core.errors import DeviceError
from mansard.core.text import printable
from mansard.device.meters.node import Node
from mansard.device.meters.rails import Channel, RailMeter
from mansard.device.system import below, glob, is_there, read_int, read_text

_DRIVERS = "/sys/bus/i2c/drivers"
_CHANNELS = {"ina3221": (1, 2, 3), "ina238": (1,)}
_SHUNT_STEP_V = 40e-6
LONGEST_LABEL = 64  # characters; what is no label must not fill a terminal
_UNUSED = "NC"  # the label of a channel that is not connected
_INPUT = "VIN"  # what tegrastats calls the one INA238 of AGX Thor, whose driver has no label
# The chips average over some milliseconds (about 8 on an Orin Nano): what is read more often
# is the same value again. A reading of three rails is six registers of about 0.55 ms each.
PERIOD_S = 0.01


def open_hwmon(
    root: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[RailMeter | None, dict[str, str]]:
    """The meter of all chips that hwmon shows, and what of them cannot be read and why."""
    channels: list[Channel] = []
    problems: dict[str, str] = {}
    kinds = set()
    for driver, numbers in _CHANNELS.items():
        for address, folder in _chips(below(root, f"{_DRIVERS}/{driver}")):
            for number in numbers:
                channel = _channel(driver, address, folder, number)
                if channel is None:
                    continue
                try:
                    channel.read_w()
                except DeviceError as error:
                    problems[f"{driver} {address} {channel.rail}"] = str(error)
                    continue
                channels.append(channel)
                kinds.add(driver.upper())
    if not channels:
        return None, problems
    return RailMeter(
        ", ".join(sorted(kinds, reverse=True)), tuple(channels), PERIOD_S, clock
    ), problems


def _chips(folder: Path) -> Iterator[tuple[str, Path]]:
    """Each chip's address on its bus and its hwmon folder, whose number differs each boot."""
    for chip in glob(folder, "*-*/hwmon"):
        for found in glob(chip, "hwmon*")[:1]:
            yield chip.parent.name, found


def _channel(driver: str, address: str, folder: Path, number: int) -> Channel | None:
    """The rail on one channel of a chip; None where nothing is connected to it."""
    label = _label(driver, address, folder, number)
    if label.upper() == _UNUSED or read_int(folder / f"in{number}_enable") == 0:
        return None
    power = folder / f"power{number}_input"
    if is_there(power):
        return Channel(label, address, (Node(power),), 1e-6, None, "the chip's step is not shown")
    volts, amperes = folder / f"in{number}_input", folder / f"curr{number}_input"
    if not (is_there(volts) or is_there(amperes)):
        return None
    nodes = (Node(volts), Node(amperes))
    step_w, note = _step(folder / f"shunt{number}_resistor", nodes[0])
    return Channel(label, address, nodes, 1e-6, step_w, note)


def _label(driver: str, address: str, folder: Path, number: int) -> str:
    for name in (f"in{number}_label", f"power{number}_label", f"curr{number}_label", "label"):
        label = read_text(folder / name)
        if label:
            return printable(label, LONGEST_LABEL)
    return _INPUT if driver == "ina238" else f"channel {number} of {address}"


def _step(resistor: Path, volts: Node) -> tuple[float | None, str]:
    """40 µV over the shunt, times the bus voltage; 5 mΩ at 5 V: 8 mA, so 0.04 W."""
    shunt_uohm = read_int(resistor)
    if not shunt_uohm or shunt_uohm < 0:
        return None, f"{resistor.name} cannot be read: the smallest change seen stands for the step"
    try:
        bus_mv = volts.read()
    except DeviceError:
        bus_mv = 0
    if bus_mv <= 0:
        return None, "the rail was off: the smallest change seen stands for the step"
    step_w = _SHUNT_STEP_V / (shunt_uohm * 1e-6) * bus_mv * 1e-3
    return step_w, f"40 µV over {shunt_uohm / 1e3:g} mΩ at {bus_mv / 1e3:g} V"
