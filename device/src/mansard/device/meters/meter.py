"""What every meter is, and which meters this machine has."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from mansard.core.records import PowerSample
from mansard.device.system import SYSTEM_ROOT


class Meter(Protocol):
    """Something that reads rails: either their power or their energy since some start."""

    @property
    def name(self) -> str:
        """How reports call this meter."""

    @property
    def rails(self) -> tuple[str, ...]:
        """The board's own labels of what is read."""

    @property
    def total_rule(self) -> str | None:
        """Which rails are added to the total; None if this meter has no total."""

    def read(self) -> tuple[PowerSample, ...]:
        """One sample per rail, stamped on the monotonic clock; raises DeviceError."""


class Meters(msgspec.Struct, frozen=True):
    """The meters that can be read, and why the others cannot."""

    found: tuple[Meter, ...]
    missing: dict[str, str]


def find_meters(root: Path = SYSTEM_ROOT) -> Meters:
    """Every meter this version knows, tried once on this machine."""
    from mansard.device.meters.rapl import open_rapl

    rapl, reason = open_rapl(root)
    if rapl is None:
        return Meters((), {"RAPL": reason})
    return Meters((rapl,), {})
