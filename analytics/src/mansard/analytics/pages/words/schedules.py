"""Words for a schedule: its value, its proof, what it gains over the baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import (
    NBSP,
    UNKNOWN,
    counted,
    digits,
    joules,
    relative,
    seconds,
)
from mansard.core.records import Problem, Schedule, ScheduledGroup
from mansard.core.records.schedule import Goal
from mansard.core.text import listed

GOAL_WORDS: dict[Goal, str] = {
    "makespan": "makespan",
    "throughput": "total rate",
    "min_rate": "least rate",
    "weighted_latency": "weighted latency",
    "energy": "energy of a round",
    "misses": "missed deadlines",
}
_RISING = ("throughput", "min_rate")  # the more the better


def goal_words(schedule: Schedule) -> str:
    """The name of a schedule's goal; the makespan of a steady one is its round."""
    is_round = schedule.is_steady and schedule.goal == "makespan"
    return "round" if is_round else GOAL_WORDS[schedule.goal]


def value_text(goal: Goal, value: float | None) -> str:
    """A value of the goal with its unit: ``2.77 ms``, ``724 /s``."""
    if value is None:
        return UNKNOWN
    if goal == "energy":
        return joules(value)
    if goal in _RISING:
        return f"{digits(value, 4)}{NBSP}/s"
    return f"{value:.0f}" if goal == "misses" else seconds(value)


def proof_text(schedule: Schedule) -> str:
    """``optimal``, or the gap: how much better another schedule could be at most."""
    if schedule.is_optimal:
        return "optimal"
    if schedule.bound is None or schedule.value is None:
        return "no bound"
    gap = abs(schedule.value - schedule.bound) / max(abs(schedule.value), 1e-300)
    return f"within {relative(gap)}" if gap else "within 0"


def schedule_sentence(
    problem: Problem, schedule: Schedule, baseline: Schedule | None, gain: float | None
) -> str:
    """The best schedule's value, its proof or gap, and its gain over the baseline."""
    networks = counted(len(problem.networks), "network")
    where = listed([display_name(accelerator.name) for accelerator in problem.accelerators])
    value = f"{goal_words(schedule)} {value_text(schedule.goal, schedule.value)}"
    if schedule.broken:
        head = "No schedule meets" if schedule.is_optimal else "No schedule was found that meets"
        is_said = any(line.startswith(schedule.goal) for line in schedule.broken)
        nearest = "; ".join((*([] if is_said else [value]), *schedule.broken))
        return f"{head} the limits of {networks} on {where}. The nearest one: {nearest}."
    proof = "optimal, proven" if schedule.is_optimal else f"not proven, {proof_text(schedule)}"
    return f"{networks} on {where}: {value}, {proof} ({schedule.space}){_gained(baseline, gain)}."


def _gained(baseline: Schedule | None, gain: float | None) -> str:
    if baseline is None:
        return ""
    if baseline.broken:
        return "; no baseline meets the limits"
    value = f"{baseline.method}, {value_text(baseline.goal, baseline.value)}"
    if gain is None:
        return f"; the best baseline: {value}"
    if abs(gain) < 5e-4:
        return f"; as good as the best baseline ({value})"
    return f"; {relative(gain)} better than the best baseline ({value})"


class Segment(NamedTuple):
    """Groups of one network that follow one another on one accelerator."""

    network: int
    first: int
    last: int
    accelerator: str
    start_s: float
    end_s: float
    alone_s: float
    transition_s: float
    wait_s: float  # between its groups
    slowdown: float  # of its groups by contention


def segments(schedule: Schedule) -> Iterator[Segment]:
    """The segments of a schedule by network, in execution order."""
    ordered = sorted(schedule.groups, key=lambda group: (group.network, group.group))
    for (network, name), run in groupby(ordered, key=lambda one: (one.network, one.accelerator)):
        groups = list(run)
        moved_s = sum(group.enter_s + group.leave_s for group in groups)
        alone_s = sum(group.alone_s for group in groups)
        taken_s = sum(group.end_s - group.start_s for group in groups) - moved_s
        yield Segment(
            network=network,
            first=groups[0].group,
            last=groups[-1].group,
            accelerator=name,
            start_s=groups[0].start_s,
            end_s=groups[-1].end_s,
            alone_s=alone_s,
            transition_s=moved_s,
            wait_s=groups[-1].end_s - groups[0].start_s - taken_s - moved_s,
            slowdown=taken_s / alone_s if alone_s else 1.0,
        )


def slowdown_of(group: ScheduledGroup) -> float:
    """By which factor contention stretches a group."""
    taken_s = group.end_s - group.start_s - group.enter_s - group.leave_s
    return max(1.0, taken_s / group.alone_s) if group.alone_s else 1.0


def group_names(problem: Problem, network: int, first: int, last: int) -> str:
    """The groups of a segment: ``conv1 … fc6 (5)``."""
    groups = problem.networks[network].groups
    ends = dict.fromkeys((display_name(groups[first].name), display_name(groups[last].name)))
    return " … ".join(ends) + (f" ({last - first + 1})" if last > first + 1 else "")


def in_rows(accelerators: Sequence[str]) -> str:
    """The accelerators of groups in their order: ``gpu × 3, dla × 2``."""
    runs = ((name, len(list(run))) for name, run in groupby(accelerators))
    return ", ".join(f"{display_name(name)} × {n}" for name, n in runs)
