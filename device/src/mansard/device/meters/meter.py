"""The protocol of meters, and the meters of a machine together."""

from __future__ import annotations

from typing import Protocol

import msgspec

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.records import PowerSample
from mansard.device.totals import Total

READS_POWER = {"energy_j": "the meter reads power"}  # why a sample has no energy


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
        """Which rails are added to the total, in words; None if that is the board's matter."""

    @property
    def boundary(self) -> str | None:
        """What that total covers; None if that is the board's matter."""

    @property
    def period_s(self) -> float:
        """How often it is worth reading."""

    @property
    def pace_s(self) -> float | None:
        """The longest period of its counters' updates; None: its readings show it."""

    def read(self) -> tuple[PowerSample, ...]:
        """One sample per rail, stamped on the monotonic clock; raises DeviceError.

        A rail that alone does not answer gives a sample without a number, with the reason.
        """

    def step_w(self, rail: str) -> float | None:
        """The smallest change of power that ``rail`` can show; None where it is not known."""

    def step_note(self, rail: str) -> str:
        """Where that step comes from, or why it is not known."""

    def sensor(self, rail: str) -> str:
        """The chip that reads ``rail``: rails of one chip are renewed together."""


class RailFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the energy of a window needs to know of the rails beside their samples."""

    period_s: float  # of the sampling
    total: Total | None = None
    why_no_total: str = "which of these rails make the total is unknown"
    steps_w: dict[str, float] = {}  # of the rails whose step the meter knows
    paces_s: dict[str, float] = {}  # of the counters whose pace the meter knows
    sensors: dict[str, str] = {}  # rail -> the chip that reads it


class Meters(msgspec.Struct, frozen=True):
    """The meters that can be read, why the others cannot, and how the total is formed."""

    found: tuple[Meter, ...]
    missing: dict[str, str]  # meter -> what is missing and what to do about it
    total: Total | None = None
    why_no_total: str = "there is no meter"
    clock: Clock = SYSTEM_CLOCK  # that their readings are stamped by

    @property
    def period_s(self) -> float:
        """A period that suits all of them: that of the slowest."""
        return max((meter.period_s for meter in self.found), default=0.1)

    def facts(self, period_s: float) -> RailFacts:
        """What the energy of a window needs to know, for samples taken every ``period_s``."""
        pairs = [(meter, rail) for meter in self.found for rail in meter.rails]
        steps_w = {rail: meter.step_w(rail) for meter, rail in pairs}
        return RailFacts(
            period_s=period_s,
            total=self.total,
            why_no_total=self.why_no_total,
            steps_w={rail: step_w for rail, step_w in steps_w.items() if step_w is not None},
            paces_s={rail: meter.pace_s for meter, rail in pairs if meter.pace_s is not None},
            sensors={rail: f"{meter.name} {meter.sensor(rail)}" for meter, rail in pairs},
        )


NO_METERS = Meters((), {})


def silent(rail: str, time_s: float, why: str) -> PowerSample:
    """The sample of a rail that did not answer."""
    return PowerSample(
        rail=rail,
        monotonic_s=time_s,
        power_w=None,
        energy_j=None,
        unknown={"power_w": why, "energy_j": why},
    )


def power_sample(rail: str, time_s: float, power_w: float) -> PowerSample:
    """The sample of a meter that reads power."""
    return PowerSample(
        rail=rail, monotonic_s=time_s, power_w=power_w, energy_j=None, unknown=READS_POWER
    )
