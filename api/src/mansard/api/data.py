"""Folders of runs: published tables in them, merged, and compared with others and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.analytics.data.accuracies import NetworkAccuracy, network_accuracies
from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.opening import Merged, open_runs
from mansard.analytics.data.opening import merge as merge_runs
from mansard.analytics.data.published.doubts import check_possible, doubt_notes
from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.data.published.importing import Imported, import_files
from mansard.analytics.data.published.modes import filled_notes
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import write_published
from mansard.analytics.decisions.comparing.baseline import (
    read_baseline,
    why_empty,
    write_baseline,
)
from mansard.analytics.decisions.comparing.checks import (
    CheckedPair,
    CheckResult,
    Verdict,
    parse_checks,
    run_checks,
    verdict_of,
)
from mansard.analytics.decisions.comparing.comparison import Change, Comparison
from mansard.analytics.decisions.comparing.comparison import compare as compare_sides
from mansard.analytics.decisions.comparing.gathering import sides_of
from mansard.analytics.decisions.comparing.pairing import pair_quantities
from mansard.analytics.decisions.comparing.sides import Side, pair_runs
from mansard.analytics.models.contention import FitLine, VictimContention
from mansard.analytics.models.contention import measured_contention as find
from mansard.analytics.models.predict.group_times import GroupTimes, group_times
from mansard.analytics.models.predict.measured import measured_networks
from mansard.analytics.models.predict.memory_use import MemoryTraffic, memory_traffic
from mansard.analytics.models.predict.parts import PartSum, PartTimes, measured_parts, part_sums
from mansard.analytics.models.predict.prediction import NetworkSelection, predict
from mansard.analytics.models.predict.row_times import NetworkTimes
from mansard.analytics.models.roofs.published_rooflines import find_module
from mansard.analytics.models.scaling.observations import network_measurements
from mansard.api.counters import group_bytes_in
from mansard.api.inputs import Runs, as_list
from mansard.api.result import Result
from mansard.core.errors import MansardError, UsageError
from mansard.core.records import Manifest, with_known
from mansard.core.storage.documents import read_document
from mansard.core.text import is_utf8
from mansard.scheduler.contention import curve, fit_pccs
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.core.hardware import Module


class Compared(Result, frozen=True):
    """The comparison of each pair of sides, and the labels of those that have no partner.

    ``verdict``: of all ``checks``: "worse" if one is, else "unknown" if one is, else "within".
    ``unsaved``: why no baseline was written although one was asked for; else empty. ``left_out``:
    what a written baseline has no value of, and why.
    """

    comparisons: tuple[Comparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    checks: tuple[CheckResult, ...] = ()
    verdict: Verdict | Literal["unchecked"] = "unchecked"
    unsaved: str = ""
    left_out: tuple[str, ...] = ()

    def records(self) -> Sequence[Change]:
        """What was compared, of all comparisons."""
        return [change for one in self.comparisons for change in one.changes]


def compare(  # noqa: PLR0913 - one keyword for each thing a user can state
    first: Path,
    second: Path | None = None,
    *,
    mode: str | None = None,
    other_mode: str | None = None,
    label: str | None = None,
    other_label: str | None = None,
    threshold: float = 0.01,
    allow_mixed: bool = False,
    layers: bool = False,
    checks: Sequence[str] = (),
    save: Path | None = None,
) -> Compared:
    """Compare two folders of runs: kernels, networks, programs and servers.

    ``first`` and ``second``: folders of runs, single runs in them, or baseline files; also the same
    one with another mode or label. ``mode``: only this mode of the first; ``other_mode``: of the
    second, the same by default; ``label`` and ``other_label`` likewise. ``threshold``: the share
    that a quantity has to differ by to count. ``allow_mixed``: combine runs of different versions.
    ``layers``: compare the layers of networks too. ``checks``: allowed changes, such as "p50 +5%",
    "rate -3%" or "default". ``save``: a file for the second side, or the only one, as a baseline;
    it is not written if no value is usable, which raises InputError for an only side.
    Each ratio has its 95 % interval and a test that is corrected for the number of tests. Runs pair
    by processor and mode; one side each is a pair whatever its mode. Raises InputError, UsageError,
    StorageError.

    >>> import mansard as m
    >>> compared = m.compare("runs", mode="1c", second="runs", other_mode="2c")
    >>> changes = compared.to_frame()
    >>> changes.select("quantity", "ratio", "is_significant").row(0)
    ('fp32 peak', 2.0, True)
    """
    parsed = parse_checks(checks)
    with_layers = layers or any(check.kind == "layer" for check in parsed)
    if second is None:
        if save is None or parsed:
            raise UsageError("only one side is given", fix="give a second one, or --save FILE")
        only = _sides(first, "", mode, label, allow_mixed=allow_mixed, with_layers=with_layers)
        write_baseline(save, only)
        return Compared((), (), (), left_out=_left_out(only))
    names = ("", "") if first.resolve() == second.resolve() else (f"{first}: ", f"{second}: ")
    ours = _sides(first, names[0], mode, label, allow_mixed=allow_mixed, with_layers=with_layers)
    theirs = _sides(
        second,
        names[1],
        other_mode or mode,
        other_label or label,
        allow_mixed=allow_mixed,
        with_layers=with_layers,
    )
    pairs, only_first, only_second = pair_runs(ours, theirs)
    checked = [CheckedPair(*pair, pair_quantities(*pair)) for pair in pairs]
    comparisons = tuple(compare_sides(*pair[:2], threshold, pair.paired) for pair in checked)
    results = run_checks(parsed, checked, only_first, only_second)
    unsaved = "" if save is None else why_empty(theirs)
    if save is not None and not unsaved:
        write_baseline(save, theirs)
    return Compared(
        comparisons,
        only_first,
        only_second,
        results,
        verdict_of(results),
        unsaved,
        () if save is None or unsaved else _left_out(theirs),
    )


def _left_out(sides: Sequence[Side]) -> tuple[str, ...]:
    """What was run on ``sides`` and is in no baseline of them, because no run of it counts."""
    return tuple(
        dict.fromkeys(
            f"{one.name}: {one.why}" for side in sides for one in side.unusable if one.n_disturbed
        )
    )


def _sides(
    runs: Path,
    name: str,
    mode: str | None,
    label: str | None,
    *,
    allow_mixed: bool,
    with_layers: bool,
) -> tuple[Side, ...]:
    if runs.is_file():
        return read_baseline(runs, name=name, mode=mode, build=label)
    manifest = runs / "manifest.json"
    if not manifest.is_file():
        dataset = open_runs([runs], allow_mixed=allow_mixed)
        return sides_of(dataset, name=name, mode=mode, build=label, with_layers=with_layers)
    run_id = read_document(manifest, Manifest).run_id
    dataset = open_runs([runs.resolve().parent], allow_mixed=allow_mixed)
    return sides_of(dataset, name=name, build=label, run_id=run_id, with_layers=with_layers)


def measured_contention(runs: Runs, *, newest_only: bool = False) -> tuple[VictimContention, ...]:
    """What folders of runs know of contention, by machine, mode and accelerator, with its fit.

    ``newest_only``: leave out what does not go with the newest run of a device instead of refusing
    it. Raises InputError, StorageError.
    """
    return contention_of(open_runs(as_list(runs), newest_only=newest_only))


def contention_of(dataset: Dataset) -> tuple[VictimContention, ...]:
    """What a dataset knows of contention, with its fits."""
    return tuple(map(_with_fit, find(dataset)))


def _with_fit(victim: VictimContention) -> VictimContention:
    import numpy as np

    if victim.surface is None:
        return victim
    fit = fit_pccs(victim.surface)
    most = victim.surface.external_byte_per_s[-1]
    lines = []
    for demand in victim.surface.own_byte_per_s:
        external, speed = curve(fit, demand)
        ends = [*(x for x in external if x < most), most]
        speeds = np.interp(ends, external, speed).tolist()
        lines.append(FitLine(own_byte_per_s=demand, external_byte_per_s=(*ends,), speed=(*speeds,)))
    return with_known(victim, fit=fit, fit_lines=tuple(lines))


def beside_predictions(
    runs: Path, run_ids: frozenset[str], reporter: Reporter
) -> tuple[tuple[NetworkTimes, ...], tuple[NetworkAccuracy, ...], tuple[MemoryTraffic, ...]]:
    """What these runs measured beside what the folder's other runs predict of it, and the use of
    the memory."""
    try:
        dataset = open_runs([runs], newest_only=True).with_operators()
        rows = [row for row in network_measurements(dataset) if row.run_id in run_ids]
        wanted = [NetworkSelection(name=name) for name in dict.fromkeys(row.model for row in rows)]
        times = measured_networks(dataset, predict(dataset, wanted).predictions)
        memory = memory_traffic(dataset)
    except MansardError as error:
        reporter.note(f"note: what was measured is kept, but not compared: {error}")
        return (), (), ()
    return (
        tuple(network for network in times if not run_ids.isdisjoint(network.run_ids)),
        tuple(row for row in network_accuracies(dataset, run_ids) if row.run_id in run_ids),
        tuple(row for row in memory if row.run_id in run_ids),
    )


def beside_whole_networks(
    runs: Path, run_ids: frozenset[str], reporter: Reporter
) -> tuple[tuple[PartTimes, ...], tuple[PartSum, ...], tuple[GroupTimes, ...]]:
    """The parts of these runs, their sums beside whole networks that the folder holds, groups."""
    try:
        dataset = open_runs([runs], newest_only=True)
        parts = [part for part in measured_parts(dataset) if part.run_id in run_ids]
        counted = group_bytes_in([runs], dataset.scores)
        return tuple(parts), part_sums(dataset, run_ids), group_times(dataset, run_ids, counted)
    except MansardError as error:
        reporter.note(f"note: what was measured is kept, but not compared: {error}")
        return (), (), ()


class TableOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where tables were published, and of what. ``module``: such as agx-orin or p3701-0005."""

    citation: str = ""
    device: str | None = None  # None: the name of the module
    module: str | None = None  # figures are checked against what it can reach
    processor: Literal["cpu", "gpu"] = "gpu"


