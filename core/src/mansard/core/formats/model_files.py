"""Names of models: ONNX files, files and folders of language models, and tags behind them.

A tag says how a language model is to be stored, as Ollama writes it: ``llama-3.1-8b:Q4_K_M``,
``model.gguf:kv=Q8_0``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mansard.core.errors import InputError

_SUFFIXES = (".onnx", ".gguf")
_TAGS = re.compile(r"((?::[A-Za-z][A-Za-z0-9_=-]*)+)$")


def split_tags(name: str) -> tuple[str, tuple[str, ...]]:
    """A model's name without its tags, and these; a file may have colons in its name."""
    match = _TAGS.search(name)
    if match is None or os.path.lexists(name):
        return name, ()
    return name[: match.start()], tuple(match[1].split(":")[1:])


def find_model_files(sources: Sequence[Path]) -> list[Path]:
    """The models among ``sources``, those in folders included, each once.

    A folder with ``config.json`` and without an ONNX file is a language model itself. Raises
    InputError for a folder without any model, or one that cannot be read.
    """
    files: dict[Path, None] = {}
    for source in sources:
        folder = Path(split_tags(str(source))[0])
        if not folder.is_dir():
            files[source] = None
            continue
        inside = sorted(_walk(folder))
        if not inside and (folder / "config.json").exists():
            inside = [source]
        if not inside:
            raise InputError(
                "holds no .onnx file, no .gguf file and no config.json",
                where=str(source),
                fix="give a folder of ONNX models, or of a language model",
            )
        files.update(dict.fromkeys(inside))
    return list(files)


def model_files(name: str) -> Sequence[Path] | None:
    """The files that a model's name means; None if it is not a path."""
    path = Path(name)
    return find_model_files([path]) if is_path(path) else None


def is_path(path: Path) -> bool:
    """Whether it is a file or a folder, there or not; else it is a name."""
    plain = Path(split_tags(str(path))[0])
    return plain.suffix.lower() in _SUFFIXES or len(plain.parts) != 1 or plain.exists()


def model_name(path: Path) -> str:
    """How a model is called: its file without the suffix, or its folder; then its tags."""
    plain, tags = split_tags(str(path))
    known = Path(plain)
    name = known.stem if known.suffix.lower() in _SUFFIXES else known.resolve().name
    # A file's name may be any bytes; a record holds text.
    return ":".join((os.fsencode(name).decode("utf-8", "replace"), *tags))


def _walk(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        where = str(error.filename or folder)
        raise InputError(error.strerror or str(error), where=where, fix="check its permissions")

    for path, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(path, name) for name in names if name.lower().endswith(_SUFFIXES))
