"""``mansard board plan``: which power modes to measure next, and why."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.api import results
from mansard.cli.console import TerminalReporter, note, print_json, print_lines, print_whole
from mansard.cli.options import AllowMixedOption, BoardOption, DaskOption, JsonOption
from mansard.cli.tables import print_table
from mansard.core.units import parse_optional

_RUNS = Path("runs")  # where the others look and measure
_CLOCKS = ("gpu_hz", "memory_hz", "cpu_hz")


def plan(
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of runs and imported tables; runs by default, if it exists. Without "
            "runs, a first plan.", readable=False),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(help="Modes to choose from: a CSV table, a TOML grid, or as for bench."),
    ] = "all",
    n_next: Annotated[int, typer.Option("--next", min=1, max=1000, help="Number of modes.")] = 10,
    minimise: Annotated[
        Literal["energy", "latency", "edp", "power"],
        typer.Option("--minimise", "--minimize", help="Quantity to minimise."),
    ] = "energy",
    max_latency: Annotated[
        str | None, typer.Option(help="Latency limit of a batch: 20ms.")
    ] = None,
    max_power: Annotated[
        str | None, typer.Option(help="Power limit: 30W.")
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="Network to plan for; all of --runs by default. Repeatable: one plan each."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Device of --runs, or part of its name.")
    ] = None,
    board: BoardOption = None,
    allow_mixed: AllowMixedOption = False,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Choose the power modes to measure next.

    The first plan covers all modes best. Later plans pick modes that matter most to the decision,
    by objective and limits, and modes that improve predictions. Sets and measures nothing.
    """
    answers = api.plan(
        api.PlanRequest(
            runs=runs or (_RUNS if _RUNS.is_dir() else None),
            modes=mode,
            n_next=n_next,
            minimise=minimise,
            max_latency_s=parse_optional("--max-latency", max_latency, "time"),
            max_power_w=parse_optional("--max-power", max_power, "power"),
            device=device,
            board=board,
            allow_mixed=allow_mixed,
        ),
        list(dict.fromkeys(network or ())) or (None,),
        dask=dask,
        reporter=TerminalReporter(),
    )
    if as_json:
        print_json("plan", {"plans": answers})
        return
    for answer in answers:
        _print(answer, is_one_of_many=len(answers) > 1)


def _print(answer: results.PlanAnswer, *, is_one_of_many: bool) -> None:
    networks = ", ".join(answer.plan.networks)
    of = f" of {networks}" if is_one_of_many else ""
    for line in answer.warnings:
        note(f"warning: {line}")
    for line in (*answer.notes, *answer.plan.notes):
        note(f"note: {line}")
    if not answer.plan.picks:
        print_lines([f"Nothing is left to measure{of}."])
        return
    measured = f"{answer.plan.n_measured} of {answer.plan.n_candidates} modes are measured"
    rows = [
        (str(number), pick.mode, *map(partial(_clock, pick), _CLOCKS), pick.reason)
        for number, pick in enumerate(answer.plan.picks, start=1)
    ]
    columns = ("", "mode", "GPU MHz", "EMC MHz", "CPU MHz", "why")
    print_table(f"Modes to measure next{of} ({answer.plan.minimise}; {measured})", columns, rows)
    if line := _designed_line(answer.plan):
        print_lines([line])
    if answer.command:
        print_whole(answer.command)


def _designed_line(plan: results.Plan) -> str:
    """Which of the picks are a set that is measured as a whole."""
    n = plan.n_designed
    if n < 2:
        return "The first mode completes a set of four." if n and plan.n_measured == 3 else ""
    which = "These modes" if n == len(plan.picks) else f"The first {n} modes"
    return f"{which} are one set: measure all of them before you plan again."


def _clock(pick: results.Pick, name: str) -> str:
    return f"{pick.settings[name] / 1e6:.5g}" if name in pick.settings else "–"
