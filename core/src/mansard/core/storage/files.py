"""Reading and writing files: never half a file, never another file in its place.

``within`` is a folder whose content is Mansard's own, such as a folder of runs. It may be reached
through links; below it none is followed, and a link, a pipe or a device there is refused. Whatever
is written into such a folder or removed from it goes through this module.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

from mansard.core.errors import DeviceError, StorageError
from mansard.core.storage.leftovers import Kind, create_hidden, sweep

_ADVICE = {
    errno.ENOSPC: "free some space and run the same command again",
    errno.EDQUOT: "free some of your quota and run the same command again",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or choose another folder",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "check its permissions, or choose another folder",
    errno.EPERM: "check its permissions, or choose another folder",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
    errno.EEXIST: "a file stands where a folder is needed; choose another folder",
    errno.EISDIR: "a folder stands where a file is needed; choose another name",
}
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # it need not be listed
# A pipe is opened without waiting for its other end, and a terminal without becoming ours.
# Device numbers by Linux's Documentation/admin-guide/devices.txt.
_SINKS = frozenset({(1, 3), (1, 5), (1, 7)})  # /dev/null, /dev/zero, /dev/full
_TERMINALS = frozenset({4, 5, *range(136, 144)})
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_SAFELY = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def storage_error(error: OSError, path: Path) -> StorageError:
    """One clear line for an operating-system error on ``path``."""
    what = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0, "check the path and its permissions")
    return StorageError(what, where=str(path), fix=advice)


def check_descriptors(error: BaseException, where: object) -> None:
    """Raise DeviceError if ``error`` says that no file descriptor is free.

    That is a fact about this process: what cannot be opened is not absent. Errors of the dynamic
    linker have no number, only its text.
    """
    is_number = isinstance(error, OSError) and error.errno in _EXHAUSTED
    if is_number or any(os.strerror(number) in str(error) for number in _EXHAUSTED):
        raise DeviceError(
            "cannot be read: too many open files",
            where=str(where),
            fix="close files or connections of this process, or raise the limit: ulimit -n",
        ) from error


def check_spare_descriptor(where: object) -> None:
    """Raise DeviceError if no descriptor is free: from Python 3.13 on ``glob`` hides that error."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        check_descriptors(error, where)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns an operating-system error of its block into ``storage_error``."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def make_folder(path: Path, within: Path | None = None) -> Path:
    """Create ``path`` and its parents where they are missing; raises StorageError.

    ``within`` itself is created as well.
    """
    with storage_errors(path):
        (within or path).mkdir(parents=True, exist_ok=True)
        if within is not None:
            with _folder_of(path / "_", within, is_made=True):
                pass
    return path


MOST_BYTES = 16 << 20  # limit of a document; our longest have some hundred kilobytes


