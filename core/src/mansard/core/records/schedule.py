"""Several networks on several accelerators: the problem, and the schedule that answers it.

A network is a chain of groups of layers; a group runs whole on one accelerator, which runs one
group at a time. The terms are those of HaX-CoNN (Dagli, Belviranli, PPoPP 2024).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from mansard.core.records.base import Record, Schema, Source

# What a schedule makes small, or large. "makespan": the end of the last network; "throughput":
# items per second of all networks; "min_rate": of the network with the fewest; "weighted_latency":
# the sum of weight · end; "energy": joules of a round; "misses": networks that end after their
# deadline.
MOST_TRANSITIONS = 1000  # that can be asked for
Goal = Literal["makespan", "throughput", "min_rate", "weighted_latency", "energy", "misses"]
# "overlap": a group is slowed down while others run beside it, by their demands. "haxconn": always,
# by its own demand alone, as the solver of HaX-CoNN's artifact has it.
ContentionRule = Literal["overlap", "haxconn"]


class LayerGroup(Record, frozen=True, kw_only=True):
    """Layers that follow one another in a network and stay together. Keys are accelerators.

    An accelerator that is not in ``time_s`` does not take the group.
    """

    name: str
    time_s: dict[str, float]  # alone
    # Beyond the constant power of the board; not there: not known.
    energy_j: dict[str, float] = msgspec.field(default_factory=dict)
    # Memory traffic over time that it asks for while it runs alone; not there: not known.
    demand_byte_per_s: dict[str, float] = msgspec.field(default_factory=dict)
    # What a change of accelerator costs: ``leave_s`` at the end of this group on the one that
    # is left, ``enter_s`` at the start of this group on the one that is entered. Each keeps its
    # accelerator busy.
    leave_s: dict[str, float] = msgspec.field(default_factory=dict)
    enter_s: dict[str, float] = msgspec.field(default_factory=dict)
    # Half of the 95 % interval over the value, of the times; not there: not known.
    time_error: dict[str, float] = msgspec.field(default_factory=dict)
    # Half of the 95 % interval of ``leave_s``, in seconds; not there: not known.
    leave_error_s: dict[str, float] = msgspec.field(default_factory=dict)
    source: Source = "measured"  # of its times
    nodes: tuple[int, ...] = ()  # of the network, by LayerScore.index; empty: not known


class NetworkChain(Record, frozen=True, kw_only=True):
    """One network of a problem. A limit that is 0 was not set."""

    name: str  # no other network of the problem has it
    groups: tuple[LayerGroup, ...]
    model: str = ""  # an ONNX file, or a name of the zoo; empty: it cannot be run
    batch: int = 1  # items of one run
    precision: str = ""
    rate_per_s: float = 0.0  # items that arrive each second; 0: the next run follows the last
    max_latency_s: float = 0.0  # from the start, or the arrival, to the end
    weight: float = 1.0


class Accelerator(Record, frozen=True, kw_only=True):
    """What runs one group at a time."""

    name: str
    kind: Literal["gpu", "dla", "cpu"]
    cpus: tuple[int, ...] = ()  # that it is, or that feed it; empty: all of the mode
    max_segments: int = 0  # groups in a row count once: loadables that a DLA holds; 0: no limit


class PccsFit(Record, frozen=True, kw_only=True):
    """Contention in three regions (PCCS; Xu, Belviranli, Shen, Vetter, MICRO 2021).

    Demands are bytes per second. The reduction is in points (percent of a group's speed alone).
    """

    normal_byte_per_s: float  # an own demand up to it is minor
    intensive_byte_per_s: float  # from it on intensive
    peak_byte_per_s: float  # external demand at which a minor demand loses ``minor_points``
    minor_points: float
    contention_byte_per_s: float  # CBP: external demand beyond which nothing more is lost
    total_byte_per_s: float  # TBWDC: sum of demands from which on a normal demand loses
    points_per_byte_per_s: float  # rate: points lost for each byte per second beyond it
    error_points: float | None  # mean absolute error, on the points that it was fitted to
    left_out_points: float | None  # on rows that were left out of the fit


class ContentionSurface(Record, frozen=True, kw_only=True):
    """What an accelerator achieves of its demand beside the demand of others, as measured."""

    own_byte_per_s: tuple[float, ...]  # ascending, alone
    external_byte_per_s: tuple[float, ...]  # ascending
    # [own][external]: of own demand, while others ask for that much
    achieved_byte_per_s: tuple[tuple[float, ...], ...]


class Problem(Record, frozen=True, kw_only=True):
    """What is to be scheduled, on what, and what is wanted. A limit that is 0 was not set."""

    schema: ClassVar[Schema] = Schema("schedule-problem", 1)

    accelerators: tuple[Accelerator, ...]
    networks: tuple[NetworkChain, ...]
    goal: Goal = "makespan"
    # False: each network once, all from the start. True: again and again.
    is_steady: bool = False
    max_transitions: int = 1  # of each network
    # By the accelerator that is slowed down; one that is in neither is not slowed down.
    pccs: dict[str, PccsFit] = msgspec.field(default_factory=dict)
    surfaces: dict[str, ContentionSurface] = msgspec.field(default_factory=dict)
    contention: ContentionRule = "overlap"  # how ``pccs`` and ``surfaces`` count
    idle_w: float | None = None  # constant power of the whole board
    max_makespan_s: float = 0.0
    max_energy_j: float = 0.0  # of a round
    max_power_w: float = 0.0  # mean over a round
    machine: str = ""  # that its numbers are of, in words
    mode: str = ""
    notes: tuple[str, ...] = ()  # what its numbers are, and what is missing


class ScheduledGroup(Record, frozen=True, kw_only=True):
    """A group in a schedule; ``end_s`` − ``start_s`` = enter + alone × slowdown + leave."""

    network: int  # its place in the problem
    group: int
    accelerator: str
    start_s: float
    end_s: float
    alone_s: float
    enter_s: float
    leave_s: float


class ScheduledNetwork(Record, frozen=True, kw_only=True):
    """What a schedule does for one network."""

    name: str
    latency_s: float  # one-shot: its end; steady: the mean of its runs
    longest_s: float  # of its runs; a deadline is missed where this one misses
    # Items, not runs. One-shot: over the makespan, as rounds that follow one another have them.
    rate_per_s: float
    n_transitions: int
    is_missed: bool | None  # its deadline


class Schedule(Record, frozen=True, kw_only=True):
    """An assignment of groups to accelerators, and what the simulation says of it: modelled."""

    schema: ClassVar[Schema] = Schema("schedule", 2)

    method: str  # that found it
    goal: Goal
    is_steady: bool
    value: float | None  # of the goal: s, 1/s, J or a count
    # No schedule of those searched is better than this; with a proof it is ``value``.
    bound: float | None
    is_optimal: bool
    space: str  # what was searched, in words
    n_assignments: int  # in the space; at most 2^63 - 1
    n_simulated: int
    solve_s: float
    groups: tuple[ScheduledGroup, ...]  # by start; of a steady schedule the last whole round
    networks: tuple[ScheduledNetwork, ...]
    makespan_s: float
    energy_j: float | None  # of a round
    power_w: float | None
    broken: tuple[str, ...] = ()  # limits that it breaks, a line each
    notes: tuple[str, ...] = ()
