"""All tables of a report's summary, as ``--all`` prints them; those of single commands too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from mansard.analytics import pages
from mansard.analytics.data.quantities import counted, digits, joules, limit_word, quantity, seconds
from mansard.api import results
from mansard.cli.console import note
from mansard.cli.tables import print_tables, without_silent
from mansard.core.precision import unit_title
from mansard.core.table import Table
from mansard.core.units import ROOF_FACTORS

REST = "--all has the rest"
MOST_ROWS = 1000  # of a table: more of them take minutes to draw


_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, list[_Row]]:
    """The rows by ``key``, in the order of their first ones."""
    groups: dict[_Key, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def evenly(rows: Sequence[_Row], n_most: int) -> list[_Row]:
    """At most ``n_most`` of the rows, evenly apart, the first and the last among them."""
    if len(rows) <= n_most:
        return list(rows)
    return [rows[round(at * (len(rows) - 1) / max(1, n_most - 1))] for at in range(n_most)]


def share_of(n_shown: int, n_all: int, what: str) -> str:
    """``5 of 31 networks``; empty where all are shown."""
    return f"{n_shown} of {n_all:,} {what}" if n_shown < n_all else ""


def title_with_rest(title: str, *left: str) -> str:
    """A title with what is left out of its table."""
    words = [word for word in left if word]
    return f"{title}; {', '.join(words)}: {REST}" if words else title


def print_shortened(tables: Sequence[Table], ratios: str = ROOF_FACTORS) -> None:
    """Print tables as ``print_tables``; of a long one the first rows, and how many there are."""
    for table in tables:
        print_tables([replace(table, rows=table.rows[:MOST_ROWS])], ratios)
        if (n_rows := len(table.rows)) > MOST_ROWS:
            note(f"note: the first {MOST_ROWS} of {n_rows:,} rows; --json prints all of them")


def summary_tables(summary: results.Summary, run_ids: Collection[str] | None = None) -> list[Table]:
    """The tables of a summary: ceilings, a GPU's kernels, networks, programs,
    and what a calibration makes of the networks.

    ``run_ids`` narrows the tables to these runs; None shows every run of the folder.
    """
    summary = summary.of_runs(run_ids)
    modes, networks, measured = summary.modes, summary.networks, summary.measured
    names = mode_names(modes)
    calibration = [_narrow(table) for table in pages.calibration_tables(summary.calibrations)]
    if run_ids is not None:
        calibration = calibration[:1] if measured else []  # the errors
    tables = [
        *([_ceilings(modes, names)] if modes else []),
        *([_standings(modes, names)] if any(mode.standings for mode in modes) else []),
        *([_networks(networks, names)] if networks else []),
        *measured_tables(measured),
        *accuracy_tables(summary.accuracies),
        *program_tables(summary.programs),
        *generation_tables(summary.generations),
        *calibration,
    ]
    device = modes[0].machine if len({mode.machine_id for mode in modes}) == 1 else ""
    if device and any(device in mode.label for mode in modes):  # several devices are there
        title = tables[0].title
        tables[0] = replace(tables[0], title=f"{device}: {title[0].lower()}{title[1:]}")
    return tables


def mode_names(modes: Sequence[results.ModeSummary]) -> dict[str, str]:
    """What the modes are called, by run: with their device where there are several."""
    names = [mode.mode for mode in modes]
    is_clear = len(set(names)) == len(names) and len({mode.machine_id for mode in modes}) == 1
    return {mode.run_id: mode.mode if is_clear else mode.label for mode in modes}


def _ceilings(modes: Sequence[results.ModeSummary], names: Mapping[str, str]) -> Table:
    rows = [
        (
            names[mode.run_id],
            ceiling.name,
            ceiling.kernel or "–",
            ceiling_text(ceiling),
            pages.sets_text(ceiling),
            "; ".join(
                filter(
                    None,
                    (ceiling_remark(ceiling), _traffic_remark(mode.traffic_bandwidth, ceiling)),
                )
            ),
        )
        for mode in modes
        for ceiling in (*mode.peaks, *mode.bandwidths)
    ]
    title = f"Ceilings ({' and '.join(dict.fromkeys(mode.source for mode in modes))})"
    return Table(title, ("mode", "ceiling", "kernel", "value", "working sets", "remark"), rows)


def _traffic_remark(traffic: results.Ceiling, ceiling: results.Ceiling) -> str:
    """At what networks' traffic is priced, where that is not the roof of main memory."""
    if ceiling.name != traffic.name or ceiling.kernel == traffic.kernel:
        return ""
    return f"networks' traffic at {traffic.kernel}, {ceiling_text(traffic)}"


def _standings(modes: Sequence[results.ModeSummary], names: Mapping[str, str]) -> Table:
    """Each kernel of a GPU beside the limit at the clock that it ran at."""
    rows = [
        (
            names[mode.run_id],
            standing.ceiling.name,
            f"{standing.ceiling.kernel or '–'} ({standing.ceiling.backend or '–'})",
            ceiling_text(standing.ceiling),
            "unknown" if standing.share is None else f"{standing.share:.1%}",
            "unknown" if standing.clock_hz is None else f"{standing.clock_hz / 1e6:.1f} MHz",
        )
        for mode in modes
        for standing in mode.standings
    ]
    columns = ("mode", "ceiling", "kernel", "value", "of the limit", "SM clock")
    return Table("Kernels compared with the limit at their clock", columns, rows)


