"""Rows of counters from an export, completed by what the file does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from mansard.analytics.data.published.cells import LARGEST_COUNT
from mansard.analytics.data.published.origin import table_id_of
from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.launch import LEAST_S, MOST_S, Export, ProfiledLaunch
from mansard.analytics.models.counters.metrics import count
from mansard.analytics.models.counters.reading import read_export
from mansard.core.errors import InputError, UsageError
from mansard.core.formats.ncu import REPORT_ENDINGS, REPORT_MAGIC, call_of, counting_command
from mansard.core.formats.onnx import labels_of
from mansard.core.formats.tensorrt import take_apart, trace
from mansard.core.hardware import boards_called
from mansard.core.records import KernelCounters, Phase, Source, with_known
from mansard.core.storage.files import open_file, read_whole, storage_errors

MOST_EXPORT_BYTES = 256 << 20  # a raw page has 4 KB a launch
_MOST_REASONS = 2  # in a note
NOT_SAID = "the export does not say it"


@dataclass(frozen=True, kw_only=True)
class ExportOrigin:
    """The origin of an export, as far as the file does not have it.

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

    @property
    def capability(self) -> int | None:
        """``compute_capability``, or that of the board that ``device`` names."""
        boards = boards_called(self.device) if self.compute_capability is None else ()
        return boards[0].module.sm if boards else self.compute_capability


@dataclass(frozen=True)
class ImportedCounters:
    """The rows of one export, its form, and a line for each note."""

    table_id: str
    form: str
    rows: tuple[KernelCounters, ...]
    notes: tuple[str, ...]


def import_counters(path: Path, origin: ExportOrigin) -> ImportedCounters:
    """Read one export; raises InputError for what it holds, UsageError for what the caller said."""
    data = read_whole(path, most_bytes=MOST_EXPORT_BYTES)
    return counters_in(ToolFile(str(path), data), origin)


def counters_in(source: ToolFile, origin: ExportOrigin) -> ImportedCounters:
    """Read the text of one export; raises as ``import_counters`` does."""
    export = read_export(source)
    plain = counters_of(export, origin, source.where)
    table_id = origin.table_id or table_id_of(plain)
    rows = tuple(replace(row, table_id=table_id) for row in plain)
    return ImportedCounters(table_id, export.form, rows, export.notes)


def is_report(path: Path) -> bool:
    """Whether a file is a report of Nsight Compute, which only ``ncu`` can read."""
    if path.name.endswith(REPORT_ENDINGS):
        return True
    with storage_errors(path), open_file(path) as stream:
        return stream.read(len(REPORT_MAGIC)) == REPORT_MAGIC


def check_counts(counters: ImportedCounters, origin: ExportOrigin, where: str) -> None:
    """Raise InputError where neither FLOP nor bytes of any launch are known."""
    rows = counters.rows
    if any(row.work_flop is not None or row.work or _moved(row) for row in rows):
        return
    n = sum(row.n_launches for row in rows)
    sm = next((row.compute_capability for row in rows if row.compute_capability), None)
    page = "" if counters.form == "raw page" else "export the raw page of its report, or "
    raise InputError(
        f"holds neither FLOP nor bytes of any launch, of {n:,}",
        where=where,
        fix=f"{page}collect them: {counting_command(sm or origin.capability)}",
    )


def _moved(row: KernelCounters) -> bool:
    ways = ("read_bytes", "write_bytes", "traffic_bytes")
    return any(getattr(level, way) is not None for level in row.traffic for way in ways)


def notes_on_unknown(rows: Sequence[KernelCounters]) -> tuple[str, ...]:
    """A line about the launches with unknown FLOP, and one about those with unknown bytes."""
    n = sum(row.n_launches for row in rows)
    work: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for row in rows:
        if row.work_flop is None:
            work[row.unknown["work_flop"]] += row.n_launches
        for level in row.traffic:
            if level.level == "memory" and level.traffic_bytes is None:
                memory[level.unknown["traffic_bytes"]] += row.n_launches
    return tuple(
        f"{what} of {sum(reasons.values()):,} of {n:,} launches are unknown: "
        + "; ".join(why for why, _ in reasons.most_common(_MOST_REASONS))
        for what, reasons in (("FLOP", work), ("bytes of memory", memory))
        if reasons
    )


def counters_of(export: Export, origin: ExportOrigin, where: str) -> tuple[KernelCounters, ...]:
    """A row for each launch of ``export``; raises UsageError where iterations differ."""
    nodes, sm = _nodes(export.launches), origin.capability
    rows = tuple(
        _row(launch, number, nodes.get(_label(launch)), sm, origin, where)
        for number, launch in enumerate(export.launches)
    )
    return rows if origin.iterations is None else in_calls(rows, origin.iterations, where)


def in_calls(rows: Sequence[KernelCounters], n: int, where: str) -> tuple[KernelCounters, ...]:
    """Rows of ``n`` equal calls, one after the other; raises UsageError where they are not."""
    n_each, left = divmod(len(rows), n)
    names = [row.kernel for row in rows]
    if left or any(names[at] != names[at % n_each] for at in range(len(names))):
        raise UsageError(
            f"{where}: its {len(rows)} launches are not {n} times the same kernels",
            fix="say --calls as many calls as were profiled, or leave it out",
        )
    return tuple(with_known(row, iteration=at // n_each) for at, row in enumerate(rows))


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
    capability: int | None,
    origin: ExportOrigin,
    where: str,
) -> KernelCounters:
    counted = count(
        launch,
        precision=origin.precision,
        sm=capability,
        all_asked=origin.tool is not None,
    )
    sm = launch.compute_capability or capability
    if counted.time_s is not None and not LEAST_S <= counted.time_s <= MOST_S:
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
        "pagoda_flop": counted.pagoda_flop,
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
