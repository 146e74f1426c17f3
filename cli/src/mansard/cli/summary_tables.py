"""The summary of a report as tables for the terminal."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mansard.analytics.report.summary import Summary
    from mansard.analytics.roofs.ceilings import Ceiling

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def summary_tables(summary: Summary, run_ids: Collection[str] | None = None) -> list[Table]:
    """Title, columns and rows of each table: ceilings, a GPU's kernels, networks.

    ``run_ids`` narrows the tables to these runs; None shows every run of the folder.
    """
    tables = [_ceilings(summary, run_ids)] if summary.modes else []
    standings = _standings(summary, run_ids)
    if standings[2]:
        tables.append(standings)
    if summary.networks:
        tables.append(_networks(summary, run_ids))
    return [(title, columns, [_plain(row) for row in rows]) for title, columns, rows in tables]


def _plain(row: tuple[str, ...]) -> tuple[str, ...]:
    # The report keeps numbers and units together with no-break spaces; a terminal does not need it.
    return tuple(cell.replace("\u00a0", " ") for cell in row)


def _ceilings(summary: Summary, run_ids: Collection[str] | None) -> Table:
    rows: list[tuple[str, ...]] = []
    sources: dict[str, None] = {}
    for mode in summary.modes:
        if run_ids is not None and mode.run_id not in run_ids:
            continue
        sources[mode.source] = None
        for ceiling in (*mode.peaks, *mode.bandwidths):
            kernel = ceiling.kernel or "–"
            rows.append((mode.label, ceiling.name, kernel, _ceiling(ceiling), _remark(ceiling)))
    title = f"Ceilings ({' and '.join(sources) or 'none'})"
    return (title, ("mode", "ceiling", "kernel", "value", "remark"), rows)


def _standings(summary: Summary, run_ids: Collection[str] | None) -> Table:
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


def _ceiling(ceiling: Ceiling) -> str:
    from mansard.analytics.data.quantities import quantity

    return quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)


def _remark(ceiling: Ceiling) -> str:
    if ceiling.value is None:
        return ceiling.unknown["value"]
    if ceiling.source == "published":
        return ceiling.unknown["low"]
    remarks = [] if ceiling.stable else ["some of its trials did not settle"]
    if ceiling.n_disturbed:
        remarks.append(f"{ceiling.n_disturbed} disturbed trials left out")
    return "; ".join(remarks)


def _networks(summary: Summary, run_ids: Collection[str] | None) -> Table:
    from mansard.analytics.data.quantities import digits, joules, seconds

    networks = [each for each in summary.networks if run_ids is None or each.run_id in run_ids]
    rows: list[tuple[str, ...]] = [
        (
            network.label,
            network.model,
            "–" if network.batch is None else str(network.batch),
            network.precision,
            "unknown" if network.work_flop is None else digits(network.work_flop / 1e9),
            "unknown" if network.traffic_bytes is None else digits(network.traffic_bytes / 1e6),
            seconds(network.time_s, network.low_s, network.high_s),
            joules(network.energy_j, network.energy_low_j, network.energy_high_j),
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
    return (f"{title}; {'; '.join(sorted(notes))}" if notes else title, columns, rows)
