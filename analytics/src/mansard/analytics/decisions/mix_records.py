"""What is asked of a mix of networks, and what it answers: plain records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from mansard.core.records import ModeCommands, Record

IdleSource = Literal["given", "constant power"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One network of a mix. What is None was not asked for.

    ``rate_per_s``: items per second that arrive. ``batches``: those to choose from; empty: one
    item at a time, or with ``max_latency_s`` any that was predicted. ``max_latency_s``: from the
    arrival of an item to its result, the wait for its batch to fill included.
    """

    network: str
    rate_per_s: float
    batches: tuple[int, ...] = ()
    precision: str | None = None
    max_latency_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Networks that share one device, one after the other.

    ``switch_s``: the time of one change of the mode; ``period_s``: the period of a schedule. If
    one of them is None, the time that a schedule loses by switching is unknown.
    """

    tasks: tuple[Task, ...]
    switch_s: float | None = None
    period_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class IdlePower:
    """The power of a mode while nothing runs, with its 95 % interval.

    ``source``: "given" by the user, or the "constant power" of the energy model: clocks held at
    the caps of the mode, no work.
    """

    value_w: float
    low_w: float | None
    high_w: float | None
    source: IdleSource


class Share(Record, frozen=True, kw_only=True):
    """What one network does in one mode. ``busy``: the share of all time that it takes there."""

    network: str
    mode: str
    batch: int
    precision: str
    rate_per_s: float  # items that are done here
    busy: float
    latency_s: float  # of one batch
    latency_low_s: float | None
    latency_high_s: float | None
    wait_s: float | None  # at most: for a batch to fill, and for the turn of the mode
    energy_j: float | None  # of one item
    energy_low_j: float | None
    energy_high_j: float | None
    interval: str | None  # what the ends mean: a key of data.model_frames.INTERVALS


class MixPlan(Record, frozen=True, kw_only=True):
    """All networks of a mix, in one mode or in several in turn.

    ``busy``: the share of time in which something runs, at least that where a network is on its
    roof; ``busy_high`` what it stays below with the probability that was asked for, or at the
    longest times that are recorded over such roofs (``is_expected``: such are in it). ``power_w``:
    mean over all time, idle included, with its 95 % interval; ``active_w``: the same without what
    idles. ``lost``: the share of time that switching takes.
    """

    shares: tuple[Share, ...]
    modes: tuple[str, ...]
    busy: float
    busy_high: float
    active_w: float | None
    idle_mode: str | None
    idle_w: float | None
    idle_source: IdleSource | None
    power_w: float | None
    power_low_w: float | None
    power_high_w: float | None
    lost: float | None
    is_expected: bool = False

    def is_bounded(self) -> bool:
        """Whether only bounds are known of a network in its mode."""
        return any(share.interval == "bounds" for share in self.shares)

    def roofed(self) -> tuple[str, ...]:
        """The networks that were not measured: they take at best what their roof says."""
        return tuple(dict.fromkeys(s.network for s in self.shares if s.interval == "roof"))


class BatteryLife(Record, frozen=True, kw_only=True):
    """How long a battery lasts, with its 95 % interval.

    ``capacity_j`` · ``efficiency`` over the mean power of the plan and ``rest_w``, the power
    of all that the board's meters exclude.
    """

    capacity_j: float
    efficiency: float
    rest_w: float
    duration_s: float | None
    duration_low_s: float | None
    duration_high_s: float | None


class MixAnswer(Record, frozen=True, kw_only=True):
    """How one device keeps up with a mix. ``keeps_up``: the share of the rates that it can do.

    ``one_mode``: the best single mode; ``schedule``: modes in turn, where that is better or the
    only way. Both are None where no mode is known to keep up. ``others``: the next best single
    modes; ``equals``: those without a clear difference from ``one_mode``. ``modes_unknown``: the
    modes in which some network has no prediction, and why. ``commands`` set the mode of
    ``one_mode``, where no ``schedule`` is better. ``battery``: how long it lasts, where one was
    given.
    """

    device: str
    one_mode: MixPlan | None
    schedule: MixPlan | None
    keeps_up: float
    sentence: str
    others: tuple[MixPlan, ...] = ()
    equals: tuple[str, ...] = ()
    commands: ModeCommands | None = None
    battery: BatteryLife | None = None
    notes: tuple[str, ...] = ()
    modes_unknown: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def plan(self) -> MixPlan | None:
        """What is recommended: modes in turn where that is better, else one mode."""
        return self.one_mode if self.schedule is None else self.schedule
