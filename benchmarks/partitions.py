"""Predicted makespans of two networks on two CPUs, beside measured ones.

    python benchmarks/partitions.py --runs ../partition-runs --until contention
    python benchmarks/partitions.py --runs ../partition-runs --until groups
    python benchmarks/partitions.py --runs ../partition-runs > docs/results/partitions.md

Each CPU is an accelerator. Groups of layers, transitions and contention are measured as by
``mansard measure --each-layer stages`` and ``mansard multi contention``; then drawn assignments are
executed in rounds as by ``mansard multi schedule --run``. What is in the folder of runs is not
measured again, so that the steps can be taken one by one where others wait for the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from msgspec.structs import replace

from mansard import api
from mansard.api.deciding.executions import mapping_of
from mansard.core.records import ContentionSurface, MultiRun, Problem
from mansard.scheduler import evaluate

MODELS = ("surface", "PCCS", "none", "load", "longest")
Assignment = tuple[tuple[str, ...], ...]  # [network][group]
HEAD = """# Predicted makespans of two networks on two CPUs

`python benchmarks/partitions.py --runs RUNS`: {networks} in ONNX Runtime {version} on two CPUs
({machine}), one thread each. Groups, transitions and contention are measured with profile
`{profile}`; `scheduler.evaluate` predicts each mapping, which then runs for {seconds} s in rounds.

## What is predicted from

| network | CPU | ms of its groups | µs of leaving after each | GB/s of each |
|---|---|---|---|---|"""
MAPPINGS = """
## Mappings

A digit for each group: its CPU. Measured: median of the rounds, with the middle half. Errors:
predicted / measured − 1 in percent, with contention by the surface, by PCCS and without; *load* is
the largest sum of a CPU's group times, *longest* of a network's. The last columns are what the
surface's prediction misses, in percent of the measured time: longer stages, transfers, and the rest
(waking up, rounds that differ from the mean).
"""
SUMMARY = """
## Summary

| predicted with | median error % | largest | mean, with its sign |
|---|--:|--:|--:|"""


@dataclass(frozen=True)
class Ran:
    """One assignment: its makespan as each model predicts it, and what it took."""

    assignment: Assignment
    predicted_s: Mapping[str, float]
    as_ran_s: tuple[float, float]  # predicted with its stages' own times, and transfers as well
    row: MultiRun

    @property
    def measured_s(self) -> float:
        return median(self.row.round_s)

    def error(self, model: str) -> float:
        return self.predicted_s[model] / self.measured_s - 1

    def parts(self) -> tuple[float, float, float]:
        """What is missing in the prediction by the surface, as shares of what was measured.

        By the times of stages, which ran longer or shorter than predicted; by transfers; the rest.
        """
        ends = (self.predicted_s["surface"], *self.as_ran_s, self.measured_s)
        first, second, third = (b - a for a, b in pairwise(ends))
        return first / self.measured_s, second / self.measured_s, third / self.measured_s


def main() -> None:
    """Measure what is missing, and print the document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--networks", default="googlenet,alexnet")
    parser.add_argument("--groups", type=int, default=5)
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--mappings", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each mapping")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--until", choices=("contention", "groups"), help="print nothing then")
    options = parser.parse_args()
    models, cpus = tuple(options.networks.split(",")), sorted(os.sched_getaffinity(0))[:2]
    settings = api.NetworkSettings(engine="ort", provider="cpu", with_layers=False)
    common: dict[str, Any] = {
        "profile": options.profile,
        "runs": options.runs,
        "is_local": True,
        "processor": "cpu",
    }
    api.measure_contention(api.SweepRequest(**common)).check()
    if options.until == "contention":
        return
    api.measure_layers(
        api.MeasureRequest(models=models, settings=settings, **common),
        api.LayerSettings(
            kind="stage",
            n_groups=options.groups,
            with_transitions=True,
            partitions=tuple((cpu,) for cpu in cpus),
        ),
    ).check()
    if options.until == "groups":
        return
    found = api.ScheduleRequest(models=models, runs=(str(options.runs),))
    problem = api.schedule(found).problem
    request = api.MultiRequest(
        multi=api.MultiSettings(seconds_s=options.seconds),
        settings=replace(settings, waiting="block"),
        **common,
    )
    drawn = assignments(problem, options.mappings, options.seed)
    ran = [executed(request, problem, each) for each in drawn]
    sys.stdout.writelines(f"{line}\n" for line in document(problem, ran, options))


