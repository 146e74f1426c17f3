"""Tables that others published, kept in a folder of runs; folders merged into one dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.analytics.data.opening import merge as merge_runs
from mansard.analytics.data.published.doubts import check_possible, doubt_notes
from mansard.analytics.data.published.importing import import_files
from mansard.analytics.data.published.modes import filled_notes
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import write_published
from mansard.analytics.models.roofs.published_rooflines import find_module
from mansard.core.errors import UsageError
from mansard.core.text import is_utf8
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.data.opening import Merged
    from mansard.analytics.data.published.importing import Imported
    from mansard.core.hardware import Module


class TableOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where tables were published, and of what. ``module``: such as agx-orin or p3701-0005."""

    citation: str
    device: str | None = None  # None: the name of the module
    module: str | None = None  # figures are checked against what it can reach
    processor: Literal["cpu", "gpu"] = "gpu"


class ImportedTable(msgspec.Struct, frozen=True):
    """What was read of one kind from one file: rates, runs of networks, or their layers."""

    table: Path
    id: str
    rates: int
    runs: int
    layers: int
    modes: tuple[str, ...]
    not_read: tuple[str, ...]  # columns
    was_there: bool  # imported before, and not written again
    path: Path


def import_tables(
    tables: Sequence[Path],
    origin: TableOrigin,
    *,
    columns: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] | None = None,
    runs: Path = Path("runs"),
    reporter: Reporter = SILENT,
) -> tuple[ImportedTable, ...]:
    """Keep CSV tables of (mode, GFLOP/s, GB/s) or (mode, network, time, power) in ``runs``.

    Also files of trtexec, jetson_stats, zeus, llama-bench and MLPerf, which are told by what they
    hold; one that holds runs and layers comes twice.
    They are labelled published and kept apart from what was measured; ``report`` draws them.
    ``columns``: which column is what (``time_ms=NAME``; no name: none); ``fixed``: what holds
    for all rows. A table that was imported before is not imported again. All are read before one
    is written. Raises UsageError, InputError, StorageError.
    """
    for word in (origin.device or "", origin.citation, *(fixed or {}).values()):
        if not is_utf8(word):
            raise UsageError(f"{word!r} is no text in UTF-8", fix="write it in UTF-8")
    module = find_module(origin.module) if origin.module is not None else None
    source = _origin(origin, module.name if module else None)
    by_table = import_files(tables, source, said=dict(columns or {}), fixed=dict(fixed or {}))
    imported = [
        (table, one) for table, of_table in zip(tables, by_table, strict=True) for one in of_table
    ]
    for table, one in imported:
        check_possible(one, str(table), module)
    for table, one in imported:
        lines = [*one.notes, *doubt_notes(one, module)]
        if one.ignored:
            lines.append(f"not read: {', '.join(one.ignored)}")
        for line in (*lines, *_filled(one, module)):
            reporter.note(f"note: {table}: {line}".replace("\u00a0", " "))
    written = []
    for table, one in imported:
        if not one.rows:
            continue
        path, was_there = write_published(runs, one)
        modes = tuple(dict.fromkeys(row.mode.name for row in one.rows))
        counts = (len(one.rates), len(one.runs), len(one.layers))
        written.append(
            ImportedTable(table, one.table_id, *counts, modes, one.ignored, was_there, path)
        )
    return tuple(written)


def _filled(imported: Imported, module: Module | None) -> list[str]:
    """Notes about settings of named modes; layers are of no mode's table."""
    rows = imported.rates or imported.runs
    return list(filled_notes(rows, module)) if rows else []


def _origin(origin: TableOrigin, module: str | None) -> PublishedOrigin:
    device = origin.device or module
    if not device or not device.strip():
        raise UsageError("the device has no name", fix="say --device NAME, or --module agx-orin")
    if not origin.citation.strip():
        raise UsageError("the citation is empty", fix="say where the table was published")
    citation = origin.citation.strip()
    return PublishedOrigin(device=device.strip(), processor=origin.processor, citation=citation)


def merge(locations: Sequence[str | Path], into: str) -> Merged:
    """Bring runs into one dataset, in a folder or an object store such as s3://bucket/boards.

    ``locations``: folders of runs, or datasets that were merged before. A run that is there
    already is not written again; credentials come from the environment. Raises UsageError where
    ``into`` is a folder of runs, InputError, StorageError.
    """
    return merge_runs(locations, into)
