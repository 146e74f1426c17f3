"""Counters of Nsight Compute: exports kept as published rows, and estimates checked by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.files import entries_in, find_status
from mansard.core.records import Manifest, Measurement, ModelScore
from mansard.core.text import is_utf8

if TYPE_CHECKING:
    from mansard.analytics.counters.by_kernel import CallSum, KernelSum
    from mansard.analytics.counters.check import CheckedNetwork
    from mansard.analytics.counters.settings import Counted


class ExportOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What exports are of, as far as they do not say so. ``compute_capability``: 87 is 8.7.

    ``iterations``: calls of the network in each export, which launch the same kernels.
    """

    citation: str
    device: str
    mode: str = "not said"
    network: str | None = None
    batch: int | None = None
    precision: str | None = None
    phase: Literal["inference", "training"] = "inference"
    iterations: int | None = None
    compute_capability: int | None = None


class ImportedExport(msgspec.Struct, frozen=True):
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


def import_counters(
    exports: Sequence[Path],
    origin: ExportOrigin,
    *,
    runs: Path = Path("runs"),
    reporter: Reporter = SILENT,
) -> tuple[ImportedExport, ...]:
    """Keep exports of Nsight Compute in ``runs``, labelled published.

    The raw page, the details page, a summary by kernel (each as CSV or text), and tables of
    metrics. All are read before one is written. Raises UsageError, InputError, StorageError.
    """
    from mansard.analytics.counters.by_kernel import by_kernel, call_sum
    from mansard.analytics.counters.importing import CounterOrigin
    from mansard.analytics.counters.importing import import_counters as read
    from mansard.analytics.published.store import write_counters

    for word in (origin.device, origin.citation, origin.mode, origin.network or ""):
        if not is_utf8(word):
            raise UsageError(f"{word!r} is no text in UTF-8", fix="write it in UTF-8")
    for name, word in (("device", origin.device), ("citation", origin.citation)):
        if not word.strip():
            raise UsageError(f"the {name} is empty", fix=f"say --{name}")
    own = CounterOrigin(**{name: getattr(origin, name) for name in origin.__struct_fields__})
    found = [(path, read(path, own)) for path in exports]
    written = []
    for path, one in found:
        for line in one.notes:
            reporter.note(f"note: {path}: {line}")
        kept, was_there = write_counters(runs, one.table_id, one.rows)
        written.append(
            ImportedExport(
                export=path,
                id=one.table_id,
                form=one.form,
                launches=sum(row.n_launches for row in one.rows),
                call=call_sum(one.rows),
                kernels=by_kernel(one.rows),
                notes=one.notes,
                was_there=was_there,
                path=kept,
            )
        )
    return tuple(written)


def check_counters(
    runs: Path = Path("runs"),
    *,
    network: str | None = None,
    models: Sequence[Path] = (),
    batch: int | None = None,
    precision: str | None = None,
    cache_bytes: int | None = None,
    reporter: Reporter = SILENT,
) -> tuple[CheckedNetwork, ...]:
    """Hold estimates against the counters in ``runs``: those imported, and those of 'ncu run'.

    ``network``: only this one. ``models``: ONNX files of networks whose scores are not in ``runs``
    and which are not in the zoo; each is for the network of its name, a single one for all.
    ``batch`` and ``precision``: of networks whose counters do not say them.
    ``cache_bytes``: the last-level cache; None: that of the device, where it is known. Raises
    UsageError, InputError, ModelError, StorageError.
    """
    found = _counted(runs)
    if not found:
        raise InputError(
            "holds no counters", where=str(runs), fix="'mansard ncu run' or 'ncu import' makes some"
        )
    wanted = [one for one in found if network is None or one.network == network]
    if not wanted:
        names = sorted({one.network or "(not named)" for one in found})
        raise UsageError(f"no counters are of {network!r}", fix=f"use one of {', '.join(names)}")
    checker = _Checker(runs, models, batch, precision)
    checked = [checker.check(one, cache_bytes) for one in wanted]
    for one, result in zip(wanted, checked, strict=True):
        if result is None:
            reporter.note(f"note: {_without_estimate(one)}: give its ONNX file")
    known = tuple(each for each in checked if each is not None)
    if not known:
        raise UsageError("no network that was counted has an estimate", fix="give its ONNX file")
    return known