def assignments(problem: Problem, n_drawn: int, seed: int) -> list[Assignment]:
    """Each network whole on each CPU, then drawn ones with at most two changes of a network."""
    names = [each.name for each in problem.accelerators]
    sizes = [len(each.groups) for each in problem.networks]
    found: list[Assignment] = [
        tuple((on,) * size for on, size in zip(pair, sizes, strict=True))
        for pair in [(a, b) for a in names for b in names]
    ]
    rng = random.Random(seed)
    while len(found) < n_drawn:
        rows = []
        for size in sizes:
            at, cuts = rng.randrange(2), rng.sample(range(1, size), rng.choice((0, 1, 1, 2)))
            rows.append(tuple(names[(at + sum(cut <= k for cut in cuts)) % 2] for k in range(size)))
        if tuple(rows) not in found:
            found.append(tuple(rows))
    return found[:n_drawn]


def executed(request: api.MultiRequest, problem: Problem, assignment: Assignment) -> Ran:
    """``assignment``, predicted and executed."""
    fits = {
        each.victim: each.fit
        for each in api.measured_contention([request.runs], newest_only=True)
        if each.fit is not None and each.victim in problem.surfaces
    }
    bare = replace(problem, surfaces={}, pccs={})
    found = evaluate(problem, assignment, "drawn")
    starts = [[0.0] * len(each.groups) for each in problem.networks]
    for group in found.groups:
        starts[group.network][group.group] = group.start_s

    def makespan_s(of: Problem) -> float:
        """In the order in which it is executed: that of the prediction by the surface."""
        return evaluate(of, assignment, "drawn", starts).makespan_s

    result = api.run_mappings(request, [mapping_of(problem, found)])
    result.check()
    row = result.rows[0].row
    times, transfers = as_ran(bare, assignment, row)
    predicted_s = {
        "surface": found.makespan_s,
        "PCCS": makespan_s(replace(bare, pccs=fits)),
        "none": makespan_s(bare),
        **sums(problem, assignment),
    }
    return Ran(assignment, predicted_s, (makespan_s(times), makespan_s(transfers)), row)


def sums(problem: Problem, assignment: Assignment) -> dict[str, float]:
    """The largest sum of times of an accelerator's groups, and of a network's."""
    loads = dict.fromkeys((each.name for each in problem.accelerators), 0.0)
    networks = []
    for network, places in zip(problem.networks, assignment, strict=True):
        times = [group.time_s[on] for group, on in zip(network.groups, places, strict=True)]
        networks.append(sum(times))
        for on, time_s in zip(places, times, strict=True):
            loads[on] += time_s
    return {"load": max(loads.values()), "longest": max(networks)}


