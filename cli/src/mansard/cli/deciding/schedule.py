"""``multi schedule``: the best schedule of several networks on several accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data import quantities
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, print_json, print_lines
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.options import (
    DaskOption,
    DryRunOption,
    ForceOption,
    JsonOption,
    OneEngineOption,
    RunsOption,
    check_outputs,
    parse_duration,
)
from mansard.cli.tables import print_tables, without_silent
from mansard.core.errors import UsageError
from mansard.core.records.schedule import MOST_TRANSITIONS, ContentionRule, Goal
from mansard.core.table import Table
from mansard.core.units import parse_optional

_RAN = ("method", "of", "predicted", "measured", "difference", "with a solver running", "remark")


def schedule(
    problem: Annotated[
        list[str] | None,
        typer.Argument(help="TOML or JSON file of networks, groups and accelerators; or networks "
                       "with measured groups, all of --runs by default; or a shipped problem: "
                       f"{', '.join(command_line.SHIPPED_PROBLEMS)}."),
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Folder or files of HaX-CoNN, one folder per network."),
    ] = None,
    goal: Annotated[
        Goal | None, typer.Option(help="Quantity to optimise; the file's, else makespan.")
    ] = None,
    steady: Annotated[
        bool | None,
        typer.Option("--steady/--once", help="Repeat the networks, or run each once."),
    ] = None,
    contention: Annotated[
        ContentionRule | None,
        typer.Option(help="Slowdown model. overlap: by concurrent groups; haxconn: always, by the "
            "group's own demand. The file's, else overlap."),
    ] = None,
    max_transitions: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_TRANSITIONS, help="Limit of accelerator changes of a network."),
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(help="Makespan limit: 20ms.")
    ] = None,
    max_energy: Annotated[str | None, typer.Option(help="Energy limit of a round: 0.5J.")] = None,
    max_power: Annotated[str | None, typer.Option(help="Mean power limit: 15W.")] = None,
    method: Annotated[
        Literal["auto", "exact", "first_come", "local"],
        typer.Option(
            help="Search all assignments in every order or first come first served, or search "
            "locally. auto: first come first served, then every order, or local."),
    ] = "auto",
    time_limit: Annotated[
        str | None, typer.Option(help="Search time limit: 60s; 10s by default.")
    ] = None,
    predict_missing: Annotated[
        bool,
        typer.Option(help="Predict missing times of networks of --runs."),
    ] = False,
    front: Annotated[
        str | None, typer.Option(help="Also print the time-energy front of this network.")
    ] = None,
    html: Annotated[Path | None, typer.Option(
        help="HTML page with the Gantt chart to write.")] = None,
    save_problem: Annotated[
        Path | None, typer.Option(help="File to write the solved problem to, .toml or .json.")
    ] = None,
    run: Annotated[
        bool,
        typer.Option("--run", help="Run the best schedule and the baselines on this machine."),
    ] = False,
    one_engine: OneEngineOption = False,
    duration: Annotated[
        str, typer.Option(help="With --run: time of each after warm-up: 10s, 5min.")
    ] = "10s",
    mode: Annotated[
        str | None, typer.Option(help="Mode of --runs, and the mode to run in.")
    ] = None,
    runs: RunsOption = None,
    dask: DaskOption = None,
    local: Annotated[bool, typer.Option("--local", help="Run without a container.")] = False,
    dry_run: DryRunOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Schedule networks on the accelerators of a machine; runs nothing without --run.

    Prints the best schedule with its proof or gap, compared with baselines in the same simulator.
    Exits with 1 if no schedule meets the limits (the nearest is printed) or one fails to run.
    """
    check_outputs((html, save_problem), force=force)
    names = problem or []
    files = [Path(name) for name in names if Path(name).suffix.lower() in {".toml", ".json"}]
    if len(files) > 1:
        raise UsageError("one problem at a time", fix=f"run it again for {files[1]}")
    executed = api.MultiRequest(
        multi=api.MultiSettings(
            seconds_s=parse_duration("--duration", duration), is_one_engine=one_engine
        ),
        mode=mode,
        runs=Path((runs or ["runs"])[0]),
        is_local=local,
    )
    if dry_run:
        print_dry_runs(api.dry_run(executed, TerminalReporter()), as_json=as_json)
        return
    answer = api.schedule(
        api.ScheduleRequest(
            problem=files[0] if files else None,
            models=tuple(name for name in names if Path(name) not in files),
            sources=tuple(sources or ()),
            runs=tuple(runs or (() if files else ("runs",))),
            mode=mode,
            is_modelled=predict_missing,
            goal=goal,
            contention=contention,
            is_steady=steady,
            max_transitions=max_transitions,
            max_latency_s=parse_optional("--max-latency", max_latency, "time"),
            max_energy_j=parse_optional("--max-energy", max_energy, "energy"),
            max_power_w=parse_optional("--max-power", max_power, "power"),
            method=method,
            time_limit_s=parse_optional("--time-limit", time_limit, "time") or 10.0,
            front=front,
            chart=html,
            save=save_problem,
            run=executed if run else None,
            dask=dask,
        ),
        TerminalReporter(),
    )
    if as_json:
        print_json("schedule", answer)
    else:
        print_answer(answer)
    if answer.best.broken or not all(ran.networks for ran in answer.ran):
        raise typer.Exit(1)


