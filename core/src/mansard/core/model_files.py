"""Which ONNX files a name stands for: a file, those of a folder, or none: a name of the zoo."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mansard.core.errors import InputError


def find_onnx_files(sources: Sequence[Path]) -> list[Path]:
    """The ONNX files among ``sources``, those in folders included, each once.

    Raises InputError for a folder without any, or one that cannot be read.
    """
    files: dict[Path, None] = {}
    for source in sources:
        if not source.is_dir():
            files[source] = None
            continue
        inside = sorted(_walk(source))
        if not inside:
            raise InputError(
                "holds no .onnx file", where=str(source), fix="give a folder of ONNX models"
            )
        files.update(dict.fromkeys(inside))
    return list(files)


def onnx_files(name: str) -> Sequence[Path] | None:
    """The ONNX files that a name stands for; None where it is no path."""
    path = Path(name)
    return find_onnx_files([path]) if is_path(path) else None


def is_path(path: Path) -> bool:
    """Whether it is a file or a folder, there or not; else it is a name."""
    return path.suffix.lower() == ".onnx" or len(path.parts) != 1 or path.exists()


def _walk(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        where = str(error.filename or folder)
        raise InputError(error.strerror or str(error), where=where, fix="check its permissions")

    for path, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(path, name) for name in names if name.lower().endswith(".onnx"))
