"""What is asked of a recommendation, and what it answers: plain records without computation.

Times are seconds of one batch, energies joules of one item (a batch's energy over the batch),
power watts, rates items per second. "Low" and "high" span 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from mansard.analytics.data.accuracies import NetworkAccuracy
from mansard.core.records import ModeCommands, Record, Source

Objective = Literal["energy", "latency", "edp", "power"]
Quantity = Literal["latency", "power", "energy", "rate"]
Holds = Literal["kept", "unknown", "broken"]
Verdict = Literal["feasible", "uncertain", "infeasible", "unknown"]
OBJECTIVES: tuple[Objective, ...] = ("energy", "latency", "edp", "power")
UNITS: dict[Quantity, str] = {"latency": "s", "power": "W", "energy": "J", "rate": "1/s"}

# A limit that would be missed one time in ten is no limit that is kept; a choice, not a fact.
PROBABILITY = 0.9


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted of a mode. A limit that is None is not set.

    ``max_latency_s`` bounds the time of one batch, ``max_energy_j`` the energy of one item,
    ``max_power_w`` the mean power while it runs, ``min_fps`` the items per second that it could
    do one batch after the other. ``max_drop`` bounds how many fewer samples it has right than in
    fp32, as a share of all. ``max_first_token_s`` bounds the prefill of a language model, whose
    other quantities are of decode: an item is a token. ``batches``: which batch sizes are open;
    None means all that were predicted ("auto"). ``probability``: how likely each limit has to hold.
    ``falls_back``: the least time is wanted where too few modes have an energy to compare.
    ``lists_all``: the answer lists every candidate, not only those next to the choice.
    """

    minimise: Objective = "energy"
    max_latency_s: float | None = None
    max_power_w: float | None = None
    max_energy_j: float | None = None
    min_fps: float | None = None
    max_drop: float | None = None
    max_first_token_s: float | None = None
    batches: tuple[int, ...] | None = None
    probability: float = PROBABILITY
    falls_back: bool = False
    lists_all: bool = False


# Of programs, and of tables of others that do not say in which precision they ran a network.
UNKNOWN_PRECISION = "unknown precision"


class Candidate(Record, frozen=True, kw_only=True):
    """A network at one batch size and precision in one mode, as predicted or as measured."""

    device: str
    mode: str
    network: str
    batch: int
    precision: str
    phase: str
    latency_s: float  # of one batch
    latency_low_s: float | None
    latency_high_s: float | None
    energy_j: float | None  # of one item
    energy_low_j: float | None
    energy_high_j: float | None
    power_w: float | None
    power_low_w: float | None
    power_high_w: float | None
    bound: str | None  # what limits its time: compute, memory, launch, power
    interval: str | None  # what its ends mean: a key of data.model_frames.INTERVALS
    source: Source
    is_extrapolated: bool | None
    is_calibrated: bool | None

    @property
    def certainty(self) -> str | None:
        """What its interval is worth: outside the measured modes a spread is no more than bounds.

        No error of what was left out tells how wrong a model is where nothing like it was seen.
        """
        if self.interval == "spread" and self.is_extrapolated and not self.is_measured:
            return "bounds"
        return self.interval

    @property
    def is_measured(self) -> bool:
        """Whether the network itself ran in this mode, here or at others'."""
        return self.source != "modelled"

    @property
    def fps(self) -> float:
        """Items per second, one batch after the other."""
        return self.batch / self.latency_s


class LimitCheck(Record, frozen=True, kw_only=True):
    """One limit beside what a candidate is predicted to take.

    ``excess``: by which share of the limit its value breaks it, 0 where it does not. ``holds``:
    "kept" or "broken" with the probability that was asked for, or for certain where the interval
    is of bounds; else "unknown". ``probability`` that it holds; only a spread has one.
    """

    quantity: Quantity
    limit: float  # s, W, J or 1/s; the least for "rate", the most for the others
    value: float | None
    excess: float | None
    holds: Holds
    probability: float | None


class Saving(Record, frozen=True, kw_only=True):
    """The choice beside another mode at the same batch and precision; ratios choice / other.

    The ends of a ratio span 95 %, or, where only bounds are known of one of both, what is possible;
    then there is no ratio, because nothing tells where between them it lies.
    """

    baseline: str  # what the other mode is: "the board's highest mode", "the board's default mode"
    mode: str
    other: Candidate | None
    latency_ratio: float | None
    latency_ratio_low: float | None
    latency_ratio_high: float | None
    energy_ratio: float | None
    energy_ratio_low: float | None
    energy_ratio_high: float | None
    power_ratio: float | None
    power_ratio_low: float | None
    power_ratio_high: float | None


