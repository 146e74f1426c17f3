"""Files and folders that a program depends on: their content is part of what it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from mansard.core.errors import UsageError
from mansard.core.hashing import stream_hash
from mansard.core.text import is_utf8, masked, printable

_MOST_FILES = 100_000  # of all folders of one ``--depends``
_LONGEST_SHOWN = 200  # characters of a path in an error
_CACHES = frozenset({"__pycache__"})  # that running a program writes


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def shown_path(path: Path) -> str:
    """A path as rows have it."""
    return printable(masked(str(path)))


def check_dependencies(paths: Sequence[Path], runs: Path | None = None) -> None:
    """Raises UsageError for what cannot be a dependency.

    ``runs``: the folder of runs, which every run changes; None: it is on another machine.
    """
    for path in paths:
        text = str(path)
        if "\0" in text or not is_utf8(text):
            raise _refusal(path, "is not text in UTF-8, and could not be kept", "rename it")
        if not os.path.exists(path):  # noqa: PTH110 - a long name is no error
            raise _refusal(path, "there is no such file or folder", "look at the name")
        if runs is not None and path.is_dir() and runs.resolve().is_relative_to(path.resolve()):
            fix = "keep the runs elsewhere with --runs, or name folders in it"
            raise _refusal(path, "the folder of runs is in it, and every run changes that", fix)


def update_by_content(digest: _Digest, path: Path) -> None:
    """Add the content of a file, or the names and contents of all files of a folder.

    Folders called ``__pycache__`` are left out: running a program writes them. What is neither a
    file nor a folder counts by its name. Raises UsageError for what cannot be read.
    """
    try:
        for name, file in _files(path):
            digest.update(b"\0" + os.fsencode(name) + b"\0")
            if file.is_file():
                with file.open("rb") as stream:
                    digest.update(stream_hash(stream).encode())
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise _refusal(path, what, "make it readable, or leave it out") from error


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Each file with its name below ``path``, in an order that does not change."""
    if not path.is_dir():
        yield "", path
        return
    n_files = 0
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders[:] = sorted(set(folders) - _CACHES)
        n_files += len(files)
        if n_files > _MOST_FILES:
            raise _refusal(path, f"has more than {_MOST_FILES:,} files", "name folders in it")
        for name in sorted(files):
            file = Path(folder, name)
            yield str(file.relative_to(path)), file


def _raise(error: OSError) -> None:
    raise error


def _refusal(path: Path, what: str, fix: str) -> UsageError:
    return UsageError(f"--depends {printable(str(path), _LONGEST_SHOWN)}: {what}", fix=fix)
