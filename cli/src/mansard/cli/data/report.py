"""``mansard report``: the report of runs that were measured before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from mansard import api
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.options import BoardOption, JsonOption, MixOption, RunsOption
from mansard.cli.tables import Table, print_tables, without, without_shared, without_silent

MOST_ROWS = 1000  # of a table: more of them take minutes to draw


def report(
    runs: RunsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where to write; report.html in the first folder of runs by default."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="More modes to predict, as for bench, or a table (.csv)."),
    ] = None,
    board: BoardOption = None,
    mix: MixOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the report again from what the folders of runs hold; measures nothing."""
    found = api.report(
        tuple(runs or ("runs",)),
        output,
        mix=mix,
        modes=mode,
        board=board,
        reporter=TerminalReporter(),
    )
    print_report(found, as_json=as_json)


def print_report(found: api.Report, *, as_json: bool) -> None:
    """Print the summary of a report; the tables show its ``run_ids`` only."""
    if as_json:
        print_json("report", {"report": found.path, "summary": found.summary})
        return
    print_shortened(summary_tables(found.summary, found.run_ids))
    typer.echo(f"report: {found.path}")


def print_shortened(tables: Sequence[Table]) -> None:
    """Print tables; of a long one the first rows, and how many there are."""
    for title, columns, rows in tables:
        print_tables([(title, columns, rows[:MOST_ROWS])])
        if len(rows) > MOST_ROWS:
            note(f"note: the first {MOST_ROWS} of {len(rows):,} rows; --json prints all of them")


def summary_tables(summary: api.Summary, run_ids: Collection[str] | None = None) -> list[Table]:
    """Title, columns and rows of each table: ceilings, a GPU's kernels, networks, programs,
    and what a calibration makes of the networks.

    ``run_ids`` narrows the tables to these runs; None shows every run of the folder.
    """
    tables = [_ceilings(summary, run_ids)] if summary.modes else []
    standings = _standings(summary, run_ids)
    if standings[2]:
        tables.append(standings)
    if summary.networks:
        tables.append(_networks(summary, run_ids))
    measured = [
        each
        for each in summary.measured
        if run_ids is None or not set(run_ids).isdisjoint(each.run_ids)
    ]
    programs = [each for each in summary.programs if run_ids is None or each.run_id in run_ids]
    accuracies = [each for each in summary.accuracies if run_ids is None or each.run_id in run_ids]
    tables += [
        *measured_tables(measured),
        *accuracy_tables(accuracies),
        *program_tables(programs),
    ]
    calibration = [
        without_shared((each.caption, each.columns, each.rows), ("Device", "Engine"))
        for each in api.calibration_tables(summary.calibrations)
    ]
    if run_ids is None:
        return [*tables, *calibration]
    return [*tables, *calibration[:1]] if measured else tables  # the errors


def _ceilings(summary: api.Summary, run_ids: Collection[str] | None) -> Table:
    rows: list[tuple[str, ...]] = []
    sources: dict[str, None] = {}
    for mode in summary.modes:
        if run_ids is not None and mode.run_id not in run_ids:
            continue
        sources[mode.source] = None
        for ceiling in (*mode.peaks, *mode.bandwidths):
            kernel = ceiling.kernel or "–"
            remark = "; ".join(
                filter(None, (_remark(ceiling), _traffic_remark(mode.traffic_bandwidth, ceiling)))
            )
            rows.append((mode.label, ceiling.name, kernel, _ceiling(ceiling), remark))
    title = f"Ceilings ({' and '.join(sources) or 'none'})"
    return (title, ("mode", "ceiling", "kernel", "value", "remark"), rows)


def _traffic_remark(traffic: api.Ceiling, ceiling: api.Ceiling) -> str:
    """At what networks' traffic is priced, where that is not the roof of main memory."""
    if ceiling.name != traffic.name or ceiling.kernel == traffic.kernel:
        return ""
    return f"networks' traffic at {traffic.kernel}, {_ceiling(traffic)}"


def _standings(summary: api.Summary, run_ids: Collection[str] | None) -> Table:
    """Each kernel of a GPU beside the limit at the clock that it ran at."""
    rows: list[tuple[str, ...]] = []
    for mode in summary.modes:
        if run_ids is not None and mode.run_id not in run_ids:
            continue
        for each in mode.standings:
            clock = "unknown" if each.clock_hz is None else f"{each.clock_hz / 1e6:.1f} MHz"
            share = "unknown" if each.share is None else f"{each.share:.1%}"
            kernel = f"{each.ceiling.kernel or '–'} ({each.ceiling.backend or '–'})"
            rows.append(
                (mode.label, each.ceiling.name, kernel, _ceiling(each.ceiling), share, clock)
            )
    columns = ("mode", "ceiling", "kernel", "value", "of the limit", "SM clock")
    return ("Kernels beside the limit at their own clock", columns, rows)


