"""Language models from files: which reader reads a path."""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.gguf_models import read_gguf
from mansard.estimator.language.huggingface import read_folder


def read_language_model(path: Path) -> Architecture:
    """The sizes and stored weights of a language model; its weights are not read.

    Raises ModelError, StorageError or UsageError.
    """
    try:
        return read_folder(path) if path.is_dir() else read_gguf(path)
    except (ModelError, UsageError) as error:
        raise type(error)(error.what, where=str(path), fix=error.fix) from error
