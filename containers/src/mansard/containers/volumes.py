"""Volumes of the engine: files for containers that measure, engine files out of one that builds.

A volume is filled and emptied through the engine, by way of a container that has it mounted and is
never started. So the engine may be elsewhere, no program runs that could write to it, and what a
builder writes never lands in a folder of the host by itself. Containers that measure get theirs to
be read alone. It has an owner, as containers have: what a killed process left is removed by the
next start.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from mansard.containers.answers import SENDING, TAKING, answer
from mansard.containers.engine import ContainerEngine
from mansard.containers.engine_errors import explained
from mansard.containers.images.store import check_disk
from mansard.containers.images.wheels import sha256_of
from mansard.containers.launch import remove, remove_volume, shown_image, this_process
from mansard.containers.settings import (
    BUILT,
    FILES,
    NOBODY,
    OWNER_LABEL,
    PYTHON,
    RUN_LABEL,
    ContainerLaunch,
    User,
    create_arguments,
    volume_mount,
)
from mansard.core.errors import InputError, MansardError, StorageError
from mansard.core.storage.files import entries_in, open_file, replacing, storage_errors
from mansard.inference.builds import CACHES
from mansard.inference.engine_files import SupportsWrite

OnSent = Callable[[int, int], object]  # gets the bytes that are sent, and those to be sent in all
_RUN = "files"  # label of the containers that fill it
_PIECE_BYTES = 1 << 20
_BLOCK = 512  # of a tar
_END = bytes(2 * _BLOCK)


class _Local(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be sent: its path in the volume, and its state when it was listed."""

    name: str
    path: Path
    n_bytes: int
    changed_ns: int
    content: str  # hash


class FilesVolume:
    """A volume with the files of a folder; made by ``files_volume``."""

    def __init__(self, engine: ContainerEngine) -> None:
        self._engine = engine
        self._name: str | None = None
        self._there: dict[str, str] = {}  # hash of each file in it, by its path
        # Size, time and hash of each file here: gigabytes are not read again for each mode.
        self._seen: dict[Path, tuple[int, int, str]] = {}

    def fill(self, image: str, folder: Path, on_sent: OnSent | None = None) -> str:
        """Send the files below ``folder`` that it lacks; returns its name, for a launch.

        A file that is in it already, by its path and content, is not sent again. ``image``: any
        that is on the engine. ``on_sent`` may end the sending by what it raises. Raises
        StorageError, also where the engine's disk is full, InputError for a file that changes
        meanwhile, and ContainerError.
        """
        files = {name: self._look_at(name, path) for name, path in _files_below(folder).items()}
        name = self._make()
        lacking = [file for file in files.values() if self._there.get(file.name) != file.content]
        if not lacking:
            return name
        n_all = sum(file.n_bytes for file in lacking)
        check_disk(self._engine, n_all, f"a copy of {folder}")
        n_done = 0

        def count(n_bytes: int) -> None:
            nonlocal n_done
            n_done += n_bytes
            if on_sent is not None:
                on_sent(n_done, n_all)

        with filler(self._engine, image, name) as ident:
            for file in lacking:
                self._there.pop(file.name, None)  # of one that is cut off it holds a part
                self._send(ident, file, count)
                self._there[file.name] = file.content
        return name

    def remove(self) -> None:
        """Remove it; raises only KeyboardInterrupt. If that fails, the volume is a leftover."""
        name, self._name = self._name, None
        self._there.clear()
        if name is not None:
            with suppress(MansardError):
                remove_volume(self._engine, name)

    def _make(self) -> str:
        """The name of the volume; it is created if it does not exist (any more)."""
        from docker.errors import NotFound

        api = self._engine.client.api
        self._name = name = self._name or volume_name()
        with explained(self._engine.address):
            try:
                api.inspect_volume(name)
            except NotFound:
                self._there.clear()
                create_volume(self._engine, name)
        return name

    def _look_at(self, name: str, path: Path) -> _Local:
        with storage_errors(path):
            status = path.stat()
            n_bytes, changed_ns = status.st_size, status.st_mtime_ns
            seen = self._seen.get(path)
            if seen is None or seen[:2] != (n_bytes, changed_ns):
                seen = self._seen[path] = (n_bytes, changed_ns, sha256_of(path))
        return _Local(name=name, path=path, n_bytes=n_bytes, changed_ns=changed_ns, content=seen[2])

    def _send(self, ident: str, file: _Local, count: Callable[[int], None]) -> None:
        put_archive(self._engine, ident, _tar_of(file, count))


