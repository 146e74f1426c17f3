"""Hidden files and scratch folders: removed at the end, or after a kill by the next command.

All bear a name of one scheme, and the process that made one holds a lock on it (flock, which ends
with the process however it ends). What bears such a name, belongs to this user and is not locked
was left by a process that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from mansard.core.errors import StorageError

_STEM = re.compile(rb"\.(?:[^/]{1,100}\.)?mansard-[0-9a-f]{12}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hidden_name(name: str = "") -> str:
    """A name that nobody has: hidden, beginning with ``name``, ending with its own checksum."""
    start = b"." + os.fsencode(name)[:100] + b"." if name else b"."
    stem = start + b"mansard-" + os.urandom(6).hex().encode()
    return os.fsdecode(stem + b"-" + _checksum(stem))


def is_hidden_name(name: str) -> bool:
    """Whether ``hidden_name`` made it; others' names do not end with their checksum."""
    stem, _, checksum = os.fsencode(name).rpartition(b"-")
    return _STEM.fullmatch(stem) is not None and checksum == _checksum(stem)


def _checksum(stem: bytes) -> bytes:
    return f"{zlib.crc32(stem):08x}".encode()


def create_hidden(name: str, parent: int, mode: int) -> tuple[int, str]:
    """A new empty file in the folder of handle ``parent``: its handle, which locks it; its name.

    ``mode`` is narrowed by the umask. Raises OSError.
    """
    while True:
        hidden = hidden_name(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        handle = os.open(hidden, flags, mode, dir_fd=parent)
        if _is_locked(handle, hidden, parent):
            return handle, hidden
        os.close(handle)  # a sweep was faster


@contextlib.contextmanager
def temporary_folder(parent: Path | None = None, name: str = "") -> Iterator[Path]:
    """An empty folder for this user alone, removed afterwards; raises StorageError.

    ``parent``: where; the system's folder for temporary files by default. What killed processes
    left there is removed first.
    """
    parent = system_temporary() if parent is None else parent
    with contextlib.ExitStack() as stack:
        try:
            where = os.open(parent, _FOLDER)
            stack.callback(os.close, where)
            sweep(where)
            handle, hidden = _create_folder(name, where)
        except OSError as error:
            raise StorageError(
                f"no temporary folder can be made: {error.strerror}",
                where=str(parent),
                fix="free some space, check its permissions, or choose another folder",
            ) from error
        stack.callback(os.close, handle)
        try:
            yield parent / hidden
        finally:
            with contextlib.suppress(OSError):
                _remove_tree(hidden, where)


def system_temporary() -> Path:
    """The system's folder for temporary files, as ``tempfile`` finds it; raises StorageError."""
    import tempfile  # it takes longer to import than to sweep

    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise StorageError(
            "no folder for temporary files can be written",
            where=os.environ.get("TMPDIR", "/tmp"),  # noqa: S108 - to be named
            fix="free some space there, or name another folder in TMPDIR",
        ) from error


def sweep_temporary() -> None:
    """``sweep`` the system's folder for temporary files, where there is one."""
    with contextlib.suppress(StorageError):
        sweep(system_temporary())


def _create_folder(name: str, parent: int) -> tuple[int, str]:
    while True:
        hidden = hidden_name(name)
        os.mkdir(hidden, 0o700, dir_fd=parent)
        try:
            handle = os.open(hidden, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
        except FileNotFoundError:  # a sweep was faster
            continue
        if _is_locked(handle, hidden, parent):
            return handle, hidden
        os.close(handle)


def sweep(folder: Path | int) -> None:
    """Remove what processes that were killed left in ``folder``, a path or a handle.

    Nothing else: not what a living process writes, nor another user's. Where it cannot be
    removed it stays.
    """
    with contextlib.suppress(OSError):
        path, at = (".", folder) if isinstance(folder, int) else (folder, None)
        parent = os.open(path, _FOLDER, dir_fd=at)
        try:
            with os.scandir(parent) as entries:
                names = [entry.name for entry in entries if is_hidden_name(entry.name)]
            for name in names:
                with contextlib.suppress(OSError):
                    _remove_if_left(name, parent)
        finally:
            os.close(parent)


def _remove_if_left(name: str, parent: int) -> None:
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    is_folder = stat.S_ISDIR(status.st_mode)
    if status.st_uid != os.geteuid() or not (is_folder or stat.S_ISREG(status.st_mode)):
        return
    handle = os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=parent)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its process lives
        _remove_tree(name, parent) if is_folder else os.unlink(name, dir_fd=parent)
    finally:
        os.close(handle)


def _remove_tree(name: str, parent: int) -> None:
    """Remove a folder and all in it; links in it are removed, not followed."""
    handle = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        with os.scandir(handle) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove_tree(entry.name, handle)
            else:
                os.unlink(entry.name, dir_fd=handle)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=parent)


def _is_locked(handle: int, name: str, parent: int) -> bool:
    """Lock what was just made; False where a sweep was faster and has removed it, or will."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system knows no locks: a sweep cannot lock there either
        return True
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), there)