def read_whole(path: Path, within: Path | None = None, *, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file; raises StorageError, also where they are too many.

    A pipe would wait for ever and a device never end, so neither is opened.
    """
    with storage_errors(path), open_file(path, within) as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise StorageError(
            f"has more than {most_bytes >> 20} MiB, more than any file of this kind",
            where=str(path),
            fix="give the right file",
        )
    return data


def open_file(path: Path, within: Path | None = None) -> IO[bytes]:
    """A regular file, open for reading; raises OSError, and StorageError for anything else."""
    handle = _open_regular(path, within, os.O_RDONLY, is_followed=within is None)
    tell_file("reads", path)
    return os.fdopen(handle, "rb")


def open_rows(path: Path, within: Path | None = None, *, is_private: bool = False) -> int:
    """The handle of a file to append to, made where it is missing; raises StorageError."""
    with storage_errors(path):
        mode = 0o600 if is_private else 0o666
        handle = _open_regular(path, within, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode=mode)
        if is_private:  # also one that was there
            with contextlib.suppress(OSError):  # a file system without modes
                os.fchmod(handle, mode)
        tell_file("writes", path)
        return handle


def check_one_name(handle: int, path: Path) -> None:
    """Raises StorageError where a file that is to be changed in its place has another name."""
    if os.fstat(handle).st_nlink > 1:
        raise StorageError(
            "has a second name (a hard link), whose content would change with it",
            where=str(path),
            fix="give it a copy of its own: cp FILE COPY && mv COPY FILE",
        )


def append_whole(handle: int, data: bytes, path: Path) -> None:
    """Write ``data`` at the end of a file of ``open_rows`` and sync it, all of it or nothing.

    When this returns, it survives a kill and a power cut. Raises StorageError.
    """
    check_one_name(handle, path)
    length = os.fstat(handle).st_size
    try:
        # One write for the whole; a short write means the disk is full, and the second call then
        # raises with the system's own reason.
        written = os.write(handle, data)
        while written < len(data):
            written += os.write(handle, data[written:])
        os.fsync(handle)
    except OSError as error:
        os.ftruncate(handle, length)
        raise storage_error(error, path) from error


def find_status(path: Path, within: Path) -> os.stat_result | None:
    """The status of a file or folder below ``within``; None where nothing is.

    Raises StorageError for a link, there or on the way, a pipe or a device, and for a folder that
    this user may not enter.
    """
    with (
        storage_errors(path),
        contextlib.suppress(FileNotFoundError),
        _folder_of(path, within) as (parent, name),
    ):
        return _status(path, name, parent)
    return None


def entries_in(path: Path, within: Path) -> dict[str, Kind]:
    """What a folder below ``within`` holds, by name in order; empty where it is missing.

    What killed processes left there is removed first. Raises StorageError.
    """
    with (
        storage_errors(path),
        contextlib.suppress(FileNotFoundError),
        _folder_of(path / "_", within) as (handle, _),
    ):
        return sweep(handle)
    return {}


def remove(path: Path, within: Path) -> None:
    """Remove a file, or a folder that is empty, where it is there; raises StorageError."""
    with (
        storage_errors(path),
        contextlib.suppress(FileNotFoundError),
        _folder_of(path, within) as (parent, name),
    ):
        try:
            os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            os.rmdir(name, dir_fd=parent)


def write_atomic(path: Path, content: bytes, within: Path | None = None) -> None:
    """Replace ``path`` by ``content`` in one step; on failure the old file stays.

    A pipe, a terminal or /dev/null of the user's takes the content as it is. Raises StorageError
    and leaves no temporary file behind.
    """
    if within is None and _is_stream(path):
        with (
            storage_errors(path),
            os.fdopen(os.open(path, os.O_WRONLY | _SAFELY), "wb") as stream,
        ):
            os.set_blocking(stream.fileno(), True)
            stream.write(content)
        return
    with replacing(path, within) as stream:
        stream.write(content)


def _is_stream(path: Path) -> bool:
    """Whether a shell would write into ``path``: a pipe, a terminal, /dev/null, /dev/full."""
    try:
        status = path.stat()
    except OSError:
        return False
    if not stat.S_ISCHR(status.st_mode):
        return stat.S_ISFIFO(status.st_mode)
    major = os.major(status.st_rdev)
    return major in _TERMINALS or (major, os.minor(status.st_rdev)) in _SINKS


@contextlib.contextmanager
def replacing(path: Path, within: Path | None = None) -> Iterator[IO[bytes]]:
    """A stream whose content replaces ``path`` in one step when its block ends well.

    It is written beside the file, synced, and renamed over it; on failure the old file
    stays. A new file has the mode that the umask gives, another the mode and, where this
    user may give it away, the owner of the old one. Where ``within`` is not given, ``path`` is
    the user's own, and of a link what it leads to is replaced. What killed processes left
    in the folder is removed. Raises StorageError and leaves no temporary file behind.
    """
    target = path if within is not None else Path(os.path.realpath(path, strict=False))
    with storage_errors(path), _folder_of(target, within) as (parent, name):
        # Not over a device: as root, that would put a file in the place of /dev/null.
        old = _status(target, name, parent, is_file=True)
        with contextlib.suppress(OSError):  # a folder that can be written, but not listed
            sweep(parent)
        handle, hidden = create_hidden(name, parent, 0o666 if old is None else 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                if old is not None:
                    _take_owner_and_mode(handle, old)
                os.fsync(handle)
                # Before the lock ends: from then on it would be taken for one left behind.
                os.replace(hidden, name, src_dir_fd=parent, dst_dir_fd=parent)
                tell_file("writes", path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden, dir_fd=parent)


def move_over(source: Path, path: Path) -> None:
    """Rename ``source``, which is whole and on the same disk, over ``path``, as ``replacing`` does.

    Raises StorageError; then the old file stays.
    """
    with (
        storage_errors(path),
        _folder_of(path, None) as (parent, name),
        source.open("rb") as stream,
    ):
        old = _status(path, name, parent, is_file=True)
        if old is not None:
            _take_owner_and_mode(stream.fileno(), old)
        os.fsync(stream.fileno())
        os.replace(source, name, dst_dir_fd=parent)
        tell_file("writes", path)


def _take_owner_and_mode(handle: int, old: os.stat_result) -> None:
    new, mode = os.fstat(handle), stat.S_IMODE(old.st_mode)
    try:
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
    except OSError:
        try:
            os.fchown(handle, -1, old.st_gid)
        except OSError:  # the old group's rights must not go to another group
            mode &= ~0o070 | (mode & 0o007) << 3
        mode &= 0o777
    with contextlib.suppress(OSError):  # a file system without modes
        os.fchmod(handle, mode)


def _open_regular(
    path: Path,
    within: Path | None,
    flags: int,
    *,
    is_followed: bool = False,
    mode: int = 0o666,
) -> int:
    """Raises OSError; StorageError for a pipe or a device, and for a link if not followed."""
    with _folder_of(path, within) as (parent, name):
        _status(path, name, parent, is_followed=is_followed)  # some devices act when opened
        no_link = 0 if is_followed else os.O_NOFOLLOW
        handle = os.open(name, flags | _SAFELY | no_link, mode, dir_fd=parent)
    try:
        _check(os.fstat(handle), path, is_file=True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _status(
    path: Path, name: str, parent: int, *, is_followed: bool = False, is_file: bool = False
) -> os.stat_result | None:
    """None where nothing is; raises OSError, and as ``_check``."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=is_followed)
    except FileNotFoundError:
        return None
    _check(status, path, is_file=is_file)
    return status


def _check(status: os.stat_result, path: Path, *, is_file: bool) -> None:
    """Raises StorageError for a link, and for a pipe or a device, which may have no end.

    ``is_file``: raises IsADirectoryError for a folder.
    """
    if stat.S_ISLNK(status.st_mode):
        raise StorageError(
            "is a link, and a folder of runs holds none",
            where=str(path),
            fix="remove it, or put what it leads to in its place",
        )
    if is_file and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise StorageError("is not a regular file", where=str(path), fix="choose another name")


@contextlib.contextmanager
def _folder_of(
    path: Path, within: Path | None, *, is_made: bool = False
) -> Iterator[tuple[int, str]]:
    """The handle of the folder that ``path`` lies in, and its name there.

    Below ``within`` no link is followed, and folders that are missing are made if asked. Raises
    OSError, and StorageError for a link.
    """
    if within is None:
        start, parts = path.parent, [path.name or "."]
    else:
        start, parts = within, list(path.relative_to(within).parts)
        if ".." in parts:
            raise ValueError(f"{path} may lead out of {within}")
    handle = os.open(start, _FOLDER)
    try:
        at = start
        for part in parts[:-1]:
            at = at / part
            if is_made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            try:
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            except OSError:
                _status(at, part, handle)  # names a link as what it is
                raise
            os.close(handle)
            handle = below
        yield handle, parts[-1]
    finally:
        os.close(handle)


_listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def told_files(tell: Callable[[str], None]) -> Iterator[None]:
    """While the block runs ``tell`` gets a line for each file that ``files`` reads or writes."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def tell_file(what: Literal["reads", "writes"], path: Path) -> None:
    """Report that ``path`` is used."""
    for tell in _listeners:
        tell(f"{what} {path}")
