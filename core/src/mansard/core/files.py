"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mansard.core.errors import StorageError

_ADVICE = {
    errno.ENOSPC: "free some space and run the same command again",
    errno.EDQUOT: "free some of your quota and run the same command again",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "check its permissions, or choose another folder",
    errno.EPERM: "check its permissions, or choose another folder",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
    errno.EEXIST: "a file stands where a folder is needed; choose another folder",
    errno.EISDIR: "a folder stands where a file is needed; choose another name",
}


def storage_error(error: OSError, path: Path) -> StorageError:
    """One clear line for an operating-system error on ``path``."""
    what = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0, "check the path and its permissions")
    return StorageError(what, where=str(path), fix=advice)


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents where they are missing; raises StorageError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, path) from error
    return path


def read_whole(path: Path) -> bytes:
    """The bytes of a regular file; raises StorageError.

    A pipe would wait for ever and a device never end, so neither is opened.
    """
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise storage_error(error, path) from error


def check_regular(path: Path) -> None:
    """Raises StorageError for a device or a pipe, which may have no end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a folder has its own message
        raise StorageError(
            "is not a regular file", where=str(path), fix="remove it, or choose another name"
        )


def _replaceable(path: Path) -> Path:
    """The file that a link leads to; raises StorageError for a device or a pipe.

    Renaming over them would put a file in their place: as root, over /dev/null.
    """
    target = Path(os.path.realpath(path, strict=False)) if path.is_symlink() else path
    if path.is_dir():  # renaming over "." would say that it is busy
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.exists():
        check_regular(path)
    return target


def write_atomic(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` in one step; on failure the old file stays.

    Raises StorageError and leaves no temporary file behind.
    """
    with replacing(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content replaces ``path`` in one step when its block ends well.

    It is written beside the file, synced, and renamed over it; on failure the old file
    stays. Raises StorageError and leaves no temporary file behind.
    """
    temporary: Path | None = None
    try:
        path = _replaceable(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)  # mkstemp's 0600 would hide the report from the rest of the team
        temporary.replace(path)
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
