"""Folders of runs: the report, comparisons, tables that others published, merged datasets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.boards import find_modes, require_own
from mansard.core.errors import UsageError
from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.core.text import is_utf8
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.data.opening import Merged
    from mansard.analytics.data.published.importing import Imported
    from mansard.analytics.data.published.origin import PublishedOrigin
    from mansard.analytics.decisions.compare import Comparison, Side
    from mansard.analytics.pages.report.opening import NextStep
    from mansard.analytics.pages.report.summary import Summary
    from mansard.core.hardware import Module


class Report(msgspec.Struct, frozen=True):
    """A report that was written. ``run_ids``: the runs that it was made for; None: all of it."""

    path: Path
    summary: Summary
    run_ids: frozenset[str] | None
    next_step: NextStep


def report(
    locations: Sequence[str],
    output: Path | None = None,
    *,
    mix: bool = False,
    run_ids: Collection[str] | None = None,
    modes: str | None = None,
    board: Path | None = None,
    reporter: Reporter = SILENT,
) -> Report:
    """Join what folders of runs hold, and write the report to ``output``; measures nothing.

    ``locations``: folders of runs, or merged datasets (folders or URLs). ``output``: report.html
    in the first of them by default, in the present folder for a URL; that may not be a link, as
    nothing in a folder of runs may. ``mix``: take together
    runs of one device by different versions, and boards that are alike. ``run_ids``: those of a
    bench; of its devices, runs that do not go with the newest are left out instead of refused.
    ``modes``: what to predict beside the modes that were measured, as ``find_modes`` takes it.
    Raises InputError, UsageError, StorageError.
    """
    from mansard.analytics.pages.report import scripts

    scripts.begin()  # beside all that follows, imports among it
    from mansard.analytics.data.names import device_labels, device_machines
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.decisions.offload.files import answers_in
    from mansard.analytics.pages.report.opening import next_step
    from mansard.analytics.pages.report.summary import summary, warnings
    from mansard.analytics.pages.report.write import write_report
    from mansard.analytics.pages.results import compute
    from mansard.api.counters import checks_in, group_bytes_in
    from mansard.api.measurements import contention_of

    dataset = open_runs(locations, mix=mix, newest_only=run_ids is not None)
    for line in dataset.notes:
        reporter.note(f"note: {line}")
    devices = dict.fromkeys(device_labels(dataset.all_manifests).values())
    wanted = []
    if modes is not None:
        own = require_own(tuple(devices), board, device_machines(dataset.all_manifests))
        wanted = [find_modes(modes, board, device).modes for device in own]
    results = compute(dataset, wanted, group_bytes_in(locations, dataset.scores))
    first = Path() if "://" in locations[0] else Path(locations[0])
    path, within = (first / "report.html", first) if output is None else (output, None)
    answers = answers_in(locations)
    checked = checks_in(locations, reporter)
    beside = contention_of(dataset)
    write_report(
        dataset, path, results, within=within, answers=answers, checked=checked, contended=beside
    )
    found = summary(dataset, results)
    for line in warnings(results):
        reporter.note(f"warning: {line}")
    for line in found.notes[len(dataset.notes) :]:
        reporter.note(f"note: {line}")
    of_runs = None if run_ids is None else frozenset(run_ids)
    return Report(path, found, of_runs, next_step(results))


class Compared(msgspec.Struct, frozen=True):
    """The comparison of each pair of runs, and the labels of those that have no partner."""

    comparisons: tuple[Comparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def compare(
    first: Path,
    second: Path,
    *,
    mode: str | None = None,
    other_mode: str | None = None,
    threshold: float = 0.01,
    mix: bool = False,
) -> Compared:
    """Hold two folders of runs against each other: ceilings, costs and measured networks.

    ``first`` and ``second``: folders of runs, or single runs in them; the same one with another
    mode. ``mode``: only this mode of the first; ``other_mode``: of the second, the same by
    default. ``threshold``: the share that a quantity has to differ by to count. ``mix``: take runs
    of different versions together. Each ratio has its 95 % interval and a test, corrected for
    their number. Runs pair by processor and mode; one run on each side
    is a pair whatever its mode. Raises InputError, UsageError, StorageError.
    """
    from mansard.analytics.decisions.compare import compare as compare_sides
    from mansard.analytics.decisions.compare import pair_runs

    names = ("", "") if first.resolve() == second.resolve() else (f"{first}: ", f"{second}: ")
    ours = _sides(first, names[0], mode, mix=mix)
    theirs = _sides(second, names[1], other_mode or mode, mix=mix)
    pairs, only_first, only_second = pair_runs(ours, theirs)
    found = tuple(compare_sides(*pair, threshold) for pair in pairs)
    return Compared(found, tuple(only_first), tuple(only_second))


def _sides(runs: Path, name: str, mode: str | None, *, mix: bool) -> tuple[Side, ...]:
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.decisions.compare import sides_of

    manifest = runs / "manifest.json"
    if not manifest.is_file():
        return sides_of(open_runs([runs], mix=mix), name=name, mode=mode)
    run_id = read_document(manifest, Manifest).run_id
    return sides_of(open_runs([runs.resolve().parent], mix=mix), name=name, run_id=run_id)


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
    from mansard.analytics.data.published.doubts import check_possible, doubt_notes
    from mansard.analytics.data.published.importing import import_files
    from mansard.analytics.data.published.store import write_published
    from mansard.analytics.models.roofs.published_rooflines import find_module

    for word in (origin.device or "", origin.citation, *(fixed or {}).values()):
        if not is_utf8(word):
            raise UsageError(f"{word!r} is no text in UTF-8", fix="write it in UTF-8")
    module = find_module(origin.module) if origin.module is not None else None
    source = _origin(origin, module.name if module else None)
    found = import_files(tables, source, said=dict(columns or {}), fixed=dict(fixed or {}))
    imported = [(table, one) for table, each in zip(tables, found, strict=True) for one in each]
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
    from mansard.analytics.data.published.modes import filled_notes

    rows = imported.rates or imported.runs
    return list(filled_notes(rows, module)) if rows else []


def _origin(origin: TableOrigin, module: str | None) -> PublishedOrigin:
    from mansard.analytics.data.published.origin import PublishedOrigin

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
    from mansard.analytics.data.opening import merge as merge_runs

    return merge_runs(locations, into)