class Neighbour(Record, frozen=True, kw_only=True):
    """Another one, on the Pareto front or measured, and why it was not chosen."""

    candidate: Candidate
    why_lost: str


class Relaxation(Record, frozen=True, kw_only=True):
    """Which limit would have to give way, and to what, for ``candidate`` to keep all of them.

    ``limit`` is loose enough to hold with the probability that was asked for.
    """

    quantity: Quantity
    asked: float
    limit: float
    candidate: Candidate


@dataclass(frozen=True, kw_only=True)
class CandidateCounts:
    """How many candidates have a time, and what is known of them.

    ``n_kept`` keep every limit, ``n_broken`` break one, ``n_open`` may keep them, but not as
    likely as asked, and ``n_unknown`` may, but have no energy or power to tell by. ``n_timeless``
    modes beside them have no time. ``n_measured`` of all were measured; ``are_modes``: each is
    another mode, at one batch and precision.
    """

    n_all: int
    n_kept: int
    n_open: int
    n_broken: int
    n_unknown: int
    n_measured: int
    are_modes: bool
    n_timeless: int = 0

    @property
    def n_asked(self) -> int:
        """Those with a time, and the modes without."""
        return self.n_all + self.n_timeless


class MeasureNext(Record, frozen=True, kw_only=True):
    """The one measurement that would decide most, and what it would tell.

    ``command``: what measures it, in the words of a shell; where it is None the reason says how
    it is measured.
    """

    candidate: Candidate
    what: str
    command: str | None = None

    @property
    def how(self) -> str:
        """The command, or what is to be done instead."""
        return self.command or self.unknown["command"]


Basis = Literal["measured", "simulated", "published", "modelled", "roofs", "hardware"]


class Recommendation(Record, frozen=True, kw_only=True):
    """The answer for one network on one device.

    ``verdict``: "feasible", every limit holds as likely as asked; "uncertain", some candidate may
    keep every limit, and none is known to as likely as asked; "infeasible", every candidate
    breaks a limit, and ``choice`` is the nearest; "unknown": every candidate with known values
    breaks a limit, and ``choice`` is the nearest of these, or no candidate can be compared, and
    ``choice`` is None. Of the ``n_candidates`` ``n_feasible`` keep every limit, ``n_broken`` break
    one, and ``n_unknown`` lack the energy or power that a limit needs, or any time: these modes
    stand in ``modes_unknown`` with the reason. The others may keep every limit, but with a lower
    probability than wanted. In ``n_measured`` of them the network itself was run. ``measured``: the
    best measured candidate, if the choice was not measured. ``most_excess``: the largest possible
    relative excess of the choice's objective over that of the best candidate that may keep the
    limits, if every value lies in its interval. ``accuracy``: of the network in the choice's
    precision. ``basis``: where the time of the choice comes from; "roofs": it is a bound, and real
    times are longer; "hardware": likewise, by limits of the hardware at its nominal clocks.
    """

    device: str
    network: str
    minimise: Objective
    verdict: Verdict
    choice: Candidate | None
    sentence: str
    n_candidates: int
    basis: Basis | None = None
    claim: str = ""  # what the rows say of the choice: "uses the least energy"
    n_feasible: int = 0
    n_broken: int = 0
    n_unknown: int = 0
    n_measured: int = 0
    most_excess: float | None = None
    measured: Neighbour | None = None
    measure_next: MeasureNext | None = None
    commands: ModeCommands | None = None
    why: tuple[str, ...] = ()
    checks: tuple[LimitCheck, ...] = ()
    savings: tuple[Saving, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    equals: tuple[Candidate, ...] = ()  # feasible, and not told apart from the choice by 95 %
    nearest: tuple[Candidate, ...] = ()  # of an infeasible one: the least violation first
    relaxations: tuple[Relaxation, ...] = ()
    notes: tuple[str, ...] = ()
    accuracy: NetworkAccuracy | None = None
    prefill: tuple[Candidate, ...] = ()  # of a language model: in the mode of the choice
    modes_unknown: dict[str, str] = msgspec.field(default_factory=dict)
    set_aside: str = ""  # where it ran, but no run counts: why, and the command

    @property
    def is_feasible(self) -> bool:
        """Whether the choice keeps every limit, or may."""
        return self.verdict in {"feasible", "uncertain"}

    @property
    def lacks_rivals(self) -> bool:
        """Whether only the choice was measured, and it does not differ clearly from the others."""
        if self.choice is None or not self.choice.is_measured or self.n_measured != 1:
            return False
        return self.n_candidates == 1 or self.n_unknown > 0 or bool(self.equals)
