"""Engine files that were built, in the folder of runs: looked up by name, which holds their key.

A file, the caches that its build left, and then its row are kept before the row goes into the
folder of its run. So what was killed in between is answered by the next run without a build.
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
    """What takes bytes."""

    def write(self, data: bytes, /) -> object: ...


class Outputs(Protocol):
    """Where builds write, be it a folder here or a volume elsewhere."""

    def put_caches(self, caches: Path) -> None:
        """Have the files of this folder in its own folder of that name; raises StorageError."""

    def take(self, name: str, stream: SupportsWrite) -> None:
        """Write the content of its file ``name`` to ``stream``; raises StorageError."""

    def take_caches(self, caches: Path) -> None:
        """Replace the files of this folder by those that builds wrote; raises StorageError."""


class FolderOutputs:
    """A folder of this machine that builds write into."""

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
    """Those of one folder of runs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self.folder = runs / ENGINES_FOLDER

    def make(self) -> Path:
        """Its folder, made where it is missing; raises StorageError."""
        return make_folder(self.folder, self._runs)

    def row(self, name: str) -> EngineBuild | None:
        """How the engine file was built, or why it could not be; None where that is not known.

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
        """The same; None where it is to be built, also because it failed for now only."""
        row = self.row(name)
        if row is None or row.failure is not None:
            return None if row is None or row.is_transient else row
        return row if self._is_whole(name, row) else None

    def is_changed(self, name: str) -> bool:
        """Whether there is such a file, built once, whose content is no longer what was built."""
        row = self.row(name)
        if row is None or row.failure is not None:
            return False
        is_there = find_status(self.folder / name, self._runs) is not None
        return is_there and not self._is_whole(name, row)

    def _is_whole(self, name: str, row: EngineBuild) -> bool:
        path = self.folder / name
        return find_status(path, self._runs) is not None and is_as_built(path, row)

    def link(self, names: Iterable[str], folder: Path) -> None:
        """Put links to these files, and to their rows, into ``folder``; raises StorageError."""
        for engine_file in names:
            for name in (engine_file, row_name(engine_file)):
                source = (self.folder / name).absolute()
                with storage_errors(folder / name), suppress(FileExistsError):
                    if source.exists():
                        (folder / name).symlink_to(source)

    def building(self, measurer: Measurer, outputs: Outputs) -> Measurer:
        """``measurer``, whose engine files in ``outputs`` are kept before their rows are told.

        What is kept already is told without a build. Raises StorageError.
        """

        def measure(job: Job) -> Iterator[Event]:
            plan = job.plan
            if not isinstance(plan, BuildPlan):
                raise SchemaError("engine files are of runs of builds", fix="report this")
            stored = list(self._kept(plan, job.missing))
            done = {row.trial_id for row in stored}
            rest = tuple(ident for ident in job.missing if ident not in done)
            caches = make_folder(self.folder / CACHES / caches_name(plan), self._runs)
            outputs.put_caches(caches)
            for event in measurer(Job(plan=plan, missing=rest, read_back=job.read_back)):
                if isinstance(event, Row) and isinstance(event.row, EngineBuild):
                    self._keep(event.row, plan, outputs, caches)
                yield event
                if isinstance(event, Started):
                    yield from map(Row, stored)

        return measure

    def _kept(self, plan: BuildPlan, missing: Collection[str]) -> Iterator[EngineBuild]:
        """The rows of those that an earlier run built, as rows of this one."""
        for spec in plan.trials:
            row = self.find(spec.engine_file) if spec.trial_id in missing else None
            if row is not None:
                changes = {"run_id": plan.run_id, "trial_id": spec.trial_id}
                yield msgspec.structs.replace(row, **changes)

    def _keep(self, row: EngineBuild, plan: BuildPlan, outputs: Outputs, caches: Path) -> None:
        """The file goes to its place only if it is what was built, as its row says."""
        asked = {(spec.trial_id, spec.engine_file) for spec in plan.trials}
        if (row.trial_id, row.engine_file) not in asked:
            raise SchemaError(
                "the builder tells of a file that was not asked for", fix="report this"
            )
        path = self.folder / row.engine_file
        if row.failure is None:
            with replacing(path, self._runs) as stream:
                hashed = _Hashed(stream)
                outputs.take(row.engine_file, hashed)
                if hashed.found.hexdigest() != row.engine_hash:
                    raise StorageError(
                        "is not what was built: it was cut off, or changed on its way",
                        where=str(path),
                        fix="run the same command again",
                    )
        outputs.take_caches(caches)
        write_document(self.folder / row_name(row.engine_file), row, self._runs)


class _Hashed:
    """Hashes what it writes on."""

    def __init__(self, stream: SupportsWrite) -> None:
        self._stream, self.found = stream, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.found.update(data)
        self._stream.write(data)
