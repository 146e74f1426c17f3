"""Reading a model once, to score it any number of times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.collector import paused_collector
from mansard.estimator.free_rows import FreeRows
from mansard.estimator.model import Model
from mansard.estimator.reading import read_model, read_source
from mansard.estimator.shape_inference.inference import Prepared, prepare


class Loaded(msgspec.Struct, frozen=True, eq=False):
    """A file that was read once, to be scored any number of times."""

    name: str
    place: str  # how errors call it: the file as it was given, or the model's name
    model_hash: str
    model: Model
    prepared: Prepared  # what follows from the file alone, whatever the dimensions
    free_rows: FreeRows


def load(source: Path | str | bytes, name: str | None = None) -> Loaded:
    """Read a model, from a path or its bytes; raises ModelError or StorageError."""
    if isinstance(source, str):
        source = Path(source)
    shown = name or (_stem(source) if isinstance(source, Path) else "model")
    place = str(source) if isinstance(source, Path) else f"model {shown!r}"
    try:
        data, digest = read_source(source)
        with paused_collector():
            model = read_model(data)
            return Loaded(shown, place, digest, model, prepare(model), FreeRows())
    except ModelError as error:
        raise within(place, error) from error


Error = TypeVar("Error", ModelError, UsageError)


def within(place: str, error: Error) -> Error:
    """``error`` with the model's place before its own."""
    what = f"{error.where}: {error.what}" if error.where else error.what
    return type(error)(what, where=place, fix=error.fix)


def _stem(path: Path) -> str:
    # A file's name may be any bytes; a record holds text.
    return os.fsencode(path.stem).decode("utf-8", "replace")
