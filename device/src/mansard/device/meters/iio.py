"""INA3221 chips through the industrial-I/O files of L4T r28 to r32 (JetPack 3 and 4).

Layout, recorded by others on TX1, TX2, Nano and Xavier: below the driver ``ina3221x`` each
chip has an ``iio:deviceN`` (on some releases also ``iio_device``) with ``rail_name_{0,1,2}``
and ``in_power{n}_input`` in mW.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from mansard.core.errors import DeviceError
from mansard.core.text import printable
from mansard.device.meters.hwmon import LONGEST_LABEL, PERIOD_S
from mansard.device.meters.node import Node
from mansard.device.meters.rails import Channel, RailMeter
from mansard.device.system import below, glob, is_there, read_text

_DRIVER = "/sys/bus/i2c/drivers/ina3221x"
_STEP = "this driver does not show the shunt: the smallest change seen stands for the step"


def open_iio(
    root: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[RailMeter | None, dict[str, str]]:
    """The meter of all chips of the older driver, and what of them cannot be read and why."""
    channels: list[Channel] = []
    problems: dict[str, str] = {}
    for chip in glob(below(root, _DRIVER), "*-*"):
        # The aliases of one chip show the same rails: the first one counts.
        folders = [folder for folder in glob(chip, "iio[:_]device*") if is_there(folder)]
        for number in range(3) if folders else ():
            label = read_text(folders[0] / f"rail_name_{number}")
            if not label or label.upper() == "NC":
                continue
            power = Node(folders[0] / f"in_power{number}_input")
            rail = printable(label, LONGEST_LABEL)
            channel = Channel(rail, chip.name, (power,), 1e-3, None, _STEP)
            try:
                channel.read_w()
            except DeviceError as error:
                problems[f"ina3221x {chip.name} {rail}"] = str(error)
            else:
                channels.append(channel)
    if not channels:
        return None, problems
    return RailMeter("INA3221", tuple(channels), PERIOD_S, clock), problems
