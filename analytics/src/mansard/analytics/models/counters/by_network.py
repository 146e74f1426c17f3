"""Counters of networks, from the tables in a folder of runs and from imported rows, by setting.

``mansard models ncu run`` stores a network's table; its rows are computed when they are read.

The bytes that kernels moved, by parts of a network, give the memory demands of its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mansard.analytics.data.ingest import COUNTER_RUNS
from mansard.analytics.data.run_folder import MANIFEST
from mansard.analytics.models.counters.check import check_network
from mansard.analytics.models.counters.importing import ExportOrigin, import_counters, in_calls
from mansard.analytics.models.predict.group_times import CountedBytes, setting_of
from mansard.core.errors import MansardError, UsageError
from mansard.core.formats.ncu import capability_of
from mansard.core.hardware import BOARD_CACHES, MODULES
from mansard.core.records import (
    CounterRun,
    KernelCounters,
    LayerTime,
    Manifest,
    Measurement,
    ModelScore,
)
from mansard.core.storage.documents import read_document
from mansard.core.storage.files import entries_in
from mansard.core.storage.jsonl import read_rows


def counted_bytes(
    counted: Iterable[Counted], scores: Sequence[ModelScore]
) -> tuple[CountedBytes, ...]:
    """Of each network that was counted here and scored in the same setting.

    Of imported counters the engine is not known, and which parts kernels ran follows from scores.
    """
    settings = []
    for one in counted:
        score = next(
            (candidate for candidate in scores if one.rows and is_of(candidate, one)), None
        )
        if one.run is None or score is None:
            continue
        checked = check_network(score, one.rows, calls=one.run.n_calls, is_warm=one.is_warm)
        parts = tuple((part.nodes, part.counted_bytes) for part in checked.parts)
        first = one.rows[0]
        setting = setting_of(one.run, one.run.model_hash, first.device, first.mode)
        settings.append(CountedBytes(setting, one.run.source, parts))
    return tuple(settings)


@dataclass(frozen=True)
class Counted:
    """The kernels of one network in one setting, of all calls. ``notes``: a line each.

    ``run``: what counted them; None of what was imported. Its table may be damaged: no rows then.
    """

    rows: Sequence[KernelCounters]
    run: CounterRun | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_warm(self) -> bool:
        """Whether caches were not emptied before each kernel."""
        return self.run is not None and self.run.cache_control == "none"

    @property
    def cache_bytes(self) -> int | None:
        """The last-level cache of the GPU, by its compute capability and SMs; None: not known."""
        sm, n_sms = self.rows[0].compute_capability, self.rows[0].n_sms
        if sm == 80:
            return BOARD_CACHES["a100"]
        sizes = {m.l2_bytes for m in MODULES.values() if m.sm == sm and m.n_sms == n_sms}
        return sizes.pop() if len(sizes) == 1 else None


def by_setting(rows: Iterable[KernelCounters]) -> tuple[Counted, ...]:
    """Imported rows by export and setting, in the order in which they come."""
    groups: dict[tuple[object, ...], list[KernelCounters]] = {}
    for row in rows:
        key = (row.device, row.mode, row.network, row.batch, row.precision, row.phase)
        groups.setdefault((*key, row.table_id), []).append(row)
    return tuple(Counted(same) for same in groups.values())


def measured_counters(runs: Path) -> tuple[Counted, ...]:
    """All networks that were counted in ``runs``; raises InputError, StorageError."""
    if not runs.is_dir():
        return ()
    folders = [
        runs / name
        for name, kind in entries_in(runs, runs).items()
        if kind == "folder" and {COUNTER_RUNS, MANIFEST} <= entries_in(runs / name, runs).keys()
    ]
    return tuple(counter for folder in folders for counter in counters_of_run(folder))


def counters_of_run(folder: Path) -> tuple[Counted, ...]:
    """The networks that the run in ``folder`` counted; raises InputError, StorageError.

    A table that cannot be read is a note of its network.
    """
    manifest = read_document(folder / MANIFEST, Manifest, folder.parent)
    rows = read_rows(folder / COUNTER_RUNS, CounterRun, folder.parent).rows
    return tuple(_read(folder, row, manifest) for row in rows if row.export is not None)


def _read(folder: Path, run: CounterRun, manifest: Manifest) -> Counted:
    path = folder / (run.export or "")
    origin = ExportOrigin(
        source=run.source,
        table_id=run.run_id,
        device=manifest.machine.name,
        mode=manifest.mode_read_back.name,
        network=run.model,
        model_hash=run.model_hash,
        batch=run.batch,
        precision=run.precision,
        phase=run.phase,
        compute_capability=capability_of(run.chip),
        tool=run.tool,
    )
    try:
        counters = import_counters(path, origin)
    except MansardError as error:
        remedy = f"move {folder} away, and the next 'mansard models ncu run' counts again"
        return Counted((), run, (f"{error.what}: {path}; {remedy}",))
    if any(row.iteration is not None for row in counters.rows):
        return Counted(counters.rows, run, counters.notes)
    try:  # no range names the call
        return Counted(in_calls(counters.rows, run.n_calls, str(path)), run, counters.notes)
    except UsageError:
        note = "the calls launched different kernels: sums are means of all calls"
        return Counted(counters.rows, run, (*counters.notes, note))


def is_of(score: ModelScore, counted: Counted) -> bool:
    """Whether a score is of the network in the setting that was counted."""
    row, run = counted.rows[0], counted.run
    same = row.model_hash == score.model_hash if row.model_hash else row.network == score.model
    return (
        same
        and score.phase == row.phase
        and (row.batch is None or score.batch == row.batch)
        and (row.precision is None or score.precision == row.precision)
        and (run is None or score.dimensions == run.dimensions)
    )


def layers_of(
    measured: Iterable[tuple[str, str, Measurement]], counted: Counted
) -> tuple[LayerTime, ...]:
    """The layers of the newest run that timed the same network in the same setting.

    ``measured``: device, mode and row of each. Of imported counters nothing here was measured.
    """
    run, first = counted.run, counted.rows[0]
    candidates = [
        row
        for device, mode, row in measured
        if run is not None
        and (device, mode) == (first.device, first.mode)
        and all(getattr(row, name) == getattr(run, name) for name in _SETTING)
    ]
    newest = max(candidates, key=lambda row: row.started_utc, default=None)
    return (newest.layers or ()) if newest else ()


_SETTING = (
    "model_hash",
    "batch",
    "precision",
    "phase",
    "dimensions",
    "engine",
    "engine_version",
    "provider",
    "source",
)
