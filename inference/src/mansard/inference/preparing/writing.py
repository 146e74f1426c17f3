"""A model becomes files: its graph, and beside it the weights where they are many.

Files are called by the hash of their content, so that a file that is there is never another one.
Numbers of weights are drawn and written one tensor at a time.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import msgspec
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto, helper

from mansard.core.errors import ModelError, StorageError
from mansard.core.files import storage_errors, write_atomic
from mansard.core.hashing import ID_CHARACTERS, file_hash
from mansard.core.leftovers import temporary_folder
from mansard.estimator.zoo.weights import Missing, draw, take_out_weights
from mansard.inference.preparing.conversion import convert
from mansard.inference.preparing.sources import bring, without_numbers

# Where weights take more than this they lie beside the file: it holds 2 GB at most, and those of
# several batches of one network share their file.
BESIDE_BYTES = 64 << 20
_LEAST_BYTES = 1024  # of a tensor that lies there
_PAGE_BYTES = 4096  # where each begins, so that a runtime can map it
_SPARE_BYTES = 256 << 20  # that stay free on the disk


class Written(msgspec.Struct, frozen=True):
    """The files of a model, by their names in the folder."""

    file: str
    file_hash: str  # of its content; the names of the data files in it are hashes of theirs
    data_files: tuple[str, ...]
    notes: tuple[str, ...]


def write(
    model: ModelProto,
    stem: str,
    folder: Path,
    seed: int,
    source: Path | None,
    *,
    is_converted: bool = False,
) -> Written:
    """Write ``model`` with all its weights; changes it in place.

    ``source``: the file that it was read from, beside which more of its weights may lie.
    ``is_converted``: to fp16, with all weights in memory. Raises
    ModelError for a weight of an impossible size, StorageError.
    """
    brought = () if source is None else bring(model.graph, source, folder, stem)
    missing = _missing(model)
    notes = (f"{len(missing)} weights are random: the file has none",) if missing else ()
    if is_converted:
        _check_space(folder, sum(map(_size_bytes, missing.values())))
        for tensor, values in _tensors(model, missing, seed):
            tensor.raw_data = values
        model, missing = convert(model), {}
    n_bytes = sum(map(_size_bytes, missing.values()))
    n_bytes += sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    data_files = brought
    if n_bytes <= BESIDE_BYTES:
        for tensor, values in _tensors(model, missing, seed):
            tensor.raw_data = values
    else:
        _check_space(folder, n_bytes)
        data_files = (*brought, _write_beside(model, missing, stem, folder, seed))
    try:
        content = model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ModelError("what is left beside its weights takes more than 2 GB") from error
    digest = file_hash(content)
    name = f"{stem}-{digest[:ID_CHARACTERS]}.onnx"
    write_atomic(folder / name, content)
    return Written(name, digest, data_files, notes)


def _missing(model: ModelProto) -> dict[str, Missing]:
    """The weights that the file has no numbers for; nodes in their place are taken out."""
    missing = without_numbers(model.graph)
    return missing | take_out_weights(model.graph) if _has_no_weights(model) else missing


def _has_no_weights(model: ModelProto) -> bool:
    """Whether constants stand for the weights: in the zoo, or where none are stored at all."""
    if model.producer_name == "mansard":
        return True
    return not any(
        tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
        and math.prod(tensor.dims) >= 16
        for tensor in model.graph.initializer
    )


def _size_bytes(missing: Missing) -> int:
    width = helper.tensor_dtype_to_np_dtype(missing.data_type).itemsize
    if any(size < 0 for size in missing.shape):
        raise ModelError(f"a weight of shape {list(missing.shape)} cannot be")
    return math.prod(missing.shape) * width


def _check_space(folder: Path, n_bytes: int) -> None:
    with storage_errors(folder):
        free_bytes = shutil.disk_usage(folder).free
    if n_bytes + _SPARE_BYTES > free_bytes:
        raise StorageError(
            f"its weights take {n_bytes / 1e9:.1f} GB, and {free_bytes / 1e9:.1f} GB are free",
            where=str(folder),
            fix="free some space, or choose a smaller network",
        )


def _tensors(
    model: ModelProto, missing: Mapping[str, Missing], seed: int
) -> Iterator[tuple[TensorProto, bytes]]:
    """The tensors of weights that were missing, each with its bytes."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, values in draw(missing, seed):
        tensor = stored.get(name)
        if tensor is None:
            data_type = missing[name].data_type
            tensor = model.graph.initializer.add(name=name, data_type=data_type, dims=values.shape)
        yield tensor, values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _write_beside(
    model: ModelProto, missing: Mapping[str, Missing], stem: str, folder: Path, seed: int
) -> str:
    """Write the large tensors into a file of their own; returns its name."""
    placed: list[tuple[TensorProto, int, int]] = []
    with temporary_folder(folder, stem) as scratch, storage_errors(folder):
        path = scratch / "weights"
        with path.open("wb") as stream:
            writer = _Writer(stream)
            for tensor in list(model.graph.initializer):
                if tensor.HasField("raw_data") and len(tensor.raw_data) >= _LEAST_BYTES:
                    placed.append((tensor, *writer.put(tensor.raw_data)))
                    tensor.ClearField("raw_data")
            for tensor, values in _tensors(model, missing, seed):
                if len(values) < _LEAST_BYTES:
                    tensor.raw_data = values
                else:
                    placed.append((tensor, *writer.put(values)))
            stream.flush()
            os.fsync(stream.fileno())
        name = f"{stem}-{writer.digest}.weights"
        path.replace(folder / name)
    for tensor, offset, length in placed:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
    return name


class _Writer:
    """Appends tensors to a stream, each at a page's start, and hashes what it writes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._hash, self._at = stream, hashlib.sha256(), 0

    def put(self, data: bytes) -> tuple[int, int]:
        """Where ``data`` begins, and its length."""
        self._write(bytes(-self._at % _PAGE_BYTES))
        start = self._at
        self._write(data)
        return start, len(data)

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._hash.update(data)
        self._at += len(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:ID_CHARACTERS]