def print_answer(answer: results.ScheduleAnswer) -> None:
    """Print the methods, the best schedule and what was executed, and the answer in words."""
    print_tables((*_imported(answer), *_tables(answer)))
    print_lines((answer.sentence, *_lines(answer)))


def _lines(answer: results.ScheduleAnswer) -> Iterator[str]:
    sure = answer.sensitivity
    if sure is not None:
        loss, is_count = sure.largest_loss, answer.best.goal == "misses"
        worst = f"misses {loss:.0f} more" if is_count else f"is {quantities.relative(loss)} worse"
        proven = "" if sure.n_proven == sure.n_draws else f" ({sure.n_proven} proven)"
        yield (
            f"  sensitivity: no schedule is better in {sure.n_best} of {sure.n_draws} draws of the "
            f"inputs within their errors{proven}"
            + (
                f"; in the worst of them this one {worst} than the best"
                if sure.n_best < sure.n_draws
                else ""
            )
        )
        if sure.n_unknown_times or sure.n_unknown_costs:
            unknown = f"{sure.n_unknown_times} times and {sure.n_unknown_costs} costs of changes"
            yield f"  sensitivity: {unknown} have no known error, and are in no draw"
    yield from (f"  note: {line}" for line in answer.notes)


def _imported(answer: results.ScheduleAnswer) -> Iterator[Table]:
    """What files of HaX-CoNN hold, and what they print of pairs of networks."""
    if answer.files:
        files = [(source.file, source.holds, source.use) for source in answer.files]
        yield Table("Files of HaX-CoNN", ("file", "holds", "used for"), files)
    if answer.published:
        names = list(dict.fromkeys(name for pair in answer.published for name in pair.time_s))
        columns = ("pair", *names, "gain, as printed")
        yield Table("Published by HaX-CoNN", columns, [_pair(p, names) for p in answer.published])


def _pair(pair: results.PublishedRound, names: Sequence[str]) -> tuple[str, ...]:
    times = (quantities.seconds(pair.time_s[n]) if n in pair.time_s else "–" for n in names)
    return (pair.pair, *times, "–" if pair.gain is None else f"{100 * pair.gain:.2f} %")


def _tables(answer: results.ScheduleAnswer) -> Iterator[Table]:
    yield pages.method_table((answer.best, *answer.baselines))
    yield pages.segment_table(answer.problem, answer.best)
    yield pages.network_table(answer.problem, answer.best)
    if answer.front:
        points = [
            (
                quantities.seconds(point.time_s),
                quantities.joules(point.energy_j),
                pages.in_rows(point.accelerators),
            )
            for point in answer.front
        ]
        yield Table("The front of one network alone", ("time", "energy", "groups on"), points)
    if answer.ran:
        rounds = [row for ran in answer.ran for row in _ran_rows(ran)]
        mode = next((ran.mode for ran in answer.ran if ran.mode), "")
        table = Table(f"Executed in {mode}" if mode else "Executed", _RAN, rounds)
        yield without_silent(table, {"with a solver running", "remark"})


def _ran_rows(ran: results.RanSchedule) -> Iterator[tuple[str, ...]]:
    """The rounds of a schedule that has some, or why it did not run; the rate of each network."""
    remark = ran.remark
    if ran.predicted_s is not None or not ran.networks:
        times_s = (ran.predicted_s, ran.measured_s, ran.beside_solver_s)
        predicted, measured, beside = (
            "–" if time_s is None else quantities.seconds(time_s) for time_s in times_s
        )
        error = _off(ran.measured_s, ran.predicted_s)
        yield (ran.method, "a round", predicted, measured, error, beside, remark)
        remark = ""
    for network in ran.networks:
        rates = (network.predicted_per_s, network.measured_per_s, network.beside_solver_per_s)
        predicted, measured, beside = (
            "–" if rate is None else f"{quantities.digits(rate, 4)} /s" for rate in rates
        )
        off = _off(network.measured_per_s, network.predicted_per_s)
        yield (ran.method, network.name, predicted, measured, off, beside, remark)
        remark = ""


def _off(measured: float | None, predicted: float | None) -> str:
    if measured is None or predicted is None:
        return "–"
    return f"{100 * (measured / predicted - 1):+.1f} %"
