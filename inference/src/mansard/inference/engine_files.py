"""Built engine files in the folder of runs, looked up by name, which contains their key.

An engine file, the caches of its build and then its row are stored before the row goes into the
run's folder. So a run that was killed in between is completed by the next one without a build.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from mansard.core.errors import SchemaError, StorageError
from mansard.core.records import ENGINES_FOLDER, EngineBuild
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.files import (
    entries_in,
    find_status,
    make_folder,
    open_file,
    replacing,
    storage_errors,
)
from mansard.inference.builds import CACHES, caches_name, is_as_built, row_name
from mansard.inference.plan import BuildPlan
from mansard.measuring.events import Event, Measurer, Row, Started
from mansard.measuring.kind import Job


class SupportsWrite(Protocol):
    """A stream that bytes are written to."""

    def write(self, data: bytes, /) -> object: ...


class Outputs(Protocol):
    """Where builds write their files: a local folder, or a volume of a container engine."""

    def put_caches(self, caches: Path) -> None:
        """Copy the files of this folder in, before a build; raises StorageError."""

    def take(self, name: str, stream: SupportsWrite) -> None:
        """Write the content of the built file ``name`` to ``stream``; raises StorageError."""

    def take_caches(self, caches: Path) -> None:
        """Replace the files of this folder by the ones that builds wrote; raises StorageError."""


class FolderOutputs:
    """A local folder that builds write into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put_caches(self, caches: Path) -> None:
        """Copy them."""
        _copy_all(caches, make_folder(self.folder / CACHES / caches.name))

    def take(self, name: str, stream: SupportsWrite) -> None:
        """Copy it."""
        with storage_errors(self.folder / name), open_file(self.folder / name) as source:
            shutil.copyfileobj(source, stream)

    def take_caches(self, caches: Path) -> None:
        """Copy them back."""
        _copy_all(self.folder / CACHES / caches.name, caches)


def _copy_all(source: Path, target: Path) -> None:
    for name, kind in entries_in(source, source.parent).items():
        if kind == "file" and not name.startswith("."):
            path = source / name
            with storage_errors(path), open_file(path) as stream, replacing(target / name) as copy:
                shutil.copyfileobj(stream, copy)


class EngineFiles:
    """The engine files in one folder of runs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self.folder = runs / ENGINES_FOLDER

    def make(self) -> Path:
        """Create the folder where it is missing, and return it; raises StorageError."""
        return make_folder(self.folder, self._runs)

    def row(self, name: str) -> EngineBuild | None:
        """How the engine file was built, or why that failed; None where neither is known.

        Raises StorageError where the folder cannot be read.
        """
        path = self.folder / row_name(name)
        if Path(name).name != name or find_status(path, self._runs) is None:
            return None
        try:
            row = read_document(path, EngineBuild, self._runs)
        except SchemaError:  # of another version of Mansard: it is built anew
            return None
        return row if row.engine_file == name else None

    def find(self, name: str) -> EngineBuild | None:
        """As ``row``, but None where a build is needed, also after a temporary failure."""
        row = self.row(name)
        if row is None or row.failure is not None:
            return None if row is None or row.is_transient else row
        return row if self._is_whole(name, row) else None

    def is_changed(self, name: str) -> bool:
        """Whether the file was built, but no longer has the content that was built."""
        row = self.row(name)
        if row is None or row.failure is not None:
            return False
        is_there = find_status(self.folder / name, self._runs) is not None
        return is_there and not self._is_whole(name, row)

    def _is_whole(self, name: str, row: EngineBuild) -> bool:
        path = self.folder / name
        return find_status(path, self._runs) is not None and is_as_built(path, row)

    def link(self, names: Iterable[str], folder: Path) -> None:
        """Link these engine files and their rows into ``folder``; raises StorageError."""
        for engine_file in names:
            for name in (engine_file, row_name(engine_file)):
                source = (self.folder / name).absolute()
                with storage_errors(folder / name), suppress(FileExistsError):
                    if source.exists():
                        (folder / name).symlink_to(source)

    def building(self, measurer: Measurer, outputs: Outputs) -> Measurer:
        """``measurer``, but engine files in ``outputs`` are stored before their rows are emitted.

        Files that are stored already are not built again. Raises StorageError.
        """

        def measure(job: Job) -> Iterator[Event]:
            plan = job.plan
            if not isinstance(plan, BuildPlan):
                raise SchemaError("engine files are of runs of builds", fix="report this")
            stored = list(self._stored_rows(plan, job.missing))
            done = {row.trial_id for row in stored}
            rest = tuple(ident for ident in job.missing if ident not in done)
            caches = make_folder(self.folder / CACHES / caches_name(plan), self._runs)
            outputs.put_caches(caches)
            for event in measurer(Job(plan=plan, missing=rest, read_back=job.read_back)):
                if isinstance(event, Row) and isinstance(event.row, EngineBuild):
                    self._store(event.row, plan, outputs, caches)
                yield event
                if isinstance(event, Started):
                    yield from map(Row, stored)

        return measure

    def _stored_rows(self, plan: BuildPlan, missing: Collection[str]) -> Iterator[EngineBuild]:
        """Rows of this run for engine files that an earlier run built."""
        for spec in plan.trials:
            row = self.find(spec.engine_file) if spec.trial_id in missing else None
            if row is not None:
                changes = {"run_id": plan.run_id, "trial_id": spec.trial_id}
                yield msgspec.structs.replace(row, **changes)

    def _store(self, row: EngineBuild, plan: BuildPlan, outputs: Outputs, caches: Path) -> None:
        """Move the file into its place if its content is what its row says."""
        asked = {(spec.trial_id, spec.engine_file) for spec in plan.trials}
        if (row.trial_id, row.engine_file) not in asked:
            raise SchemaError(
                "the builder reports a file that was not requested", fix="report this"
            )
        path = self.folder / row.engine_file
        if row.failure is None:
            with replacing(path, self._runs) as stream:
                hashed = _Hashed(stream)
                outputs.take(row.engine_file, hashed)
                if hashed.digest.hexdigest() != row.engine_hash:
                    raise StorageError(
                        "is not what was built: it was cut off, or changed on its way",
                        where=str(path),
                        fix="run the same command again",
                    )
        outputs.take_caches(caches)
        write_document(self.folder / row_name(row.engine_file), row, self._runs)


class _Hashed:
    """A stream that hashes what it passes on."""

    def __init__(self, stream: SupportsWrite) -> None:
        self._stream, self.digest = stream, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self._stream.write(data)
