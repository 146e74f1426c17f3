"""A value with its bounds, and what they mean (docs/decisions/0010-three-kinds-of-intervals.md)."""

from __future__ import annotations

import math

import msgspec

WIDEST = 7.0  # high over low, above which a spread tells nothing but to measure
_HIDDEN = 1.0102  # by what share ± may misstate an end: of a log-normal interval up to × 1.1


class Interval(msgspec.Struct, frozen=True):
    """A value between ``low`` and ``high``, which are None where they are not known.

    ``kind``: "spread", 95 % by errors on data left out or by repetitions; "bounds", what any
    network can do; "roof", of ceilings and costs alone; None: there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    kind: str | None = "spread"

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, the value where one is not known; they contain it however it was rounded."""
        return (
            self.value if self.low is None else min(self.low, self.value),
            self.value if self.high is None else max(self.high, self.value),
        )

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known, and what they mean."""
        return self.kind is not None and self.low is not None and self.high is not None

    @property
    def is_wide(self) -> bool:
        """Whether a spread says no more than that it is to be measured."""
        if self.kind != "spread" or self.low is None or self.high is None:
            return False
        return self.high > WIDEST * self.low

    @property
    def is_symmetric(self) -> bool:
        """Whether a ± of the longer side says what the interval is."""
        low, high = self.ends
        half = max(self.value - low, high - self.value)
        is_said = low <= _HIDDEN * (self.value - half) and self.value + half <= _HIDDEN * high
        return is_said and half < self.value / 2

    def over(self, number: float) -> Interval:
        """The value and its ends divided by a number: of a batch those of an item."""
        low, high = (None if end is None else end / number for end in (self.low, self.high))
        return Interval(self.value / number, low, high, self.kind)

    def inverse(self, number: float = 1.0) -> Interval:
        """The number over the value, of a time the rate: the longest time is the lowest rate."""
        low, high = (number / end if end else None for end in (self.high, self.low))
        return Interval(number / self.value if self.value else math.inf, low, high, self.kind)
