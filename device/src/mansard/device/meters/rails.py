"""A meter made of channels that read power: each a rail with its files and its step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from math import prod

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.meters.node import Node

READS_POWER = {"energy_j": "the meter reads power"}


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
        return self.scale * prod(node.read() for node in self.nodes)


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
        self._clock = clock

    @property
    def rails(self) -> tuple[str, ...]:
        return tuple(self._channels)

    def read(self) -> tuple[PowerSample, ...]:
        samples = []
        before_s = self._clock()
        for rail, channel in self._channels.items():
            power_w, unknown = None, READS_POWER
            try:
                power_w = channel.read_w()
            except DeviceError as error:
                unknown = {**READS_POWER, "power_w": str(error)}
            after_s = self._clock()
            samples.append(
                PowerSample(
                    rail=rail,
                    monotonic_s=(before_s + after_s) / 2,
                    power_w=power_w,
                    energy_j=None,
                    unknown=unknown,
                )
            )
            before_s = after_s
        return tuple(samples)

    def step_w(self, rail: str) -> float | None:
        return self._channels[rail].step_w

    def step_note(self, rail: str) -> str:
        return self._channels[rail].step_note

    def sensor(self, rail: str) -> str:
        return self._channels[rail].sensor


def tell_apart(channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
    """Channels whose label another chip uses too get their address added: VDD_IN@1-0041."""
    count = Counter(channel.rail for channel in channels)
    return tuple(
        msgspec.structs.replace(channel, rail=f"{channel.rail}@{channel.sensor}")
        if count[channel.rail] > 1
        else channel
        for channel in channels
    )
