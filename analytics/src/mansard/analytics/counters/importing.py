"""From an export to rows of counters, with what the file does not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from mansard.analytics.counters.counting import count
from mansard.analytics.counters.launch import Export, Launch
from mansard.analytics.counters.reading import MOST_EXPORT_BYTES, read_export
from mansard.analytics.published.cells import LARGEST_COUNT
from mansard.analytics.published.importing import table_id_of
from mansard.analytics.published.readers.reader import ToolFile
from mansard.core.errors import InputError, UsageError
from mansard.core.files import read_whole
from mansard.core.ncu_metrics import call_of
from mansard.core.node_labels import labels_of
from mansard.core.records import KernelCounters, Phase, Source

NOT_SAID = "the export does not say it"


@dataclass(frozen=True, kw_only=True)
class CounterOrigin:
    """What an export is of, as far as it does not say so itself.

    ``iterations``: calls of the network in the export, which launch the same kernels.
    ``compute_capability``: 87 is 8.7. ``citation`` is None of what was measured here.
    """

    device: str
    citation: str | None = None
    source: Source = "published"
    table_id: str = ""
    mode: str = "not said"
    network: str | None = None
    model_hash: str | None = None
    batch: int | None = None
    precision: str | None = None
    phase: Phase = "inference"
    iterations: int | None = None
    compute_capability: int | None = None
    tool: str | None = None


@dataclass(frozen=True)
class ImportedCounters:
    """The rows of one export, which form of export it was, and a line for each note."""

    table_id: str
    form: str
    rows: tuple[KernelCounters, ...]
    notes: tuple[str, ...]


def import_counters(path: Path, origin: CounterOrigin) -> ImportedCounters:
    """Read one export; raises InputError for what it holds, UsageError for what the caller said."""
    source = ToolFile(str(path), read_whole(path, most_bytes=MOST_EXPORT_BYTES))
    export = read_export(source)
    plain = counters_of(export, origin, str(path))
    table_id = origin.table_id or table_id_of(plain)
    rows = tuple(replace(row, table_id=table_id) for row in plain)
    return ImportedCounters(table_id, export.form, rows, export.notes)


def counters_of(export: Export, origin: CounterOrigin, where: str) -> tuple[KernelCounters, ...]:
    """A row for each launch of ``export``; raises UsageError where iterations differ."""
    iterations = _iterations(export.launches, origin.iterations, where)
    return tuple(
        _row(launch, number, iteration, origin, where)
        for number, (launch, iteration) in enumerate(zip(export.launches, iterations, strict=True))
    )


def _iterations(launches: Sequence[Launch], n: int | None, where: str) -> list[int | None]:
    """The call of each launch: launches of ``n`` equal calls, one after the other."""
    if n is None:
        return [None] * len(launches)
    each, left = divmod(len(launches), n)
    names = [launch.kernel for launch in launches]
    if left or any(names[at] != names[at % each] for at in range(len(names))):
        raise UsageError(
            f"{where}: its {len(launches)} launches are not {n} times the same kernels",
            fix="say --iterations as many calls as were profiled, or leave it out",
        )
    return [at // each for at in range(len(launches))]


def _row(
    launch: Launch, number: int, iteration: int | None, origin: CounterOrigin, where: str
) -> KernelCounters:
    counted = count(launch, precision=origin.precision, sm=origin.compute_capability)
    sm = launch.compute_capability or origin.compute_capability
    if launch.time_out_of_range():
        raise InputError(
            f"line {launch.line}: the launch took no time or longer than a day",
            where=where,
            fix="remove the row",
        )
    nodes = nodes_of(launch.nvtx)
    if iteration is None:
        iteration = call_of(launch.nvtx or ())
    values: dict[str, object] = {
        "citation": origin.citation,
        "network": origin.network,
        "model_hash": origin.model_hash,
        "batch": origin.batch,
        "precision": origin.precision,
        "iteration": iteration,
        "grid": launch.grid,
        "block": launch.block,
        "compute_capability": sm,
        "n_sms": counted.n_sms,
        "nvtx": launch.nvtx,
        "nodes": nodes,
        "time_s": counted.time_s,
        "sm_cycles": counted.sm_cycles,
        "work_flop": counted.work_flop,
        "tool": origin.tool,
    }
    reasons = {
        "citation": "it was measured here",
        "nvtx": "the export has no NVTX ranges",
        "nodes": "no range around the launch names nodes of the network",
        "model_hash": "no network of ours was named",
        **counted.unknown,
    }
    return KernelCounters(
        table_id=origin.table_id,
        row=min(launch.line, LARGEST_COUNT),
        source=origin.source,
        device=origin.device,
        mode=origin.mode,
        phase=origin.phase,
        index=number,
        n_launches=launch.n_launches,
        kernel=launch.kernel,
        clocks_hz=dict(counted.clocks_hz),
        work=counted.work,
        traffic=counted.traffic,
        **values,  # type: ignore[arg-type]
        unknown={n: reasons.get(n, NOT_SAID) for n, value in values.items() if value is None},
    )


def nodes_of(ranges: Sequence[str] | None) -> tuple[int, ...] | None:
    """The nodes that the innermost labelled range names; None where none does."""
    for name in reversed(ranges or ()):
        if found := labels_of(name):
            return found
    return None