def _ceiling(ceiling: api.Ceiling) -> str:
    return api.quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)


def _remark(ceiling: api.Ceiling) -> str:
    if ceiling.value is None:
        return ceiling.unknown["value"]
    if ceiling.source == "published":
        return ceiling.unknown["low"]
    remarks = [] if ceiling.stable else ["none of its trials settled"]
    if ceiling.n_disturbed:
        remarks.append(f"{ceiling.n_disturbed} disturbed trials left out")
    return "; ".join(remarks)


def _networks(summary: api.Summary, run_ids: Collection[str] | None) -> Table:
    networks = [each for each in summary.networks if run_ids is None or each.run_id in run_ids]
    rows: list[tuple[str, ...]] = [
        (
            network.label,
            network.model,
            "–" if network.batch is None else str(network.batch),
            network.precision,
            "unknown" if network.work_flop is None else api.digits(network.work_flop / 1e9),
            "unknown" if network.traffic_bytes is None else api.digits(network.traffic_bytes / 1e6),
            api.seconds(network.time_s, network.low_s, network.high_s, network.interval),
            api.joules(
                network.energy_j, network.energy_low_j, network.energy_high_j, network.interval
            ),
            network.bound or network.unknown["bound"],
        )
        for network in networks
    ]
    columns: tuple[str, ...] = (
        "mode",
        "network",
        "batch",
        "precision",
        "GFLOP",
        "traffic (MB)",
        "modelled time",
        "modelled energy",
        "bound by",
    )
    if all(network.energy_j is None for network in networks):
        # Without a meter it is a column of unknowns.
        rows, columns = [row[:-2] + row[-1:] for row in rows], columns[:-2] + columns[-1:]
    title = "Networks (modelled: each fused layer at the roof)"
    notes = {each for network in networks for each in (network.notes or "").split("; ") if each}
    whole = without_shared((title, columns, rows), ("precision",))
    return ("; ".join([whole[0], *sorted(notes)]), *whole[1:])


def measured_tables(networks: Sequence[api.NetworkTimes]) -> list[Table]:
    """Networks that were run beside what is predicted; then single calls, energies and memory of
    those that ran. None where none was run."""
    shared, page_only = ("mode", "precision", "engine", "source"), ("p90", "power")
    tables = api.network_tables(networks, attrgetter("mode"))
    found = [_table(each, shared, page_only) for each in tables]
    return [*map(_with_interval, found[:1]), *found[1:]]


def memory_tables(rows: Sequence[api.MemoryTraffic]) -> list[Table]:
    """The memory's use that a board reports, beside the modelled traffic; else none."""
    shared = ("mode", "precision", "engine", "source")
    return [_table(each, shared) for each in api.memory_table(rows, attrgetter("mode"))]


def accuracy_tables(accuracies: Sequence[api.NetworkAccuracy]) -> list[Table]:
    """How often networks are right; none where that was not measured."""
    if not accuracies:
        return []
    table = api.accuracy_table(accuracies)
    is_one = len({row.calibration for row in accuracies if row.calibration}) < 2
    shared = ("device", "engine", "data", "samples", "source")
    narrow = _table(table, shared, ("ranges of int8",) if is_one else ())
    return [(f"{narrow[0]}; (95 % interval)", *narrow[1:])]


def part_tables(sums: Sequence[api.PartSum], parts: Sequence[api.PartTimes]) -> list[Table]:
    """Parts of networks that were run alone, after their sums; none where none was run."""
    shared, page_only = ("mode", "precision", "engine", "source"), ("above idle",)
    tables = api.part_tables(sums, parts, attrgetter("mode"))
    return [_table(each, shared, page_only) for each in tables]


def group_tables(groups: Sequence[api.GroupTimes]) -> list[Table]:
    """Groups of stages by accelerator; none where no transitions were measured."""
    shared = ("mode", "precision", "engine", "source")
    return [_table(each, shared) for each in api.group_tables(groups, attrgetter("mode"))]


def program_tables(programs: Sequence[api.ProgramTimes]) -> list[Table]:
    """Programs that were run and their windows; none where none was run."""
    if not programs:
        return []
    table = api.program_table(programs, attrgetter("mode"))
    return [_with_interval(_table(table, ("source",)))]


def _table(found: api.Table, shared: Sequence[str], page_only: Collection[str] = ()) -> Table:
    """A table of the report for a terminal: narrower, and its columns in small letters."""
    columns = [name if name[:2].isupper() else name[0].lower() + name[1:] for name in found.columns]
    table = without((found.caption, columns, found.rows), page_only)
    return without_shared(without_silent(table, {*columns} - {"measured", "time"}), shared)


def _with_interval(table: Table) -> Table:
    title, columns, rows = table
    return f"{title}; ±: 95 % interval of the next measurement", columns, rows
