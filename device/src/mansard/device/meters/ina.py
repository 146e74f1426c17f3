"""Power monitors on I2C (INA3221, INA238), through the kernel's hwmon and IIO files."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.core.text import printable
from mansard.device.meters.meter import power_sample, silent
from mansard.device.system import below, glob, is_there, read_int, read_text

# A sensor's file that stays open between readings.
#
# The kernel makes the text of a sysfs file anew for every read from its start, so a file
# kept open and read with pread saves looking up its path each time.

_LONGEST = 32  # bytes; a 64-bit number has 20 digits
_TRIES = 3
_CHECK_EVERY = 8  # equal readings: whether the file is still the one at its path


class SensorFile:
    """An integer that a system file shows; its unit is the file's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        self._last = b""
        self._n_same = 0

    def read(self) -> int:
        """The number now; raises DeviceError where there is none, or the file is gone."""
        why = "holds no number"
        for _ in range(_TRIES):
            try:
                if self._handle < 0:
                    # Without O_NONBLOCK a pipe in the file's place would stop us for ever.
                    self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                text = os.pread(self._handle, _LONGEST, 0)
                if len(text) < _LONGEST and not self._is_stale(text):
                    return int(text)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
            except ValueError:
                pass
            self.close()
        raise DeviceError(
            f"the sensor does not answer: {why}",
            where=str(self._path),
            fix="look at the kernel's messages with dmesg; in a container, mount /sys",
        )

    def _is_stale(self, text: bytes) -> bool:
        """Whether the file was replaced, or its driver bound anew: then it has no links left.

        It costs as much as the reading, and what changes is not stale: so it is asked for now
        and then while the text stays the same.
        """
        if text != self._last:
            self._last, self._n_same = text, 0
            return False
        self._n_same += 1
        return self._n_same % _CHECK_EVERY == 0 and not os.fstat(self._handle).st_nlink

    def close(self) -> None:
        """Close the file; the next reading opens it again."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()


class RailChannel(msgspec.Struct, frozen=True):
    """One rail: its power in watts is ``scale`` times the product of what ``nodes`` show."""

    rail: str
    sensor: str  # the chip's address on its bus
    nodes: tuple[SensorFile, ...]
    scale: float
    step_w: float | None
    step_note: str

    def read_w(self) -> float:
        """The power now; raises DeviceError."""
        product = 1
        for node in self.nodes:
            product *= node.read()
        return self.scale * product


class RailMeter:
    """Reads channels one after another; a rail's stamp is the middle of its reading."""

    total_rule = None
    boundary = None

    def __init__(
        self,
        name: str,
        channels: tuple[RailChannel, ...],
        period_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.period_s = period_s
        self.pace_s = None
        self._channels = {channel.rail: channel for channel in tell_apart(channels)}
        self._blanks = [
            (channel, power_sample(rail, 0.0, 0.0)) for rail, channel in self._channels.items()
        ]
        self._clock = clock

    @property
    def rails(self) -> tuple[str, ...]:
        return tuple(self._channels)

    def read(self) -> tuple[PowerSample, ...]:
        samples = []
        before_s = self._clock()
        for channel, blank in self._blanks:
            why = None
            try:
                power_w = channel.read_w()
            except DeviceError as error:
                power_w, why = 0.0, str(error)
            after_s = self._clock()
            middle_s = (before_s + after_s) / 2
            samples.append(
                _filled(blank, middle_s, power_w)
                if why is None
                else silent(channel.rail, middle_s, why)
            )
            before_s = after_s
        return tuple(samples)

    def step_w(self, rail: str) -> float | None:
        return self._channels[rail].step_w

    def step_note(self, rail: str) -> str:
        return self._channels[rail].step_note

    def sensor(self, rail: str) -> str:
        return self._channels[rail].sensor


def _filled(blank: PowerSample, time_s: float, power_w: float) -> PowerSample:
    """A copy of ``blank`` with its numbers, a hundred times a second: nothing is checked.

    What a record checks holds already: the reason is there, and both numbers are finite,
    being products of integers of at most 31 digits and times of the clock.
    """
    sample = copy(blank)
    msgspec.structs.force_setattr(sample, "monotonic_s", time_s)
    msgspec.structs.force_setattr(sample, "power_w", power_w)
    return sample


def tell_apart(channels: tuple[RailChannel, ...]) -> tuple[RailChannel, ...]:
    """Channels whose label another chip uses too get their address added: VDD_IN@1-0041."""
    count = Counter(channel.rail for channel in channels)
    return tuple(
        msgspec.structs.replace(channel, rail=f"{channel.rail}@{channel.sensor}")
        if count[channel.rail] > 1
        else channel
        for channel in channels
    )


# INA3221 and INA238 chips through the kernel's hwmon files (L4T r34 and later).
#
# Sources: Documentation/hwmon/ina3221.rst of the Linux kernel: in[123]_label,
# in[123]_input (mV), curr[123]_input (mA), shunt[123]_resistor (µΩ); in4 to in7
# and curr4 are shunt voltages and sums, no rails. Documentation/hwmon/ina238.rst:
# power1_input (µW). Steps: TI's data sheet SBOS576, INA3221: 40 µV of shunt voltage,
# 8 mV of bus voltage. The chips' addresses and labels on each board: recorded by others.

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
    """The meter of all chips that hwmon shows, and why other rails cannot be read."""
    channels: list[RailChannel] = []
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
        for hwmon in glob(chip, "hwmon*")[:1]:
            yield chip.parent.name, hwmon


def _channel(driver: str, address: str, folder: Path, number: int) -> RailChannel | None:
    """The rail on one channel of a chip; None where nothing is connected to it."""
    label = _label(driver, address, folder, number)
    if label.upper() == _UNUSED or read_int(folder / f"in{number}_enable") == 0:
        return None
    power = folder / f"power{number}_input"
    if is_there(power):
        return RailChannel(
            label, address, (SensorFile(power),), 1e-6, None, "the chip's step is not shown"
        )
    volts, amperes = folder / f"in{number}_input", folder / f"curr{number}_input"
    if not (is_there(volts) or is_there(amperes)):
        return None
    nodes = (SensorFile(volts), SensorFile(amperes))
    step_w, note = _step(folder / f"shunt{number}_resistor", nodes[0])
    return RailChannel(label, address, nodes, 1e-6, step_w, note)


def _label(driver: str, address: str, folder: Path, number: int) -> str:
    for name in (f"in{number}_label", f"power{number}_label", f"curr{number}_label", "label"):
        label = read_text(folder / name)
        if label:
            return printable(label, LONGEST_LABEL)
    return _INPUT if driver == "ina238" else f"channel {number} of {address}"


def _step(resistor: Path, volts: SensorFile) -> tuple[float | None, str]:
    """40 µV over the shunt, times the bus voltage; 5 mΩ at 5 V: 8 mA, so 0.04 W."""
    shunt_uohm = read_int(resistor)
    if not shunt_uohm or shunt_uohm < 0:
        return None, f"{resistor.name} cannot be read: the smallest change seen is used as the step"
    try:
        bus_mv = volts.read()
    except DeviceError:
        bus_mv = 0
    if bus_mv <= 0:
        return None, "the rail was off: the smallest change seen is used as the step"
    step_w = _SHUNT_STEP_V / (shunt_uohm * 1e-6) * bus_mv * 1e-3
    return step_w, f"40 µV over {shunt_uohm / 1e3:g} mΩ at {bus_mv / 1e3:g} V"


# INA3221 chips through the industrial-I/O files of L4T r28 to r32 (JetPack 3 and 4).
#
# Layout, recorded by others on TX1, TX2, Nano and Xavier: below the driver ina3221x each
# chip has an iio:deviceN (on some releases also iio_device) with rail_name_{0,1,2}
# and in_power{n}_input in mW.

_DRIVER = "/sys/bus/i2c/drivers/ina3221x"
_STEP = "this driver does not show the shunt: the smallest change seen is used as the step"


def open_iio(
    root: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[RailMeter | None, dict[str, str]]:
    """The meter of all chips of the older driver, and why other rails cannot be read."""
    channels: list[RailChannel] = []
    problems: dict[str, str] = {}
    for chip in glob(below(root, _DRIVER), "*-*"):
        # The aliases of one chip show the same rails: the first one counts.
        folders = [folder for folder in glob(chip, "iio[:_]device*") if is_there(folder)]
        for number in range(3) if folders else ():
            label = read_text(folders[0] / f"rail_name_{number}")
            if not label or label.upper() == "NC":
                continue
            power = SensorFile(folders[0] / f"in_power{number}_input")
            rail = printable(label, LONGEST_LABEL)
            channel = RailChannel(rail, chip.name, (power,), 1e-3, None, _STEP)
            try:
                channel.read_w()
            except DeviceError as error:
                problems[f"ina3221x {chip.name} {rail}"] = str(error)
            else:
                channels.append(channel)
    if not channels:
        return None, problems
    return RailMeter("INA3221", tuple(channels), PERIOD_S, clock), problems
