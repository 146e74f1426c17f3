"""Prints which modes to measure next, and the command that measures them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.cli.plan_inputs import PlanInputs, PlanRequest
from mansard.core.text import printable

if TYPE_CHECKING:
    from mansard.analytics.decide.plan import Pick, Plan

_HZ = {"gpu_hz": "gpu", "memory_hz": "emc", "cpu_hz": "cpu"}


def run_plan(request: PlanRequest, *, as_json: bool) -> None:
    """Plan and print; raises any MansardError."""
    from mansard.analytics.decide.plan import plan_next
    from mansard.cli.console import note, print_json
    from mansard.cli.plan_inputs import read_inputs

    inputs = read_inputs(request)
    observed = None if inputs.known is None else inputs.known.observed
    plan = plan_next(
        inputs.candidates,
        None if observed is None else observed.observations,
        n=request.n_next,
        minimise=request.minimise,
        max_latency_s=request.max_latency_s,
        measured=None if observed is None else observed.modes,
    )
    command = bench_command(plan, request, inputs)
    known_notes = () if inputs.known is None else inputs.known.notes
    if as_json:
        print_json({"plan": plan, "command": command, "notes": known_notes})
        return
    for line in (*known_notes, *plan.notes):
        note(f"note: {line}")
    _print(plan, command)


def bench_command(plan: Plan, request: PlanRequest, inputs: PlanInputs) -> str:
    """The command that measures the modes of ``plan``; empty where there is none.

    Modes that the board knows have their names in it, others their clocks if those can be set.
    """
    if not plan.picks:
        return ""
    clocks = [_settings_text(pick) for pick in plan.picks]
    if inputs.are_named or not all(clocks):
        chosen = ",".join(pick.mode for pick in plan.picks)
    else:
        chosen = ";".join(clocks)
    words = ["mansard", "bench", "--mode", chosen]
    if inputs.known is not None and inputs.known.is_cpu:
        words += ["--processor", "cpu"]
    if request.board is not None:
        words += ["--board", str(request.board)]
    if request.runs not in (None, Path("runs")):
        words += ["--runs", str(request.runs)]
    return shlex.join(words)


def _settings_text(pick: Pick) -> str:
    """``gpu=612MHz,emc=2133MHz,cores=4``; empty where clocks alone do not make the mode."""
    from mansard.core.frequency import format_frequency

    # SMs and power limits are of the board's own modes: no setting of clocks gives them.
    if "n_sms" in pick.settings or "power_limit_w" in pick.settings:
        return ""
    parts = [
        f"{key}={format_frequency(pick.settings[name])}"
        for name, key in _HZ.items()
        if name in pick.settings
    ]
    if "n_cpus" in pick.settings:
        parts.append(f"cores={pick.settings['n_cpus']:.0f}")
    return ",".join(parts)


def _print(plan: Plan, command: str) -> None:
    from mansard.cli.console import print_table

    if not plan.picks:
        print("Nothing is left to measure.")  # noqa: T201 - this line is the command's data
        return
    measured = f"{plan.n_measured} of {plan.n_candidates} modes are measured"
    rows = [
        (str(number), pick.mode, *_clocks(pick), pick.reason)
        for number, pick in enumerate(plan.picks, start=1)
    ]
    columns = ("", "mode", "GPU MHz", "EMC MHz", "CPU MHz", "why")
    print_table(f"Modes to measure next ({plan.minimise}; {measured})", columns, rows)
    if command:
        print(printable(command, len(command)))  # noqa: T201 - this line is the command's data


def _clocks(pick: Pick) -> tuple[str, ...]:
    return tuple(
        f"{pick.settings[name] / 1e6:.5g}" if name in pick.settings else "–" for name in _HZ
    )
