"""From what an exporter left in a folder to one file at its place, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.core.errors import UsageError
from mansard.core.files import storage_error, write_atomic
from mansard.estimator.export.provenance import without_provenance
from mansard.estimator.export.weightless import without_weights

if TYPE_CHECKING:
    import onnx


@contextmanager
def workspace(output: Path) -> Iterator[Path]:
    """An empty folder on the disk of ``output``, removed afterwards; raises UsageError
    or StorageError before anything is built."""
    if output.exists() and not output.is_file():
        what = "is a folder" if output.is_dir() else "is not a regular file"
        raise UsageError(what, where=str(output), fix="name a file: -o model.onnx")
    try:
        folder = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name[:100]}."))
    except OSError as error:
        raise storage_error(error, output) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(
    model: onnx.ModelProto, folder: Path, output: Path, *, with_weights: bool
) -> tuple[Path, ...]:
    """Put ``model``, which was traced into ``folder``, at ``output``; returns the paths written.

    Weights that lie in the folder (more than 1.9 GB of them) go into one file, ``output``
    + ``.data``, which is in place before the model that names it. Raises StorageError.
    """
    import onnx

    without_provenance(model)
    if not with_weights:
        without_weights(model)
        onnx.load_external_data_for_model(model, str(folder))  # what was kept: a few numbers
    beside = sorted(path for path in folder.iterdir() if path.name != output.name)
    written: tuple[Path, ...] = (output,)
    if with_weights and beside:
        written = (output, _publish_data(model, folder, beside, output))
    write_atomic(output, model.SerializeToString(deterministic=True))
    return written


def _publish_data(model: onnx.ModelProto, folder: Path, beside: list[Path], output: Path) -> Path:
    import onnx

    name = f"{output.name}.data"
    if [path.name for path in beside] != [name]:  # the older exporter writes a file a weight
        onnx.load_external_data_for_model(model, str(folder))
        onnx.external_data_helper.convert_model_to_external_data(model, location=name)
        onnx.external_data_helper.write_external_data_tensors(model, str(folder))
    data, place = folder / name, output.parent / name
    try:
        with data.open("rb") as stream:
            os.fsync(stream.fileno())
        data.chmod(0o644)
        data.replace(place)
    except OSError as error:
        raise storage_error(error, place) from error
    return place
