"""The model of HaX-CoNN's artifact in Z3 (Dagli, Belviranli, PPoPP 2024), with its faults.

Source: https://github.com/ismetdagli/HaX-CoNN, src/z3_solver_multi_dnn.py. Two networks, a GPU and
a DLA, at most one change in each network, constants of a Xavier AGX. What it does, and here too:

- Each group is slowed down always, by a factor of its own demand alone.
- That slowdown delays the next group of the network. It is not in the constraints that keep
  groups of one accelerator apart, nor in the end of the last group.
- How long the group before takes is looked up on the accelerator of the current group.
- A change costs the same in both directions: what leaving the GPU costs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from mansard.api.deciding.problem_files import SHIPPED_PROBLEMS, read_problem
from mansard.core.errors import InputError
from mansard.core.records.schedule import Problem
from mansard.scheduler.contention import own_demand_slowdown
from reproductions.solvers.blind import Answer, blind

# The constants of the artifact's solver for a Xavier's GPU and DLA.
CONSTANTS = read_problem(SHIPPED_PROBLEMS["haxconn-googlenet-alexnet"]).pccs


def solve_by_z3(problem: Problem, *, time_limit_s: float = 60.0) -> Answer | None:
    """The schedule of the artifact's model; None where the time is up. Needs z3-solver.

    Raises InputError for other than two networks on a GPU and one accelerator more, and where a
    time or the cost of leaving the GPU is not known.
    """
    import z3

    data, order = blind(problem), _gpu_first(problem)
    begun = time.perf_counter()
    own = z3.Context()  # what was solved before decides nothing
    sizes = [len(groups) for groups in data.time]
    start = [[z3.Real(f"start_{n}_{g}", own) for g in range(size)] for n, size in enumerate(sizes)]
    on_gpu = [[z3.Bool(f"gpu_{n}_{g}", own) for g in range(size)] for n, size in enumerate(sizes)]
    model = z3.Optimize(ctx=own)
    model.set("timeout", int(time_limit_s * 1000))

    def exact(seconds: float) -> Any:
        return z3.RealVal(f"{1e3 * seconds:.9f}", own)  # milliseconds

    def choose(n: int, g: int, seconds: Sequence[float]) -> Any:
        return z3.If(on_gpu[n][g], *map(exact, seconds))

    alone = [[_known(times, order) for times in groups] for groups in data.time]
    for n, groups in enumerate(problem.networks):
        model.add(start[n][0] >= 0)
        for g in range(1, len(start[n])):
            on, before = on_gpu[n][g], on_gpu[n][g - 1]
            demand = groups.groups[g - 1].demand_byte_per_s
            slow = [
                own_demand_slowdown(CONSTANTS[kind], demand.get(data.names[a], 0.0))
                for kind, a in zip(("gpu", "dla0"), order, strict=True)
            ]
            (leave,) = _known(data.leave[n][g - 1], order[:1])
            change = z3.If(on != before, exact(leave), exact(0.0))
            slowed = choose(n, g, [t * s for t, s in zip(alone[n][g - 1], slow, strict=True)])
            model.add(start[n][g] >= start[n][g - 1] + change + slowed)
            model.add(*(z3.Implies(on != before, at == on) for at in on_gpu[n][g + 1 :]))
    ends = [
        [at + choose(n, g, alone[n][g]) for g, at in enumerate(row)] for n, row in enumerate(start)
    ]
    for i, j in itertools.product(range(len(start[0])), range(len(start[1]))):
        apart = z3.Or(ends[0][i] <= start[1][j], ends[1][j] <= start[0][i])
        model.add(z3.Implies(on_gpu[0][i] == on_gpu[1][j], apart))
    makespan = z3.If(ends[0][-1] > ends[1][-1], ends[0][-1], ends[1][-1])
    model.minimize(makespan)
    if model.check() != z3.sat:
        return None
    found = model.model()

    def seconds(value: Any) -> float:
        return float(found.eval(value, model_completion=True).as_fraction()) / 1e3

    return Answer(
        assignment=tuple(
            tuple(
                data.names[order[0 if z3.is_true(found.eval(at, model_completion=True)) else 1]]
                for at in row
            )
            for row in on_gpu
        ),
        start_s=tuple(tuple(seconds(at) for at in row) for row in start),
        makespan_s=seconds(makespan),
        is_proved=True,
        solve_s=time.perf_counter() - begun,
    )


def _gpu_first(problem: Problem) -> tuple[int, int]:
    """The places of the GPU and of the other accelerator."""
    kinds = [accelerator.kind for accelerator in problem.accelerators]
    if len(problem.networks) != 2 or len(kinds) != 2 or kinds.count("gpu") != 1:
        raise InputError(
            "the artifact's model takes two networks on a GPU and one accelerator more",
            where=f"{len(problem.networks)} networks, accelerators of kind {', '.join(kinds)}",
        )
    gpu = kinds.index("gpu")
    return gpu, 1 - gpu


def _known(values: Sequence[float | None], order: Sequence[int]) -> list[float]:
    known = [value for value in (values[a] for a in order) if value is not None]
    if len(known) < len(order):
        raise InputError("the artifact's model needs each time and the costs of leaving the GPU")
    return known
