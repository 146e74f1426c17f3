"""From an export to rows of counters, with what the file does not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from mansard.analytics.data.published.cells import LARGEST_COUNT
from mansard.analytics.data.published.importing import table_id_of
from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.counting import count
from mansard.analytics.models.counters.launch import Export, ProfiledLaunch
from mansard.analytics.models.counters.reading import MOST_EXPORT_BYTES, read_export
from mansard.core.errors import InputError, UsageError
from mansard.core.formats.ncu import call_of
from mansard.core.formats.onnx import labels_of
from mansard.core.formats.tensorrt import take_apart, trace
from mansard.core.records import KernelCounters, Phase, Source
from mansard.core.storage.files import read_whole

NOT_SAID = "the export does not say it"


@dataclass(frozen=True, kw_only=True)
class ExportOrigin:
    """What an export is of, as far as it does not say so itself.

    ``iterations``: calls of the network in the export, which launch the same kernels.
    ``compute_capability``: 87 is 8.7. ``citation`` is None of what was measured here, and ``tool``
    is what measured it with all metrics that the chip lists.
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


def import_counters(path: Path, origin: ExportOrigin) -> ImportedCounters:
    """Read one export; raises InputError for what it holds, UsageError for what the caller said."""
    source = ToolFile(str(path), read_whole(path, most_bytes=MOST_EXPORT_BYTES))
    export = read_export(source)
    plain = counters_of(export, origin, str(path))
    table_id = origin.table_id or table_id_of(plain)
    rows = tuple(replace(row, table_id=table_id) for row in plain)
    return ImportedCounters(table_id, export.form, rows, export.notes)


def counters_of(export: Export, origin: ExportOrigin, where: str) -> tuple[KernelCounters, ...]:
    """A row for each launch of ``export``; raises UsageError where iterations differ."""
    nodes = _nodes(export.launches)
    rows = tuple(
        _row(launch, number, nodes.get(_label(launch)), origin, where)
        for number, launch in enumerate(export.launches)
    )
    return rows if origin.iterations is None else in_calls(rows, origin.iterations, where)


def in_calls(rows: Sequence[KernelCounters], n: int, where: str) -> tuple[KernelCounters, ...]:
    """Rows of ``n`` equal calls, one after the other; raises UsageError where they are not."""
    each, left = divmod(len(rows), n)
    names = [row.kernel for row in rows]
    if left or any(names[at] != names[at % each] for at in range(len(names))):
        raise UsageError(
            f"{where}: its {len(rows)} launches are not {n} times the same kernels",
            fix="say --calls as many calls as were profiled, or leave it out",
        )
    return tuple(
        replace(
            row,
            iteration=at // each,
            unknown={name: why for name, why in row.unknown.items() if name != "iteration"},
        )
        for at, row in enumerate(rows)
    )


def _label(launch: ProfiledLaunch) -> str:
    """The name of the innermost range that holds labels; empty: there is none."""
    return next((name for name in reversed(launch.nvtx or ()) if labels_of(name)), "")


def _nodes(launches: Sequence[ProfiledLaunch]) -> dict[str, tuple[int, ...] | None]:
    """The nodes of each range that holds labels: a region of TensorRT has those between, too."""
    names = [name for name in dict.fromkeys(map(_label, launches)) if name]
    return dict(zip(names, trace([take_apart(name) for name in names]), strict=True))


def _row(
    launch: ProfiledLaunch,
    number: int,
    nodes: tuple[int, ...] | None,
    origin: ExportOrigin,
    where: str,
) -> KernelCounters:
    counted = count(
        launch,
        precision=origin.precision,
        sm=origin.compute_capability,
        all_asked=origin.tool is not None,
    )
    sm = launch.compute_capability or origin.compute_capability
    if launch.time_out_of_range():
        raise InputError(
            f"line {launch.line}: the launch took no time or longer than a day",
            where=where,
            fix="remove the row",
        )
    values: dict[str, object] = {
        "citation": origin.citation,
        "network": origin.network,
        "model_hash": origin.model_hash,
        "batch": origin.batch,
        "precision": origin.precision,
        "iteration": call_of(launch.nvtx or ()),
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
