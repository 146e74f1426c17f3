"""``mansard schedule``: several networks on several accelerators, and the best way to run them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.cli.console import TerminalReporter, print_json, print_lines
from mansard.cli.options import JsonOption, RunsOption
from mansard.cli.tables import Table, print_tables, without_silent
from mansard.core.errors import UsageError
from mansard.core.records import Schedule
from mansard.core.records.schedule import Goal

_METHODS = (
    *("method", "value", "makespan", "items/s", "energy", "power", "changes", "proof"),
    *("schedules simulated", "solved in", "limits"),
)
_SEGMENTS = (
    *("network", "groups", "accelerator", "start", "end", "alone", "slowdown", "transitions"),
)
_RAN = ("method", "of", "predicted", "measured", "error", "beside a solver", "remark")
_NETWORKS = ("network", "latency", "deadline", "items/s", "changes", "verdict")


def schedule(
    problem: Annotated[
        list[str] | None,
        typer.Argument(help="TOML or JSON file of networks, their groups and accelerators; or "
                       "networks whose groups were measured, all of --runs by default."),
    ] = None,
    goal: Annotated[
        Goal | None, typer.Option(help="What is to be best; that of the file, else makespan.")
    ] = None,
    steady: Annotated[
        bool | None,
        typer.Option("--steady/--once", help="Networks again and again, or each once."),
    ] = None,
    max_transitions: Annotated[
        int | None, typer.Option(min=0, help="Most changes of accelerator of a network.")
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Most time from the start to the last end: 20ms.")
    ] = None,
    max_energy: Annotated[str | None, typer.Option(help="Most energy of a round: 0.5J.")] = None,
    max_power: Annotated[str | None, typer.Option(help="Most mean power: 15W.")] = None,
    method: Annotated[
        Literal["auto", "exact", "first_come", "local"],
        typer.Option(help="All assignments, in every order or first come first served, or local "
                     "search; by their number by default."),
    ] = "auto",
    time_limit: Annotated[
        str | None, typer.Option(help="Most time to search for: 10s. 60s by default.")
    ] = None,
    modelled: Annotated[
        bool,
        typer.Option("--modelled", help="Predict times where networks of --runs have none."),
    ] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also what HaX-CoNN's model, CP-SAT and HiGHS find.")
    ] = False,
    front: Annotated[
        str | None, typer.Option(help="Also the front of time and energy of this network alone.")
    ] = None,
    chart: Annotated[Path | None, typer.Option(help="HTML page with the Gantt chart.")] = None,
    save_problem: Annotated[
        Path | None, typer.Option(help="Write the problem as it was solved, .toml or .json.")
    ] = None,
    run: Annotated[
        bool,
        typer.Option("--run", help="Execute the best schedule and the baselines on this machine."),
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long each is executed for, after warming up.")
    ] = 10.0,
    mode: Annotated[
        str | None, typer.Option(help="The mode of --runs, and the one to execute in.")
    ] = None,
    runs: RunsOption = None,
    local: Annotated[bool, typer.Option("--local", help="Execute without a container.")] = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Schedule networks on the accelerators of a machine; runs nothing without --run.

    Prints the best schedule with its proof or gap, beside baselines that the same simulator
    scores. Exit code 1 where no schedule keeps the limits: the nearest is printed.
    """
    names = problem or []
    files = [Path(name) for name in names if Path(name).suffix.lower() in {".toml", ".json"}]
    if len(files) > 1:
        raise UsageError("one problem at a time", fix=f"run it again for {files[1]}")
    executed = api.MultiRequest(
        multi=api.MultiSettings(seconds_s=seconds),
        mode=mode,
        runs=Path((runs or ["runs"])[0]),
        is_local=local,
    )
    found = api.schedule(
        api.ScheduleRequest(
            problem=files[0] if files else None,
            models=tuple(name for name in names if Path(name) not in files),
            runs=tuple(runs or (() if files else ("runs",))),
            mode=mode,
            is_modelled=modelled,
            goal=goal,
            is_steady=steady,
            max_transitions=max_transitions,
            max_latency_s=api.parse_optional("--max-latency", max_latency, "time"),
            max_energy_j=api.parse_optional("--max-energy", max_energy, "energy"),
            max_power_w=api.parse_optional("--max-power", max_power, "power"),
            method=method,
            time_limit_s=api.parse_optional("--time-limit", time_limit, "time") or 60.0,
            uses_peers=peers,
            front=front,
            chart=chart,
            save=save_problem,
            run=executed if run else None,
        ),
        TerminalReporter(),
    )
    if as_json:
        print_json(found)
    else:
        print_tables(_tables(found))
        print_lines((found.sentence, *_lines(found)))
    if found.best.broken:
        raise typer.Exit(1)


