"""A meter that replays recorded readings: the stand-in for absent hardware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample


class ReplayMeter:
    """Gives back recorded readings one after another, as the real meter did."""

    name = "replay"
    total_rule = "sum of all replayed rails"

    def __init__(self, readings: Iterable[tuple[PowerSample, ...]]) -> None:
        recorded = tuple(readings)
        self.rails = tuple(sample.rail for sample in recorded[0]) if recorded else ()
        self._readings: Iterator[tuple[PowerSample, ...]] = iter(recorded)

    def read(self) -> tuple[PowerSample, ...]:
        try:
            return next(self._readings)
        except StopIteration:
            raise DeviceError(
                "the recording has no more readings", fix="record a longer log"
            ) from None