def checks_in(
    locations: Sequence[str | Path], reporter: Reporter = SILENT
) -> tuple[CheckedNetwork, ...]:
    """What ``check_counters`` finds in folders of runs, for a page; empty where none counted.

    What cannot be checked is a note and no error.
    """
    found = []
    for folder in (Path(each) for each in locations if "://" not in str(each)):
        try:
            counted = _counted(folder)
            checker = _Checker(folder, (), None, None) if counted else None
        except MansardError as error:
            reporter.note(f"note: counters are not shown: {error}")
            continue
        for one in counted:
            try:
                result = checker.check(one, None) if checker else None
            except MansardError as error:
                reporter.note(f"note: {_without_estimate(one)}: {error}")
                continue
            if result is None:
                reporter.note(f"note: {_without_estimate(one)}; 'mansard ncu check FILE' has it")
            else:
                found.append(result)
    return tuple(found)


def _counted(runs: Path) -> tuple[Counted, ...]:
    """What was imported into ``runs``, and what 'ncu run' counted there."""
    from mansard.analytics.counters.measured import measured_counters
    from mansard.analytics.counters.settings import Counted, by_setting
    from mansard.analytics.published.store import read_counters

    own = (
        Counted(one.kernels, warm=one.run.cache_control == "none")
        for one in measured_counters(runs)
        if one.kernels
    )
    return (*by_setting(read_counters(runs)), *own)


def _without_estimate(one: Counted) -> str:
    return f"{one.network or 'a network without a name'} on {one.rows[0].device} has no estimate"


class _Checker:
    """Holds counted networks against scores: of a given file, as they are in the runs, or of the
    zoo."""

    def __init__(
        self, runs: Path, models: Sequence[Path], batch: int | None, precision: str | None
    ) -> None:
        from mansard.api.scores import find_onnx_files
        from mansard.core.jsonl import read_rows

        self._files, self._batch, self._precision = find_onnx_files(models), batch, precision
        path = runs / "scores.jsonl"
        is_there = find_status(path, runs) is not None
        self._scores = read_rows(path, ModelScore, runs).rows if is_there else ()
        self._timed = _timed_layers(runs)

    def check(self, counted: Counted, cache_bytes: int | None) -> CheckedNetwork | None:
        """None where there is no score; raises ModelError, UsageError, StorageError."""
        from mansard.analytics.counters.check import check_network
        from mansard.analytics.counters.settings import layers_of

        cache = cache_bytes or counted.cache_bytes
        score = self._score(counted, cache)
        if score is None:
            return None
        layers = layers_of(self._timed, score, counted)
        return check_network(score, counted.rows, layers, cache_bytes=cache, warm=counted.warm)

    def _score(self, counted: Counted, cache_bytes: int | None) -> ModelScore | None:
        from mansard.analytics.counters.settings import is_of
        from mansard.estimator import score, zoo

        row = counted.rows[0]
        named = [path for path in self._files if path.stem == row.network]
        source: Path | bytes | None = next(iter(named), None)
        if source is None and len(self._files) == 1:
            source = self._files[0]
        if source is None:
            known = [each for each in self._scores if is_of(each, counted)]
            if known:
                return known[-1]
            if row.network not in zoo.names():
                return None
            source = zoo.read(row.network)
        return score(
            source,
            name=row.network,
            batch=row.batch or self._batch,
            precision=row.precision or self._precision,
            phase=row.phase,
            cache_bytes=cache_bytes,
        )


def _timed_layers(runs: Path) -> list[tuple[str, str, Measurement]]:
    """Device, mode and row of each network whose layers were timed in ``runs``."""
    from mansard.core.documents import read_document
    from mansard.core.jsonl import read_rows

    found = []
    for name, kind in entries_in(runs, runs).items() if runs.is_dir() else ():
        path, manifest = runs / name / "measurements.jsonl", runs / name / "manifest.json"
        if kind == "folder" and all(find_status(each, runs) for each in (path, manifest)):
            run = read_document(manifest, Manifest, runs)
            rows = read_rows(path, Measurement, runs).rows
            mode = run.mode_read_back.name
            found += [(run.machine.name, mode, row) for row in rows if row.layers]
    return found