def put_archive(engine: ContainerEngine, ident: str, content: Any) -> None:
    """Unpack the bytes of a tar in the volume of the container ``ident``, which ``filler`` gave."""
    with (
        explained(engine.address),
        answer(
            engine.client,
            "PUT",
            f"/containers/{ident}/archive",
            limits=SENDING,
            parameters={"path": str(FILES)},
            content=content,
        ),
    ):
        pass


def volume_name() -> str:
    """A new name for a volume of this process."""
    return f"mansard-{uuid.uuid4().hex[:16]}"


def create_volume(engine: ContainerEngine, name: str) -> None:
    """Make a volume that belongs to this process; raises what the SDK raises."""
    engine.client.api.create_volume(name, labels={OWNER_LABEL: this_process(), RUN_LABEL: _RUN})


@contextmanager
def files_volume(engine: ContainerEngine) -> Iterator[FilesVolume]:
    """A volume for the files of one sweep, made when it is first filled; removed at the end."""
    volume = FilesVolume(engine)
    try:
        yield volume
    finally:
        volume.remove()


def _files_below(folder: Path) -> Mapping[str, Path]:
    """Every regular file below ``folder`` by its path there, in order; links count as files."""
    with storage_errors(folder):
        if not folder.is_dir():
            raise InputError("is not a folder with files to measure with", where=str(folder))
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


@contextmanager
def filler(engine: ContainerEngine, image: str, volume: str) -> Iterator[str]:
    """The id of a container with the volume mounted for writing, which is never started."""
    nobody = User(uid=NOBODY, gid=NOBODY, why="it is never started")
    launch = ContainerLaunch(image=image, command=(PYTHON,), user=nobody, run=_RUN)
    mount = volume_mount(volume, is_read_only=False)
    arguments = {**create_arguments(launch, this_process()), "mounts": [mount]}
    with explained(shown_image(image)):
        created: Any = engine.client.containers.create(**arguments)
        ident = str(created.id)
    try:
        yield ident
    finally:
        remove(engine, ident)


def _tar_of(file: _Local, count: Callable[[int], None]) -> Iterator[bytes]:
    """A tar of one file and its parent folders, piece by piece: owned by root, readable by all.

    Raises StorageError, InputError where the file is not what it was when it was looked at.
    """
    for folder in reversed(Path(file.name).parents[:-1]):
        entry = tarfile.TarInfo(folder.as_posix())
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        yield entry.tobuf(tarfile.PAX_FORMAT)
    entry = tarfile.TarInfo(file.name)
    entry.size, entry.mode = file.n_bytes, 0o644
    yield entry.tobuf(tarfile.PAX_FORMAT)
    for piece in _pieces(file):
        yield piece
        count(len(piece))
    yield bytes(-file.n_bytes % _BLOCK) + _END


def _pieces(file: _Local) -> Iterator[bytes]:
    """The content of a file up to its listed length; raises InputError if it has changed."""
    n_left = file.n_bytes
    with storage_errors(file.path), open_file(file.path) as stream:
        while piece := stream.read(min(n_left, _PIECE_BYTES)):
            n_left -= len(piece)
            yield piece
        status = os.fstat(stream.fileno())
    if (status.st_size, status.st_mtime_ns) != (file.n_bytes, file.changed_ns):
        raise InputError(
            "changed while it was sent to the container engine",
            where=str(file.path),
            fix="run the same command again",
        )


_OPEN = 0o777  # folders and files that any user of a container may replace
_SENT = 0  # mtime of a cache that was sent; a build's caches have the time of the build
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
                    shutil.copyfileobj(content, stream, _PIECE_BYTES)
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
                    shutil.copyfileobj(content, stream, _PIECE_BYTES)

    @contextmanager
    def _archive(self, name: str) -> Iterator[tarfile.TarFile]:
        """The entries below ``name`` in it."""
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
                    f"what the container engine sends is not an archive: {error}", where=name
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
        self._pieces, self._address = response.iter_content(_PIECE_BYTES), address
        self._rest = b""

    def read(self, n_bytes: int) -> bytes:
        while len(self._rest) < n_bytes:
            with explained(self._address):
                piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        taken, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return taken


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with storage_errors(path), open_file(path) as stream:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = stream.seek(0, 2), _OPEN, _SENT
        stream.seek(0)
        archive.addfile(entry, stream)


def _is_cache(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".")
