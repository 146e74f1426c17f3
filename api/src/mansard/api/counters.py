"""Counters of Nsight Compute: exports kept as published rows, and estimates checked by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import InputError, UsageError
from mansard.core.files import entries_in, find_status
from mansard.core.records import Manifest, Measurement, ModelScore
from mansard.core.text import is_utf8

if TYPE_CHECKING:
    from mansard.analytics.counters.by_kernel import KernelSum
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

    The raw page, the details page, a summary by kernel (each as CSV or text), tables of metrics,
    and the sum by kernel of nsys. All are read before one is written. Raises UsageError,
    InputError, StorageError.
    """
    from mansard.analytics.counters.by_kernel import by_kernel
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
        n_launches = sum(row.n_launches for row in one.rows)
        sums = by_kernel(one.rows)
        written.append(
            ImportedExport(
                path, one.table_id, one.form, n_launches, sums, one.notes, was_there, kept
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
    from mansard.analytics.counters.check import check_network
    from mansard.analytics.counters.settings import by_setting, layers_of
    from mansard.analytics.published.store import read_counters

    found = by_setting(read_counters(runs))
    if not found:
        raise InputError(
            "holds no counters", where=str(runs), fix="'mansard ncu run' or 'ncu import' makes some"
        )
    wanted = [one for one in found if network is None or one.network == network]
    if not wanted:
        names = sorted({one.network or "(not named)" for one in found})
        raise UsageError(f"no counters are of {network!r}", fix=f"use one of {', '.join(names)}")
    files, timed = _Models(runs, models, batch, precision), _timed_layers(runs)
    checked = []
    for one in wanted:
        cache = cache_bytes or one.cache_bytes
        score = files.score_of(one, cache)
        if score is None:
            reporter.note(
                f"note: {one.network or 'a network without a name'} on {one.rows[0].device} has no "
                f"estimate: give its ONNX file"
            )
            continue
        layers = layers_of(timed, score, one)
        checked.append(check_network(score, one.rows, layers, cache_bytes=cache, warm=one.warm))
    if not checked:
        raise UsageError("no network that was counted has an estimate", fix="give its ONNX file")
    return tuple(checked)


class _Models:
    """Scores of counted networks: of a given file, as they are in the runs, or of the zoo."""

    def __init__(
        self, runs: Path, models: Sequence[Path], batch: int | None, precision: str | None
    ) -> None:
        from mansard.api.scores import find_onnx_files
        from mansard.core.jsonl import read_rows

        self._files, self._batch, self._precision = find_onnx_files(models), batch, precision
        path = runs / "scores.jsonl"
        is_there = find_status(path, runs) is not None
        self._scores = read_rows(path, ModelScore, runs).rows if is_there else ()

    def score_of(self, counted: Counted, cache_bytes: int | None) -> ModelScore | None:
        """None where there is nothing to score."""
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
