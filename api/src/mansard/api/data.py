"""Tables that others published, and datasets of many boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import UsageError

if TYPE_CHECKING:
    from mansard.analytics.data.opening import Merged
    from mansard.analytics.published.importing import Origin


class TableOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where tables were published, and of what. ``module``: such as agx-orin or p3701-0005."""

    citation: str
    device: str | None = None  # None: the name of the module
    module: str | None = None  # figures are checked against what it can reach
    processor: Literal["cpu", "gpu"] = "gpu"


class ImportedTable(msgspec.Struct, frozen=True):
    """One table that was read. ``rates`` and ``runs``: rows of each kind that it holds."""

    table: Path
    id: str
    rates: int
    runs: int
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

    They are labelled published and kept apart from what was measured; ``report`` draws them.
    ``columns``: which column is what (``time_ms=NAME``; no name: none); ``fixed``: what holds
    for all rows. A table that was imported before is not imported again. All are read before one
    is written. Raises UsageError, InputError, StorageError.
    """
    from mansard.analytics.published.importing import import_table
    from mansard.analytics.published.rooflines import find_module, limit_notes
    from mansard.analytics.published.store import write_published

    module = find_module(origin.module) if origin.module is not None else None
    source = _origin(origin, module.name if module else None)
    said, given = dict(columns or {}), dict(fixed or {})
    imported = [import_table(table, source, said=said, fixed=given) for table in tables]
    for table, one in zip(tables, imported, strict=True):
        for line in limit_notes(one, module):
            reporter.note(f"note: {table}: {line}".replace("\u00a0", " "))
        if one.ignored:
            reporter.note(f"note: {table}: not read: {', '.join(one.ignored)}")
    written = []
    for table, one in zip(tables, imported, strict=True):
        path, was_there = write_published(runs, one)
        modes = tuple(dict.fromkeys(row.mode.name for row in one.rows))
        n_rates, n_runs = len(one.rates), len(one.runs)
        written.append(
            ImportedTable(
                table, one.table_id, n_rates, n_runs, modes, tuple(one.ignored), was_there, path
            )
        )
    return tuple(written)


def _origin(origin: TableOrigin, module: str | None) -> Origin:
    from mansard.analytics.published.importing import Origin

    device = origin.device or module
    if not device or not device.strip():
        raise UsageError("the device has no name", fix="say --device NAME, or --module agx-orin")
    if not origin.citation.strip():
        raise UsageError("the citation is empty", fix="say where the table was published")
    citation = origin.citation.strip()
    return Origin(device=device.strip(), processor=origin.processor, citation=citation)


def merge(locations: Sequence[str | Path], into: str) -> Merged:
    """Bring runs into one dataset, in a folder or an object store such as s3://bucket/boards.

    ``locations``: folders of runs, or datasets that were merged before. A run that is there
    already is not written again; credentials come from the environment. Raises UsageError where
    ``into`` is a folder of runs, InputError, StorageError.
    """
    from mansard.analytics.data.opening import merge as merge_runs

    return merge_runs(locations, into)
