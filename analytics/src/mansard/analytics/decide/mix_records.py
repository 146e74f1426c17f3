"""A mix of networks that a board has to keep up with, and how it can."""

from __future__ import annotations

from dataclasses import dataclass

from mansard.core.records import Record


@dataclass(frozen=True, kw_only=True)
class Task:
    """One network of a mix. What is None was not asked for.

    ``rate_per_s``: items per second that arrive. ``max_latency_s``: from the arrival of an item
    to its result, the wait for its batch to fill included.
    """

    network: str
    rate_per_s: float
    batch: int | None = None
    precision: str | None = None
    max_latency_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Networks that share one device, one after the other.

    ``switch_s``: what one change of the mode takes; ``period_s``: how long a round of a schedule
    lasts. Where one of them is None, what a schedule loses by switching is unknown.
    """

    tasks: tuple[Task, ...]
    switch_s: float | None = None
    period_s: float | None = None


class Share(Record, frozen=True, kw_only=True):
    """What one network does in one mode. ``busy``: the share of all time that it takes there."""

    network: str
    mode: str
    batch: int
    precision: str
    rate_per_s: float  # items that are done here
    busy: float
    latency_s: float  # of one batch
    wait_s: float  # for a batch to fill
    energy_j: float | None  # of one item


class MixPlan(Record, frozen=True, kw_only=True):
    """All networks of a mix, in one mode or in several in turn.

    ``busy``: the share of time in which something runs; ``busy_high`` what it stays below with
    the probability that was asked for. ``power_w``: mean over all time, idle included;
    ``active_w``: the same without what idles. ``lost``: the share of time that switching takes.
    """

    shares: tuple[Share, ...]
    modes: tuple[str, ...]
    busy: float
    busy_high: float
    active_w: float | None
    idle_mode: str | None
    idle_w: float | None
    power_w: float | None
    lost: float | None


class MixAnswer(Record, frozen=True, kw_only=True):
    """How one device keeps up with a mix. ``keeps_up``: the share of the rates that it can do.

    ``one_mode``: the best single mode; ``schedule``: modes in turn, where that is better or the
    only way. Both are None where no mode keeps up.
    """

    device: str
    one_mode: MixPlan | None
    schedule: MixPlan | None
    keeps_up: float
    sentence: str
    notes: tuple[str, ...] = ()
