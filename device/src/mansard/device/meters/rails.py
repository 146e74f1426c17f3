"""A meter made of channels that read power: each a rail with its files and its step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from copy import copy

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import power_sample, silent
from mansard.device.meters.node import Node


class Channel(msgspec.Struct, frozen=True):
    """One rail: its power in watts is ``scale`` times the product of what ``nodes`` show."""

    rail: str
    sensor: str  # the chip's address on its bus
    nodes: tuple[Node, ...]
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
        channels: tuple[Channel, ...],
        period_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.period_s = period_s
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


def tell_apart(channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
    """Channels whose label another chip uses too get their address added: VDD_IN@1-0041."""
    count = Counter(channel.rail for channel in channels)
    return tuple(
        msgspec.structs.replace(channel, rail=f"{channel.rail}@{channel.sensor}")
        if count[channel.rail] > 1
        else channel
        for channel in channels
    )
