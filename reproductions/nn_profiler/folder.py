"""Files in the layout of NN-Profiler in a folder of the user's: those of others stay.

Their content does not say who wrote them. A list beside them does: the digest of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mansard.core.errors import StorageError, UsageError
from mansard.core.hashing import file_hash
from mansard.core.storage.files import check_descriptors, make_folder, read_whole, write_atomic

_LIST = ".mansard-files.json"


def write_profiler_files(
    files: Mapping[str, bytes], folder: Path, *, replaces: bool
) -> tuple[Path, ...]:
    """Write ``files``, content by name, into ``folder``; their paths.

    Raises UsageError before the first where one is there that Mansard did not write, or that was
    changed since, unless ``replaces``; StorageError.
    """
    make_folder(folder)
    listed = _listed(folder)
    for name in files if not replaces else ():
        path = folder / name
        if path.exists() and not (
            path.is_file() and listed.get(name) == file_hash(read_whole(path, folder))
        ):
            raise UsageError(
                "already exists and was not written by Mansard, or it was changed since; measured "
                "values are kept in --runs",
                where=str(path),
                fix="give another folder, or --force to replace it",
            )
    for name, content in files.items():
        make_folder((folder / name).parent)
        write_atomic(folder / name, content, folder)
    listed |= {name: file_hash(content) for name, content in files.items()}
    write_atomic(folder / _LIST, msgspec.json.format(msgspec.json.encode(listed)), folder)
    return tuple(folder / name for name in files)


def _listed(folder: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(read_whole(folder / _LIST, folder), type=dict[str, str])
    except (StorageError, msgspec.MsgspecError) as error:  # no list of ours: nothing is replaced
        check_descriptors(error, folder)
        return {}
