"""One run folder into the tables of a dataset, some rows at a time."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mansard.analytics.data.frames import to_json
from mansard.analytics.data.layout import RunFiles, run_part
from mansard.analytics.data.run_frames import energy_frame, run_frame
from mansard.analytics.data.run_rows import idle_notes, read_samples, read_trials
from mansard.analytics.data.sample_frames import sample_frame
from mansard.analytics.data.sources import shown_folder, stamps_json
from mansard.analytics.data.store import Store
from mansard.analytics.data.trial_frames import repetition_frame, trial_frame
from mansard.core.jsonl import BATCH_BYTES
from mansard.core.records import Manifest


def import_run(
    folder: Path, manifest: Manifest, content: str, store: Store, batch_bytes: int = BATCH_BYTES
) -> pl.DataFrame:
    """Write the rows of a run to ``store``; returns its entry, which the caller writes last.

    So many bytes of text are read at once, and become one file in each table. Rows that cannot
    be are left out, and the entry's notes say so. Raises SchemaError, InputError and
    StorageError as ``ingest`` does.
    """
    stamps, notes = stamps_json(folder), idle_notes(folder, manifest)
    parts = _Parts(manifest.run_id, content, store)
    run = run_frame([manifest], {})
    parts.write("energy", energy_frame([manifest], ()))
    n_trials = n_samples = 0
    for trials in read_trials(folder, manifest, notes, batch_bytes):
        parts.write("trials", trial_frame(trials, run))
        parts.write("repetitions", repetition_frame(trials))
        parts.write("energy", energy_frame((), trials))
        n_trials += len(trials)
    for samples in read_samples(folder, notes, batch_bytes):
        parts.write("samples", sample_frame(manifest.run_id, samples))
        n_samples += len(samples)
    if n_trials < manifest.n_trials:
        notes.append(
            f"{shown_folder(folder)}: {n_trials} of {manifest.n_trials} trials were measured; "
            "run 'mansard bench' again to finish it"
        )
    return run_frame([manifest], {manifest.run_id: n_samples}).select(
        pl.all(),
        pl.lit(to_json(manifest)).alias("manifest_json"),
        pl.lit(n_trials, pl.Int64).alias("n_trials"),
        pl.lit(content).alias("content"),
        pl.lit(shown_folder(folder)).alias("folder"),
        pl.lit(stamps).alias("stamps_json"),
        pl.lit(to_json(RunFiles(**parts.files))).alias("files_json"),
        pl.Series("notes", [notes], dtype=pl.List(pl.String)),
    )


class _Parts:
    """Writes the files of one run and keeps their names and lengths."""

    def __init__(self, run_id: str, content: str, store: Store) -> None:
        self.files: dict[str, dict[str, int]] = {}
        self._run_id, self._content, self._store = run_id, content, store

    def write(self, table: str, frame: pl.DataFrame) -> None:
        if frame.is_empty():
            return
        own = self.files.setdefault(table, {})
        name = run_part(table, self._run_id, self._content, len(own))
        self._store.write(name, frame)
        own[name] = self._store.size(name)
