"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from mansard.core.errors import StorageError

_ADVICE = {
    errno.ENOSPC: "free some space and run the same command again; finished rows are kept",
    errno.EDQUOT: "free some of your quota and run the same command again; finished rows are kept",
    errno.EROFS: "choose a folder that can be written, for example with RUNS=dir",
    errno.EACCES: "choose a folder that can be written, for example with RUNS=dir",
    errno.EPERM: "choose a folder that can be written, for example with RUNS=dir",
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


def write_atomic(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` in one step; on failure the old file stays.

    The new content is written beside the file, synced, and renamed over it.
    Raises StorageError and leaves no temporary file behind.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)  # mkstemp's 0600 would hide the report from the rest of the team
        temporary.replace(path)
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
