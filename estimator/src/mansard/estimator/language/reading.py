"""Language models from files: which reader reads a path.

``read_language_model`` reads a GGUF file or a folder of Hugging Face's; other files have a line
each that says what to do.
"""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.huggingface import read_folder


def is_language_model(path: Path) -> bool:
    """Whether a path is for ``read_language_model``: a .gguf file, or a folder with config.json."""
    return path.suffix.lower() == ".gguf" or (path / "config.json").is_file()


def read_language_model(path: Path) -> Architecture:
    """The sizes and stored weights of a language model; its weights are not read.

    Raises ModelError, StorageError or UsageError.
    """
    try:
        return read_folder(path)
    except (ModelError, UsageError) as error:
        raise type(error)(error.what, where=str(path), fix=error.fix) from error
