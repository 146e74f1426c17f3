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
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from mansard.core.errors import StorageError, reported

Kind = Literal["folder", "file", "link", "other"]
_STEM = re.compile(rb"\.(?:[^/]{1,100}\.)?mansard-[0-9a-f]{12}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hidden_name(name: str = "") -> str:
    """A new name: hidden, beginning with ``name``, ending with its own checksum."""
    start = b"." + os.fsencode(name)[:100] + b"." if name else b"."
    stem = start + b"mansard-" + os.urandom(6).hex().encode()
    return os.fsdecode(stem + b"-" + _checksum(stem))


def is_hidden_name(name: str) -> bool:
    """Whether ``hidden_name`` made it; other names do not end with their checksum."""
    stem, _, checksum = os.fsencode(name).rpartition(b"-")
    return _STEM.fullmatch(stem) is not None and checksum == _checksum(stem)


def _checksum(stem: bytes) -> bytes:
    return f"{zlib.crc32(stem):08x}".encode()


def create_hidden(name: str, parent: int, mode: int, *, is_folder: bool = False) -> tuple[int, str]:
    """A new empty file or folder in the folder of handle ``parent``: its handle, and its name.

    The handle locks it. ``mode`` is narrowed by the umask. Raises OSError.
    """
    flags = _FOLDER | os.O_NOFOLLOW if is_folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
    while True:
        hidden = hidden_name(name)
        if is_folder:
            os.mkdir(hidden, mode, dir_fd=parent)
        try:
            handle = os.open(hidden, flags | os.O_CLOEXEC, mode, dir_fd=parent)
        except FileNotFoundError:
            if is_folder:  # a sweep was faster
                continue
            raise
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
        with reported(
            StorageError,
            "no temporary folder can be made",
            where=str(parent),
            fix="free some space, check its permissions, or choose another folder",
        ):
            where = os.open(parent, _FOLDER)
            stack.callback(os.close, where)
            sweep(where)
            handle, hidden = create_hidden(name, where, 0o700, is_folder=True)
        stack.callback(os.close, handle)
        stack.callback(_remove, hidden, "folder", where)
        yield parent / hidden


def system_temporary() -> Path:
    """The system's folder for temporary files, as ``tempfile`` finds it; raises StorageError."""
    import tempfile  # as shutil below

    with reported(
        StorageError,
        "no folder for temporary files can be written",
        where=os.environ.get("TMPDIR", "/tmp"),  # noqa: S108 - to be named
        fix="free some space there, or name another folder in TMPDIR",
    ):
        return Path(tempfile.gettempdir())


def sweep(folder: Path | int) -> dict[str, Kind]:
    """Remove what killed processes left in ``folder``, a path or a handle.

    Nothing else is removed: not what a living process writes, nor another user's. What cannot be
    removed stays. Returns what is there by name, in order. Raises OSError where the folder cannot
    be listed.
    """
    path, at = (".", folder) if isinstance(folder, int) else (folder, None)
    parent = os.open(path, _FOLDER, dir_fd=at)
    try:
        with os.scandir(parent) as entries:
            kinds = {entry.name: _kind(entry) for entry in entries}
        for name in filter(is_hidden_name, list(kinds)):
            with contextlib.suppress(OSError):
                if _is_left(name, kinds[name], parent):
                    del kinds[name]
    finally:
        os.close(parent)
    return dict(sorted(kinds.items()))


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _is_left(name: str, kind: Kind, parent: int) -> bool:
    """Whether a killed process of this user left it; then it is removed. Raises OSError."""
    if kind not in {"folder", "file"}:
        return False
    handle = os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=parent)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            return False
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its process lives
        return _remove(name, kind, parent)
    finally:
        os.close(handle)


def _remove(name: str, kind: Kind, parent: int) -> bool:
    """Remove a file, or a folder and all in it; links in it are removed, not followed."""
    if kind == "file":
        os.unlink(name, dir_fd=parent)
        return True
    import shutil  # it takes longer to import than to sweep

    path = f"/proc/self/fd/{parent}/{name}"  # rmtree takes no handle in Python 3.10
    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


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