def as_ran(bare: Problem, assignment: Assignment, row: MultiRun) -> tuple[Problem, Problem]:
    """The problem with the means of its stages in ``row``, then with its transfers as well."""
    timed, moved = [], []
    for at, (network, places) in enumerate(zip(bare.networks, assignment, strict=True)):
        groups, entered = list(network.groups), list(network.groups)
        for stage in (each for each in row.stages if each.network_number == at):
            own = [
                k for k, g in enumerate(groups) if not stage.nodes or {*g.nodes} <= {*stage.nodes}
            ]
            alone_s = sum(groups[k].time_s[places[k]] for k in own)
            factor = stage.inference_s / stage.n_runs / alone_s
            for k in own:
                time_s = {places[k]: factor * groups[k].time_s[places[k]]}
                groups[k] = replace(groups[k], time_s=time_s)
            for k in own:
                more_s = stage.transfer_s / stage.n_runs if k == own[0] else 0.0
                time_s = {places[k]: groups[k].time_s[places[k]] + more_s}
                free = dict.fromkeys(time_s, 0.0)
                entered[k] = replace(groups[k], time_s=time_s, leave_s=free, enter_s=free)
        timed.append(replace(network, groups=tuple(groups)))
        moved.append(replace(network, groups=tuple(entered)))
    return replace(bare, networks=tuple(timed)), replace(bare, networks=tuple(moved))


def document(problem: Problem, ran: Sequence[Ran], options: argparse.Namespace) -> Iterator[str]:
    """The page, but for how it is to be read."""
    row = ran[0].row
    names = [each.name for each in problem.networks]
    yield HEAD.format(
        networks=" and ".join(names),
        version=row.engine_version,
        machine=problem.machine,
        profile=options.profile,
        seconds=options.seconds,
    )
    for network in problem.networks:
        for accelerator in problem.accelerators:
            on = accelerator.name
            times = (f"{1e3 * group.time_s[on]:.2f}" for group in network.groups)
            leaves = (f"{1e6 * g.leave_s[on]:.0f}" for g in network.groups if on in g.leave_s)
            demands = (f"{group.demand_byte_per_s[on] / 1e9:.1f}" for group in network.groups)
            lists = " | ".join(" ".join(each) for each in (times, leaves, demands))
            yield f"| {network.name} | {on} | {lists} |"
    yield ""
    yield from (f"- {note}" for note in problem.notes)
    for name, surface in problem.surfaces.items():
        yield from _surface_lines(name, surface)
    columns = ["", *names, "measured ms", "half of them within", "rounds", *MODELS]
    columns += ["stages", "transfers", "rest"]
    yield MAPPINGS
    yield f"| {' | '.join(columns)} |"
    yield "|--:" * len(columns) + "|"
    for at, one in enumerate(ran, 1):
        places = ["".join(on.removeprefix("cpu:") for on in each) for each in one.assignment]
        low, _, high = quantiles(one.row.round_s, n=4)
        cells = [str(at), *places, f"{1e3 * one.measured_s:.2f}"]
        cells += [f"{1e3 * low:.2f} to {1e3 * high:.2f}", str(len(one.row.round_s))]
        cells += [f"{100 * one.error(model):+.1f}" for model in MODELS]
        cells += [f"{100 * part:+.1f}" for part in one.parts()]
        yield f"| {' | '.join(cells)} |"
    yield SUMMARY
    for model in MODELS:
        errors = [one.error(model) for one in ran]
        sizes = sorted(map(abs, errors))
        middle, mean = 100 * median(sizes), 100 * fmean(errors)
        yield f"| {model} | {middle:.1f} | {100 * sizes[-1]:.1f} | {mean:+.1f} |"
    disturbed = [str(at) for at, one in enumerate(ran, 1) if one.row.disturbances]
    if disturbed:
        yield f"\nDisturbed by other programs: {', '.join(disturbed)}."


def _surface_lines(name: str, surface: ContentionSurface) -> Iterator[str]:
    yield f"\nPercent of its speed that {name} keeps, by its own demand and the other's:\n"
    yield "| GB/s | " + " | ".join(f"{x / 1e9:.1f}" for x in surface.external_byte_per_s) + " |"
    yield "|--:" * (1 + len(surface.external_byte_per_s)) + "|"
    for own, achieved in zip(surface.own_byte_per_s, surface.achieved_byte_per_s, strict=True):
        cells = (f"{100 * each / own:.0f}" for each in achieved)
        yield f"| {own / 1e9:.1f} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
