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


def method_table(found: Sequence[Schedule]) -> Table:
    """What each schedule reaches, a row for each: the goal, then the rest that is known."""
    if not found:
        raise InputError("there is no schedule to show")
    goal = goal_words(found[0])
    whole = "round" if found[0].is_steady else "makespan"
    columns = ["method", goal, whole, "items/s", "energy", "power", "changes", "proof"]
    columns += ["simulated", "solved in", "breaks"]
    rows = [
        [
            each.method,
            value_text(each.goal, each.value),
            seconds(each.makespan_s),
            digits(sum(network.rate_per_s for network in each.networks), 4),
            _NONE if each.energy_j is None else joules(each.energy_j),
            _NONE if each.power_w is None else watts(each.power_w),
            str(sum(network.n_transitions for network in each.networks)),
            _NONE if each.bound is None else proof_text(each),
            f"{each.n_simulated:,}" if each.n_simulated > 1 else _NONE,
            seconds(each.solve_s),
            "; ".join(line.partition(", limit")[0] for line in each.broken) or _NONE,
        ]
        for each in found
    ]
    same = {"makespan": 2, "throughput": 3, "energy": 4}.get(found[0].goal)
    table = Table("Methods", columns, rows, frozenset(range(len(columns))) - {0, 7, 10})
    others = table.with_only([at for at in range(len(columns)) if at != same])
    return condensed(others, tells_same=False)


def segment_table(problem: Problem, found: Schedule) -> Table:
    """Where and when groups run, those in a row on one accelerator as one line."""
    known = {*problem.pccs, *problem.surfaces}

    def slowdown(each: Segment) -> str:
        return f"{digits(each.slowdown, 4)}{NBSP}×" if each.accelerator in known else _NONE

    columns = ["network", "groups", "accelerator", "start", "end", "alone", "slowdown"]
    rows = [
        (
            display_name(problem.networks[each.network].name),
            group_names(problem, each.network, each.first, each.last),
            display_name(each.accelerator),
            seconds(each.start_s) if each.start_s else "0",
            seconds(each.end_s),
            seconds(each.alone_s),
            slowdown(each),
            seconds(each.wait_s) if each.wait_s > 1e-9 * each.end_s else _NONE,
            seconds(each.transition_s) if each.transition_s else _NONE,
        )
        for each in segments(found)
    ]
    caption = f"The best schedule, {LAST_RUNS}" if found.is_steady else "The best schedule"
    columns += ["waits", "transitions"]
    table = Table(caption, columns, rows, frozenset(range(3, len(columns))))
    return condensed(table, tells_same=False)


def network_table(problem: Problem, found: Schedule) -> Table:
    """What a schedule does for each network; of repeating ones latencies differ."""
    columns = ("network", "latency", "longest", "deadline", "verdict", "items/s", "changes")
    rows = [
        (
            display_name(each.name),
            seconds(each.latency_s),
            seconds(each.longest_s) if found.is_steady else _NONE,
            seconds(chain.max_latency_s) if chain.max_latency_s else _NONE,
            {None: _NONE, True: "missed", False: "kept"}[each.is_missed],
            digits(each.rate_per_s, 4),
            str(each.n_transitions),
        )
        for each, chain in zip(found.networks, problem.networks, strict=True)
    ]
    return condensed(Table("Networks", columns, rows, frozenset({1, 2, 3, 5, 6})), tells_same=False)
