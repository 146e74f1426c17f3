"""Schedules in tables, for the page and the command."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, digits, joules, seconds, watts
from mansard.analytics.pages.figures.tables import condensed
from mansard.analytics.pages.words.schedules import (
    Segment,
    goal_words,
    group_names,
    proof_text,
    segments,
    value_text,
)
from mansard.core.errors import InputError
from mansard.core.records import Problem, Schedule
from mansard.core.table import Table

_NONE = "–"
LAST_RUNS = "the last run of each network"  # what is shown of a steady schedule


def method_table(schedules: Sequence[Schedule]) -> Table:
    """What each schedule reaches, a row for each: the goal, then the rest that is known."""
    if not schedules:
        raise InputError("there is no schedule to show")
    goal = goal_words(schedules[0])
    whole = "round" if schedules[0].is_steady else "makespan"
    columns = ["method", goal, whole, "items/s", "energy", "power", "changes", "proof"]
    columns += ["simulated", "solved in", "breaks"]
    rows = [
        [
            schedule.method,
            value_text(schedule.goal, schedule.value),
            seconds(schedule.makespan_s),
            digits(sum(network.rate_per_s for network in schedule.networks), 4),
            _NONE if schedule.energy_j is None else joules(schedule.energy_j),
            _NONE if schedule.power_w is None else watts(schedule.power_w),
            str(sum(network.n_transitions for network in schedule.networks)),
            _NONE if schedule.bound is None else proof_text(schedule),
            f"{schedule.n_simulated:,}" if schedule.n_simulated > 1 else _NONE,
            seconds(schedule.solve_s),
            "; ".join(line.partition(", limit")[0] for line in schedule.broken) or _NONE,
        ]
        for schedule in schedules
    ]
    same = {"makespan": 2, "throughput": 3, "energy": 4}.get(schedules[0].goal)
    table = Table("Methods", columns, rows, frozenset(range(len(columns))) - {0, 7, 10})
    others = table.with_only([at for at in range(len(columns)) if at != same])
    return condensed(others, tells_same=False)


def segment_table(problem: Problem, schedule: Schedule) -> Table:
    """Where and when groups run; consecutive groups on one accelerator share a row."""
    known = {*problem.pccs, *problem.surfaces}

    def slowdown(segment: Segment) -> str:
        return f"{digits(segment.slowdown, 4)}{NBSP}×" if segment.accelerator in known else _NONE

    columns = ["network", "groups", "accelerator", "start", "end", "alone", "slowdown"]
    rows = [
        (
            display_name(problem.networks[segment.network].name),
            group_names(problem, segment.network, segment.first, segment.last),
            display_name(segment.accelerator),
            seconds(segment.start_s) if segment.start_s else "0",
            seconds(segment.end_s),
            seconds(segment.alone_s),
            slowdown(segment),
            seconds(segment.wait_s) if segment.wait_s > 1e-9 * segment.end_s else _NONE,
            seconds(segment.transition_s) if segment.transition_s else _NONE,
        )
        for segment in segments(schedule)
    ]
    caption = f"The best schedule, {LAST_RUNS}" if schedule.is_steady else "The best schedule"
    columns += ["waits", "transitions"]
    table = Table(caption, columns, rows, frozenset(range(3, len(columns))))
    return condensed(table, tells_same=False)


def network_table(problem: Problem, schedule: Schedule) -> Table:
    """Latency, deadline and rate of each network; of a steady schedule also the longest latency."""
    columns = ("network", "latency", "longest", "deadline", "verdict", "items/s", "changes")
    rows = [
        (
            display_name(network.name),
            seconds(network.latency_s),
            seconds(network.longest_s) if schedule.is_steady else _NONE,
            seconds(chain.max_latency_s) if chain.max_latency_s else _NONE,
            {None: _NONE, True: "missed", False: "kept"}[network.is_missed],
            digits(network.rate_per_s, 4),
            str(network.n_transitions),
        )
        for network, chain in zip(schedule.networks, problem.networks, strict=True)
    ]
    return condensed(Table("Networks", columns, rows, frozenset({1, 2, 3, 5, 6})), tells_same=False)