class ImportedTable(Result, frozen=True):
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
    hardware: str | None = None,
    runs: Path = Path("runs"),
    reporter: Reporter = SILENT,
) -> tuple[ImportedTable, ...]:
    """Keep CSV tables of (mode, GFLOP/s, GB/s) or (mode, network, time, power) in ``runs``.

    Also files of trtexec, jetson_stats, zeus, llama-bench and MLPerf, which are told by what they
    hold; one that holds runs and layers comes twice.
    They are labelled published and kept apart from what was measured; ``report`` draws them.
    ``columns``: which column is what (``time_ms=NAME``; no name: none); ``fixed``: what holds
    for all rows. ``hardware``: a board whose own limits are kept too, by the clocks of its modes. A
    table that was imported before is not imported again. All are read before one is written. Raises
    UsageError, InputError, StorageError.
    """
    of_hardware = [] if hardware is None else [(Path(hardware), hardware_rates(hardware))]
    if not tables and of_hardware:
        return tuple(_keep(table, one, runs) for table, one in of_hardware)
    for word in (origin.device or "", origin.citation, *(fixed or {}).values()):
        if not is_utf8(word):
            raise UsageError(f"{word!r} is not text in UTF-8", fix="write it in UTF-8")
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
    return tuple(_keep(table, one, runs) for table, one in (*imported, *of_hardware) if one.rows)


def _keep(table: Path, imported: Imported, runs: Path) -> ImportedTable:
    path, was_there = write_published(runs, imported)
    modes = tuple(dict.fromkeys(row.mode.name for row in imported.rows))
    counts = (len(imported.rates), len(imported.runs), len(imported.layers))
    return ImportedTable(
        table, imported.table_id, *counts, modes, imported.ignored, was_there, path
    )


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


def merge(runs: Runs, into: str) -> Merged:
    """Bring runs into one dataset, in a folder or an object store such as s3://bucket/boards.

    ``runs``: folders of runs, or merged datasets. Runs that the dataset has are not written again;
    credentials come from the environment. Returns how many runs were new. Raises UsageError if
    ``into`` is a folder of runs, InputError, StorageError.

    >>> import mansard as m
    >>> m.merge(["runs", "published"], "merged")
    Merged(place='merged', n_new=2, n_grown=0, n_same=0)
    """
    return merge_runs(as_list(runs), into)
