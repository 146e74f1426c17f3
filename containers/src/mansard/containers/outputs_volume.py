"""A volume that a building container writes engine files into; the host takes them out of it.

Like the volume of files it is reached through the engine, by way of a container that is never
started. So it works over SSH too, and what a builder writes never lands in a folder of the host
by itself.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mansard.containers.answers import TAKING, answer
from mansard.containers.engine import ContainerEngine
from mansard.containers.engine_errors import explained
from mansard.containers.files_volume import create_volume, filler, put_archive, volume_name
from mansard.containers.launch import remove_volume
from mansard.containers.settings import BUILT, FILES
from mansard.core.errors import MansardError, StorageError
from mansard.core.storage.files import entries_in, open_file, replacing, storage_errors
from mansard.inference.builds import CACHES
from mansard.inference.engine_files import SupportsWrite

_PIECE = 1 << 20
_OPEN = 0o777  # folders and files that any user of a container may replace
_SENT = 0  # time of a cache that was sent; one that a build wrote has the time of the build
_MOST_CACHES = 1000  # that one job may write


class OutputsVolume:
    """The volume of one run of builds; made by ``outputs_volume``."""

    def __init__(self, engine: ContainerEngine, image: str, name: str) -> None:
        self.name = name
        self._engine, self._image = engine, image

    def put_caches(self, caches: Path) -> None:
        """Send the files of this folder, and make the folders that builds write into."""
        with tempfile.TemporaryFile() as data:
            with tarfile.open(fileobj=data, mode="w") as archive:
                for folder in (BUILT, f"{BUILT}/{CACHES}", f"{BUILT}/{CACHES}/{caches.name}"):
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode = tarfile.DIRTYPE, _OPEN
                    archive.addfile(entry)
                for name, kind in entries_in(caches, caches.parent).items():
                    if kind == "file" and not name.startswith("."):
                        _add(archive, f"{BUILT}/{CACHES}/{caches.name}/{name}", caches / name)
            data.seek(0)
            with filler(self._engine, self._image, self.name) as ident:
                put_archive(self._engine, ident, data)

    def take(self, name: str, stream: SupportsWrite) -> None:
        """Write the content of the engine file ``name`` to ``stream``; raises StorageError."""
        with self._archive(name) as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is not None and entry.name == name:
                    shutil.copyfileobj(content, stream, _PIECE)
                    return
        raise StorageError("the builder wrote no such file", where=name, fix="report this")

    def take_caches(self, caches: Path) -> None:
        """Replace the files of this folder by those that builds wrote, not by what was sent."""
        n_taken = 0
        with self._archive(f"{CACHES}/{caches.name}") as archive:
            for entry in archive:
                folder, _, name = entry.name.partition("/")
                content = archive.extractfile(entry) if entry.isreg() else None
                is_own = folder == caches.name and _is_cache(name) and entry.mtime != _SENT
                if content is None or not is_own or n_taken == _MOST_CACHES:
                    continue
                n_taken += 1
                with replacing(caches / name, caches.parent) as stream:
                    shutil.copyfileobj(content, stream, _PIECE)

    @contextmanager
    def _archive(self, name: str) -> Iterator[tarfile.TarFile]:
        """What lies below ``name`` in it, entry by entry."""
        with filler(self._engine, self._image, self.name) as ident, ExitStack() as stack:
            with explained(self._engine.address):
                response = stack.enter_context(
                    answer(
                        self._engine.client,
                        "GET",
                        f"/containers/{ident}/archive",
                        limits=TAKING,
                        parameters={"path": f"{FILES}/{BUILT}/{name}"},
                    )
                )
            pieces = _Pieces(response, self._engine.address)
            try:
                with tarfile.open(fileobj=pieces, mode="r|") as archive:  # type: ignore[call-overload]
                    yield archive
            except (tarfile.TarError, EOFError) as error:
                raise StorageError(
                    f"what the container engine sends is no archive: {error}", where=name
                ) from error


@contextmanager
def outputs_volume(engine: ContainerEngine, image: str) -> Iterator[OutputsVolume]:
    """A volume for one run of builds; removed at the end. ``image``: any that is on the engine."""
    name = volume_name()
    with explained(engine.address):
        create_volume(engine, name)
    try:
        yield OutputsVolume(engine, image, name)
    finally:
        with suppress(MansardError):
            remove_volume(engine, name)


class _Pieces:
    """The body of a response from ``address``, as tarfile reads a stream."""

    def __init__(self, response: Any, address: str) -> None:
        self._pieces, self._address = response.iter_content(_PIECE), address
        self._rest = b""

    def read(self, n_bytes: int) -> bytes:
        while len(self._rest) < n_bytes:
            with explained(self._address):
                piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        found, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return found


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with storage_errors(path), open_file(path) as stream:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = stream.seek(0, 2), _OPEN, _SENT
        stream.seek(0)
        archive.addfile(entry, stream)


def _is_cache(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".")
