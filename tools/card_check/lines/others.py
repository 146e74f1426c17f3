"""Lines of the steps themselves, of tests, counters, the metered program and ``watch``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from mansard.core.records import BoardSample, ProgramRun, Trial
from tools.card_check import goals
from tools.card_check.energy import watts_of
from tools.card_check.steps.gpu_tests import JunitResults
from tools.card_check.table import Criterion, Line

_MOST_NAMED = 12  # failures of tests that get a line each
_WATCHED_S = 3.0  # of the kernels, from which there must be a look


def step_lines(steps: Any) -> Iterator[Line]:
    """A line for each step that did not end as it should."""
    for step in steps["steps"] if steps else ():
        if step["status"] == "done" or step["name"] in {"tests", "counters"}:
            continue  # these have lines that say more
        took = f"after {step['took_s']:.0f} s"
        yield Line(f"step {step['name']}", took, failure=f"{step['status']}: {step['why']}")


def gpu_test_lines(results: JunitResults | None, steps: Any) -> Iterator[Line]:
    """The tests of every kernel, and each one that failed."""
    status = {step["name"]: step for step in (steps or {"steps": ()})["steps"]}.get("tests")
    if status is None:
        return
    if status["status"] == "not possible":
        yield Line("tests of every kernel", note=status["why"])
        return
    if results is None:
        yield Line("tests of every kernel", failure=f"{status['status']}: {status['why']}")
        return
    n_failed, n_skipped = len(results.failed), sum(results.skipped.values())
    n_run = results.n_passed + n_failed
    reasons = "; ".join(f"{n} skipped: {why}" for why, n in results.skipped.most_common(4))
    if not n_run:
        yield Line("tests of every kernel", f"{n_skipped} skipped", note=reasons)
        return
    criteria = (Criterion("those run", results.n_passed / n_run, 1.0),)
    value = f"{results.n_passed} of {n_run}"
    failure = "" if status["status"] != "out of time" else "out of time before the last"
    yield Line("tests of every kernel", value, criteria, note=reasons, failure=failure)
    for one in results.failed[:_MOST_NAMED]:
        yield Line(one.name, failure=one.why)


def trial_lines(rows: Sequence[Trial], kernels: Any, rest: Any) -> Iterator[Line]:
    """How many trials ran, how steady they were, and those that failed."""
    n_planned = (kernels or {}).get("n_planned", len(rows))
    problems = "; ".join(why for one in (kernels, rest) for why in (one or {}).get("problems", ()))
    n_samples = sum(len(row.seconds_s) for row in rows)
    n_rejected = sum(len(row.rejected_s) for row in rows)
    unstable = sum(row.stability == "unstable" for row in rows)
    disturbances = sorted({why for row in rows for why in row.disturbances})
    share = len(rows) / n_planned if n_planned else 0.0
    yield Line(
        "trials", f"{len(rows)} of {n_planned}", (Criterion("the plan", share, 1.0),), note=problems
    )
    yield Line(
        "samples off the median clock",
        f"{100 * n_rejected / max(1, n_rejected + n_samples):.1f} %",
        note=f"{unstable} trials unstable; disturbances: {'; '.join(disturbances[:3]) or 'none'}",
    )
    shown = {"fma", "tensor", "stream", "latency", "launch"}
    for row in rows:
        why = row.failure
        if why is not None and (row.operands != "chaotic" or row.family not in shown):
            yield Line(f"{row.kernel} {row.precision}, {row.operands}", failure=why)


def counter_lines(counters: Any) -> Iterator[Line]:
    """Counted over expected, of each launch."""
    if not counters:
        return
    if "why" in counters:
        yield Line("counters (Nsight Compute)", note=counters["why"])
        return
    for one in counters["ratios"]:
        name = f"counted {one['name']}: {one['what']}"
        if one["ratio"] is None:
            yield Line(name, note="nothing was counted")
            continue
        bounds = goals.COUNTED[one["what"]]
        yield Line(name, f"{one['ratio']:.4f}", (Criterion("Mansard's", one["ratio"], *bounds),))


def program_lines(programs: Sequence[ProgramRun]) -> Iterator[Line]:
    """Time, work and energy of the program that was measured as a user's."""
    for run in programs:
        walls_s = [one.wall_s for one in run.repetitions]
        metrics = [one.metric for one in run.repetitions if one.metric is not None]
        energies = [one.energy for one in run.repetitions if one.energy is not None]
        watts = watts_of(energies)
        energy = f"{watts:.0f} W" if watts is not None else _why_no_energy(run)
        note = f"{len(walls_s)} runs; {median(metrics):.4g} TFLOP" if metrics else "no metric"
        criteria = (Criterion("runs with their metric", len(metrics) / len(walls_s), 1.0),)
        value = f"{median(walls_s):.2f} s"
        yield Line("measure -- COMMAND", value, criteria, note=f"{note}; {energy}")


def _why_no_energy(run: ProgramRun) -> str:
    reasons = [one.unknown.get("energy", "") for one in run.repetitions]
    return next((why for why in reasons if why), "no energy")


def look_lines(looks: Sequence[BoardSample], steps: Any) -> Iterator[Line]:
    """What ``watch --record`` saw beside the kernels."""
    took_s = {step["name"]: step["took_s"] for step in (steps or {"steps": ()})["steps"]}
    if took_s.get("kernels", 0.0) < _WATCHED_S:
        return
    if not looks:
        yield Line("watch --record", failure="no look was recorded")
        return
    powers_w = [one.power_w for one in looks if one.power_w is not None]
    clocks = [gpu.clock_hz for one in looks for gpu in one.gpus if gpu.clock_hz is not None]
    parts = [
        f"{min(powers_w):.0f} to {max(powers_w):.0f} W" if powers_w else "no power",
        f"{min(clocks) / 1e6:.0f} to {max(clocks) / 1e6:.0f} MHz" if clocks else "no GPU clock",
    ]
    yield Line("watch --record", f"{len(looks)} looks", note="; ".join(parts))