def ceiling_text(ceiling: results.Ceiling) -> str:
    """The value with its interval; of disturbed trials where there are no others."""
    if ceiling.disturbed:
        value, low, high = (*ceiling.disturbed, None, None)[:3]
        return f"{quantity(value, ceiling.unit, low, high)}, disturbed"
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    if ceiling.value is None or ceiling.low is not None or ceiling.source == "published":
        return text
    return f"{text}, no interval: {counted(ceiling.n_blocks, 'block')}"


def ceiling_remark(ceiling: results.Ceiling) -> str:
    """Why it has no value, or what is to be known of it."""
    if ceiling.value is None:
        return ceiling.unknown["value"]
    if ceiling.source == "published":
        return ceiling.unknown["low"]
    remarks = [] if ceiling.stable else ["unstable: no trial settled"]
    if ceiling.n_disturbed:
        remarks.append(f"{ceiling.n_disturbed} disturbed trials left out")
    return "; ".join(remarks)


def _networks(networks: Sequence[results.NetworkSummary], names: Mapping[str, str]) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            names.get(network.run_id, network.label),
            network.model,
            "–" if network.batch is None else str(network.batch),
            network.precision,
            "unknown" if network.work_flop is None else digits(network.work_flop / 1e9),
            "unknown" if network.traffic_bytes is None else digits(network.traffic_bytes / 1e6),
            seconds(network.time_s, network.low_s, network.high_s, network.interval),
            joules(network.energy_j, network.energy_low_j, network.energy_high_j, network.interval),
            limit_text(network),
        )
        for network in networks
    ]
    columns: tuple[str, ...] = (
        "mode",
        "network",
        "batch",
        "precision",
        unit_title("G{}", (network.precision for network in networks)),
        "traffic (MB)",
        "modelled time",
        "modelled energy",
        "bound by",
    )
    if all(network.energy_j is None for network in networks):
        # Without a meter it is a column of unknowns.
        rows, columns = [row[:-2] + row[-1:] for row in rows], columns[:-2] + columns[-1:]
    title = "Networks (modelled: each fused layer at the roof)"
    notes = {note for network in networks for note in (network.notes or "").split("; ") if note}
    return Table("; ".join([title, *sorted(notes)]), columns, rows)


def limit_text(network: results.NetworkSummary) -> str:
    """What limits a network, or why that is unknown."""
    if network.bound is None:
        return network.unknown["bound"]
    return limit_word(network.bound, network.bound_share)


def measured_tables(networks: Sequence[results.NetworkTimes]) -> list[Table]:
    """Networks that were run beside what is predicted; then single calls, energies and memory of
    those that ran. None where none was run."""
    tables = pages.network_tables(networks)
    shown = [_narrow(table, ("p90", "power")) for table in tables]
    return [*map(_with_interval, shown[:1]), *shown[1:]]


def memory_tables(rows: Sequence[results.MemoryTraffic]) -> list[Table]:
    """The memory's use that a board reports, beside the modelled traffic; else none."""
    return [_narrow(table) for table in pages.memory_table(rows)]


def accuracy_tables(accuracies: Sequence[results.NetworkAccuracy]) -> list[Table]:
    """How often networks are right; none where that was not measured."""
    if not accuracies:
        return []
    table = pages.accuracy_table(accuracies)
    is_one = len({row.calibration for row in accuracies if row.calibration}) < 2
    narrow = _narrow(table, ("ranges of int8",) if is_one else ())
    return [replace(narrow, title=f"{narrow.title}; 95 % intervals")]


def part_tables(sums: Sequence[results.PartSum], parts: Sequence[results.PartTimes]) -> list[Table]:
    """Parts of networks that were run alone, after their sums; none where none was run."""
    tables = pages.part_tables(sums, parts)
    return [_narrow(table, ("above idle",)) for table in tables]


def group_tables(groups: Sequence[results.GroupTimes]) -> list[Table]:
    """Groups of stages by accelerator; none where no transitions were measured."""
    return [_narrow(table) for table in pages.group_tables(groups)]


def program_tables(programs: Sequence[results.ProgramTimes]) -> list[Table]:
    """Programs that were run and their windows; none where none was run."""
    if not programs:
        return []
    table = pages.program_table(programs)
    return [_with_interval(_narrow(table))]


def generation_tables(times: Sequence[results.GenerationTimes]) -> list[Table]:
    """Servers of language models; none where none was measured."""
    if not times:
        return []
    return [_narrow(pages.generation_table(times))]


def _narrow(table: Table, page_only: Collection[str] = ()) -> Table:
    """A table of the report for a terminal: narrower, and its columns in small letters."""
    columns = [name if name[:2].isupper() else name[0].lower() + name[1:] for name in table.columns]
    narrow = replace(table, columns=columns).without(page_only)
    return without_silent(narrow, {*columns} - {"measured", "time"})


def _with_interval(table: Table) -> Table:
    return replace(table, title=f"{table.title}; ±: 95 % interval of the next measurement")
