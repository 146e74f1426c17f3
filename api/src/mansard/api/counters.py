"""Counters of Nsight Compute: exports kept as published rows, and estimates checked by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.data.published.store import read_counters, write_counters
from mansard.analytics.models.counters.by_kernel import CallSum, KernelSum, by_kernel, call_sum
from mansard.analytics.models.counters.by_network import (
    Counted,
    by_setting,
    counted_bytes,
    counters_of_run,
    is_of,
    layers_of,
    measured_counters,
)
from mansard.analytics.models.counters.check import CheckedNetwork, check_network
from mansard.analytics.models.counters.importing import (
    ExportOrigin,
    ImportedCounters,
    check_counts,
    counters_in,
    is_report,
    notes_on_unknown,
)
from mansard.analytics.models.counters.importing import import_counters as read
from mansard.api.inputs import Networks, as_list
from mansard.api.result import Result
from mansard.core.errors import InputError, MansardError, MeasurementError, UsageError
from mansard.core.formats.ncu import EXPORT_COMMAND
from mansard.core.formats.onnx import find_model_files, model_name
from mansard.core.records import CounterRun, Manifest, Measurement, ModelScore
from mansard.core.storage.documents import read_document
from mansard.core.storage.files import entries_in, find_status
from mansard.core.storage.jsonl import read_rows
from mansard.core.text import is_utf8, listed
from mansard.estimator import score, zoo
from mansard.inference.counters.ncu import find_ncu, raw_page
from mansard.inference.counters.trial import COUNTERS
from mansard.sweeps.counters import CountRequest, sweep_counters
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.rows import rows_of

if TYPE_CHECKING:
    from mansard.analytics.models.predict.group_times import CountedBytes


class ImportedExport(Result, frozen=True):
    """One export that was read: its launches, and its kernels by their share of the time."""

    export: Path
    id: str
    form: str  # which page of Nsight Compute it is
    launches: int
    call: CallSum  # of all kernels, for one call of the network
    kernels: tuple[KernelSum, ...]
    notes: tuple[str, ...]
    was_there: bool  # imported before, and not written again
    path: Path


class CountedNetwork(Result, frozen=True):
    """A network in one mode: its row, where its table is, and its kernels by their share of time.

    ``launches``: of all calls. ``notes``: on what the table lacks.
    """

    mode: str
    row: CounterRun
    table: Path | None
    launches: int
    call: CallSum | None  # of all kernels, for one call
    kernels: tuple[KernelSum, ...]
    notes: tuple[str, ...]


class CountResult(Result, frozen=True):
    """What was counted, now or before, and what could not be."""

    rows: tuple[CountedNetwork, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one, or name the networks that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [network.row for network in self.rows if network.row.failure is not None]
        if failed:
            names = listed(list(dict.fromkeys(row.model for row in failed)))
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} networks could not be counted: {names}",
                fix="the remarks above say why; the same command tries them again",
            )


def count_networks(request: CountRequest, reporter: Reporter = SILENT) -> CountResult:
    """Run networks under Nsight Compute in each mode, and keep its tables in ``request.runs``.

    It runs on this machine and not in a container: counters need rights that no measuring
    container is given. What was counted before is not counted again. Raises UsageError,
    DeniedError where this user may not read counters, and what keeps a board from being measured.
    """
    swept = sweep_counters(request, reporter)
    rows = [row for run_id in swept.run_ids for row in _counted_networks(request.runs, run_id)]
    return CountResult(tuple(rows), swept.failure)


def _counted_networks(runs: Path, run_id: str) -> list[CountedNetwork]:
    """What the run of a mode holds; a table that cannot be read is a note."""
    tables = {table.run.trial_id: table for table in counters_of_run(runs / run_id) if table.run}
    counted = []
    for manifest, row in rows_of(runs, [run_id], COUNTERS):
        mode, table = manifest.mode_read_back.name, tables.get(row.trial_id)
        if table is None or row.export is None or not table.rows:
            notes = table.notes if table else ()
            counted.append(CountedNetwork(mode, row, None, 0, None, (), notes))
            continue
        n_launches = sum(kernel.n_launches for kernel in table.rows)
        call, sums = call_sum(table.rows, row.n_calls), by_kernel(table.rows, row.n_calls)
        path = runs / run_id / row.export
        counted.append(CountedNetwork(mode, row, path, n_launches, call, sums, table.notes))
    return counted


def import_counters(
    exports: Sequence[Path],
    origin: ExportOrigin,
    *,
    runs: Path = Path("runs"),
    ncu: Path | None = None,
    reporter: Reporter = SILENT,
) -> tuple[ImportedExport, ...]:
    """Keep exports of Nsight Compute in ``runs``, labelled published.

    The raw page, the details page, a summary by kernel (each as CSV or text), tables of metrics,
    and reports (``.ncu-rep``), which are read by ``ncu``, by default the one that 'ncu run' finds.
    All are read before one is written. Raises UsageError, StorageError, and InputError, also where
    an export has neither FLOP nor bytes of any launch.
    """
    citation = origin.citation or ""
    for word in (origin.device, citation, origin.mode, origin.network or ""):
        if not is_utf8(word):
            raise UsageError(f"{word!r} is not text in UTF-8", fix="write it in UTF-8")
    for name, word in (("device", origin.device), ("citation", citation)):
        if not word.strip():
            raise UsageError(f"the {name} is empty", fix=f"say --{name}")
    tables = [(path, _read_export(path, origin, ncu)) for path in exports]
    for path, one in tables:
        check_counts(one, origin, str(path))
    written = []
    for path, one in tables:
        notes = (*one.notes, *notes_on_unknown(one.rows))
        for line in notes:
            reporter.note(f"note: {path}: {line}")
        copy, was_there = write_counters(runs, one.table_id, one.rows)
        written.append(
            ImportedExport(
                export=path,
                id=one.table_id,
                form=one.form,
                launches=sum(row.n_launches for row in one.rows),
                call=call_sum(one.rows),
                kernels=by_kernel(one.rows),
                notes=notes,
                was_there=was_there,
                path=copy,
            )
        )
    return tuple(written)


def _read_export(path: Path, origin: ExportOrigin, ncu: Path | None) -> ImportedCounters:
    """Read an export, or what ``ncu`` makes of a report."""
    if not is_report(path):
        return read(path, origin)
    try:
        program = find_ncu(ncu)
    except UsageError as error:
        if ncu is not None:
            raise
        raise InputError(
            f"is a report, which its own program reads, and {error.what}",
            where=str(path),
            fix=f"{EXPORT_COMMAND} > export.csv where it is, or name it here with --ncu",
        ) from error
    return counters_in(ToolFile(str(path), raw_page(program, path)), origin)


def check_counters(
    runs: Path = Path("runs"),
    *,
    network: str | None = None,
    models: Networks = (),
    batch: int | None = None,
    precision: str | None = None,
    cache_bytes: int | None = None,
    reporter: Reporter = SILENT,
) -> tuple[CheckedNetwork, ...]:
    """Hold estimates against the counters in ``runs``: those imported, and those of 'ncu run'.

    ``network``: only this one. ``models``: ONNX files, each for the network of its name; a single
    one is for ``network``, or for the only network that has neither a score in ``runs`` nor a file
    in the zoo. ``batch`` and ``precision``: of networks whose counters do not say them.
    ``cache_bytes``: the last-level cache; None: that of the device, where it is known. Raises
    UsageError, InputError, ModelError, StorageError.
    """
    counted = _counted(runs, reporter)
    if not counted:
        raise InputError(
            "holds no counters",
            where=str(runs),
            fix="'mansard models ncu run' or 'ncu import' makes some",
        )
    wanted = [one for one in counted if network is None or one.rows[0].network == network]
    if not wanted:
        names = sorted({one.rows[0].network or "(not named)" for one in counted})
        raise UsageError(
            f"there are no counters of {network!r}", fix=f"use one of {', '.join(names)}"
        )
    files = {model_name(path): path for path in find_model_files(list(map(Path, as_list(models))))}
    only = next(iter(files.values())) if len(files) == 1 else None
    checker = _Checker(runs, files, batch, precision, cache_bytes)
    checked = [checker.check(one, only if network else None) for one in wanted]
    left = [at for at, check in enumerate(checked) if check is None]
    if only is not None and len({wanted[at].rows[0].network for at in left}) == 1:
        for at in left:
            checked[at] = checker.check(wanted[at], only)
    for one, result in zip(wanted, checked, strict=True):
        if result is None:
            reporter.note(f"note: {_without_estimate(one)}: give its ONNX file")
    known = tuple(check for check in checked if check is not None)
    if not known:
        raise UsageError("no network that was counted has an estimate", fix="give its ONNX file")
    return known


def checks_in(
    locations: Sequence[str | Path], reporter: Reporter = SILENT
) -> tuple[CheckedNetwork, ...]:
    """What ``check_counters`` finds in folders of runs, for a page; empty where none counted.

    What cannot be checked is a note and no error.
    """
    checks = []
    for folder in (Path(location) for location in locations if "://" not in str(location)):
        try:
            counted = _counted(folder, reporter)
            checker = _Checker(folder) if counted else None
        except MansardError as error:
            reporter.note(f"note: counters are not shown: {error}")
            continue
        for one in counted:
            try:
                result = checker.check(one) if checker else None
            except MansardError as error:
                reporter.note(f"note: {_without_estimate(one)}: {error}")
                continue
            if result is None:
                reporter.note(
                    f"note: {_without_estimate(one)}; 'mansard models ncu check FILE' has it"
                )
            else:
                checks.append(result)
    return tuple(checks)


def group_bytes_in(
    locations: Sequence[str | Path], scores: Sequence[ModelScore]
) -> tuple[CountedBytes, ...]:
    """What 'ncu run' counted in folders of runs, by parts of networks with ``scores``.

    A folder that cannot be read has none: ``checks_in`` says why.
    """
    parts: list[CountedBytes] = []
    for folder in (Path(location) for location in locations if "://" not in str(location)):
        with suppress(MansardError):
            parts += counted_bytes(measured_counters(folder), scores)
    return tuple(parts)


def _counted(runs: Path, reporter: Reporter) -> tuple[Counted, ...]:
    """What was imported into ``runs``, and what 'ncu run' counted there, with its notes."""
    measured = measured_counters(runs)
    for one in measured:
        for line in one.notes:
            reporter.note(f"note: {one.run.model if one.run else ''}: {line}")
    return (*by_setting(read_counters(runs)), *(one for one in measured if one.rows))


def _without_estimate(one: Counted) -> str:
    row = one.rows[0]
    return f"{row.network or 'a network without a name'} on {row.device} has no estimate"


class _Checker:
    """Holds counted networks against scores: of a given file, as they are in the runs, or of the
    zoo. ``files``: by the name of the network."""

    def __init__(
        self,
        runs: Path,
        files: Mapping[str, Path] = MappingProxyType({}),
        batch: int | None = None,
        precision: str | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        self._files, self._batch, self._precision = files, batch, precision
        self._cache_bytes = cache_bytes
        path = runs / "scores.jsonl"
        is_there = find_status(path, runs) is not None
        self._scores = read_rows(path, ModelScore, runs).rows if is_there else ()
        self._timed = _timed_layers(runs)

    def check(self, counted: Counted, model: Path | None = None) -> CheckedNetwork | None:
        """None where there is no score; raises ModelError, UsageError, StorageError.

        ``model``: the network's file, whatever it is called.
        """
        score = self._score(counted, model)
        if score is None:
            return None
        return check_network(
            score,
            counted.rows,
            layers_of(self._timed, counted),
            calls=counted.run.n_calls if counted.run else None,
            cache_bytes=counted.cache_bytes if self._cache_bytes is None else self._cache_bytes,
            is_warm=counted.is_warm,
        )

    def _score(self, counted: Counted, model: Path | None) -> ModelScore | None:
        row, run = counted.rows[0], counted.run
        path = model or self._files.get(row.network or "")
        if path is None:
            known = self._known(counted)
            if known is not None or row.network not in zoo.names():
                return known
        estimate = score(
            path or zoo.read(row.network or ""),
            name=row.network,
            batch=row.batch or self._batch,
            dims=run.dimensions if run else None,
            precision=row.precision or self._precision,
            phase=row.phase,
        )
        if row.model_hash in (None, estimate.model_hash):
            return estimate
        if path is None:
            return None
        raise UsageError(
            f"{path} is not the network that was counted as {row.network}",
            fix="give the file that was counted",
        )

    def _known(self, counted: Counted) -> ModelScore | None:
        """The newest score of the setting; raises UsageError where there are several settings."""
        row = counted.rows[0]
        scores = {
            (score.batch, score.precision, *sorted(score.dimensions.items())): score
            for score in self._scores
            if is_of(score, counted)
            and (row.batch is not None or self._batch in (None, score.batch))
            and (row.precision is not None or self._precision in (None, score.precision))
        }
        if len(scores) > 1:
            settings = "; ".join(f"batch {score[0]} in {score[1]}" for score in scores)
            raise UsageError(
                f"the counters of {row.network} do not say which score they are of: {settings}",
                fix="say --batch and --precision",
            )
        return next(iter(scores.values()), None)


def _timed_layers(runs: Path) -> list[tuple[str, str, Measurement]]:
    """Device, mode and row of each network whose layers were timed in ``runs``."""
    timed = []
    for name, kind in entries_in(runs, runs).items() if runs.is_dir() else ():
        path, manifest = runs / name / "measurements.jsonl", runs / name / "manifest.json"
        if kind == "folder" and all(find_status(file, runs) for file in (path, manifest)):
            run = read_document(manifest, Manifest, runs)
            rows = read_rows(path, Measurement, runs).rows
            mode = run.mode_read_back.name
            timed += [(run.machine.name, mode, row) for row in rows if row.layers]
    return timed