def _lines(found: api.ScheduleAnswer) -> Iterator[str]:
    sure = found.sensitivity
    if sure is not None:
        yield (
            f"  sensitivity: the best in {sure.n_best} of {sure.n_draws} draws of its inputs "
            f"within their errors, at worst {api.relative(sure.largest_loss)} from the best of one"
        )
    yield from (f"  note: {line}" for line in found.notes)


def _tables(found: api.ScheduleAnswer) -> Iterator[Table]:
    everything = (found.best, *found.peers, *found.baselines)
    rows = [_method_row(each) for each in everything]
    droppable = {"energy", "power", "limits", "schedules simulated"}
    yield without_silent((f"Methods, by {found.best.goal}", _METHODS, rows), droppable)
    yield (
        "The best schedule",
        _SEGMENTS,
        [_segment_row(found, each) for each in api.segments(found.best)],
    )
    networks = [
        (
            each.name,
            api.seconds(each.latency_s),
            api.seconds(chain.max_latency_s) if chain.max_latency_s else "–",
            api.digits(each.rate_per_s, 4),
            str(each.n_transitions),
            {None: "–", True: "missed", False: "kept"}[each.is_missed],
        )
        for each, chain in zip(found.best.networks, found.problem.networks, strict=True)
    ]
    yield without_silent(("Networks", _NETWORKS, networks), {"deadline", "verdict"})
    if found.front:
        points = [
            (api.seconds(each.time_s), api.joules(each.energy_j), api.in_rows(each.accelerators))
            for each in found.front
        ]
        yield ("The front of one network alone", ("time", "energy", "groups on"), points)
    if found.ran:
        rounds = [row for each in found.ran for row in _ran_rows(each)]
        table = (f"Executed in {found.ran[0].mode}", _RAN, rounds)
        yield without_silent(table, {"beside a solver", "remark"})


def _ran_rows(ran: api.RanSchedule) -> Iterator[tuple[str, ...]]:
    """The rounds of a schedule, then the rate of each network."""
    error = "–" if ran.error is None else f"{100 * ran.error:+.1f} %"
    yield (
        ran.method,
        "a round",
        "–" if ran.predicted_s is None else api.seconds(ran.predicted_s),
        "–" if ran.measured_s is None else api.seconds(ran.measured_s),
        error,
        "–" if ran.beside_solver_s is None else api.seconds(ran.beside_solver_s),
        ran.remark,
    )
    for each in ran.networks:
        rates = (each.predicted_per_s, each.measured_per_s, each.beside_solver_per_s)
        cells = ["–" if rate is None else f"{api.digits(rate, 4)} /s" for rate in rates]
        off = "–"
        if each.measured_per_s is not None:
            off = f"{100 * (each.measured_per_s / each.predicted_per_s - 1):+.1f} %"
        yield (ran.method, each.name, cells[0], cells[1], off, cells[2], "")


def _method_row(found: Schedule) -> tuple[str, ...]:
    return (
        found.method,
        api.value_text(found.goal, found.value),
        api.seconds(found.makespan_s),
        api.digits(sum(each.rate_per_s for each in found.networks), 4),
        "–" if found.energy_j is None else api.joules(found.energy_j),
        "–" if found.power_w is None else api.watts(found.power_w),
        str(sum(each.n_transitions for each in found.networks)),
        "–" if found.bound is None else api.proof_text(found),
        f"{found.n_simulated:,}" if found.n_simulated > 1 else "–",
        api.seconds(found.solve_s),
        "; ".join(found.broken) or "–",
    )


def _segment_row(found: api.ScheduleAnswer, each: api.Segment) -> tuple[str, ...]:
    return (
        found.problem.networks[each.network].name,
        api.group_names(found.problem, each.network, each.first, each.last),
        each.accelerator,
        api.seconds(each.start_s) if each.start_s else "0",
        api.seconds(each.end_s),
        api.seconds(each.alone_s),
        api.digits(each.slowdown, 4),
        api.seconds(each.transition_s) if each.transition_s else "–",
    )
