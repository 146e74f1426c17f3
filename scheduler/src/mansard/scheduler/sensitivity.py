"""Whether a schedule stays the best when its inputs differ from what was measured."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from mansard.core.records.schedule import LayerGroup, Problem, Schedule
from mansard.scheduler.search import evaluate, solve

_TO_SIGMA = 1.96  # half of a 95 % interval over a standard deviation
_LEAST = 0.05  # of a time: none is drawn below this share of it
_SAME = 1e-6


@dataclass(frozen=True)
class Sensitivity:
    """What draws of times and costs within their errors did to a schedule."""

    n_draws: int
    n_best: int  # draws for which no schedule was better
    n_proven: int  # draws for which the best schedule was proven to be it
    # Of each draw: how much worse the schedule is than the best one, as a share of the best; of
    # the goal "misses" how many more are missed.
    losses: tuple[float, ...]
    n_unknown_times: int  # without an error: they were not drawn
    n_unknown_costs: int

    @property
    def largest_loss(self) -> float:
        """Of all draws."""
        return max(self.losses)


def sensitivity(
    problem: Problem,
    schedule: Schedule,
    *,
    seed: int = 0,
    n_draws: int = 100,
    time_limit_s: float = 1.0,
) -> Sensitivity:
    """Draw inputs within their errors, and compare ``schedule`` with the best schedule of each.

    Errors are normal and independent of one another; ``time_limit_s`` is for each draw. The
    schedule keeps its assignment and, one-shot, the order of groups on each accelerator.
    """
    draw = np.random.default_rng(seed)
    assignment: list[list[str]] = [[""] * len(n.groups) for n in problem.networks]
    starts = [[0.0] * len(network.groups) for network in problem.networks]
    for group in schedule.groups:
        assignment[group.network][group.group] = group.accelerator
        starts[group.network][group.group] = group.start_s
    losses, n_proven = [], 0
    for _ in range(n_draws):
        drawn = _drawn(problem, draw)
        unchanged = evaluate(
            drawn, assignment, schedule.method, None if problem.is_steady else starts
        )
        best = solve(drawn, time_limit_s=time_limit_s)
        n_proven += best.is_optimal
        losses.append(_loss(unchanged, best))
    groups = [group for network in problem.networks for group in network.groups]
    return Sensitivity(
        n_draws=n_draws,
        n_best=sum(loss <= _SAME for loss in losses),
        n_proven=n_proven,
        losses=tuple(losses),
        n_unknown_times=sum(len(g.time_s.keys() - g.time_error.keys()) for g in groups),
        n_unknown_costs=sum(len(g.leave_s.keys() - g.leave_error_s.keys()) for g in groups),
    )


def _drawn(problem: Problem, draw: np.random.Generator) -> Problem:
    networks = tuple(
        msgspec.structs.replace(
            network, groups=tuple(_drawn_group(group, draw) for group in network.groups)
        )
        for network in problem.networks
    )
    return msgspec.structs.replace(problem, networks=networks)


def _drawn_group(group: LayerGroup, draw: np.random.Generator) -> LayerGroup:
    def factor(error: float) -> float:
        return max(1 + error / _TO_SIGMA * draw.standard_normal(), _LEAST)

    time_s = {name: t * factor(group.time_error.get(name, 0.0)) for name, t in group.time_s.items()}
    leave_s = {
        name: max(
            cost + group.leave_error_s.get(name, 0.0) / _TO_SIGMA * draw.standard_normal(), 0.0
        )
        for name, cost in group.leave_s.items()
    }
    return msgspec.structs.replace(group, time_s=time_s, leave_s=leave_s)


def _loss(unchanged: Schedule, best: Schedule) -> float:
    if unchanged.value is None or best.value is None:
        return 0.0
    if best.goal == "misses":
        return unchanged.value - best.value
    if best.goal in ("throughput", "min_rate"):
        return max(best.value / unchanged.value - 1, 0.0)
    return max(unchanged.value / best.value - 1, 0.0)
