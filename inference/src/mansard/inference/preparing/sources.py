"""External weight files of a model, weights that it lacks, and links to files in a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

from onnx import GraphProto, TensorProto, helper

from mansard.core.errors import ModelError, StorageError
from mansard.core.hashing import ID_CHARACTERS, stream_hash
from mansard.core.storage.files import open_file, storage_errors
from mansard.core.storage.leftovers import temporary_folder
from mansard.estimator.zoo.weights import FLOATING, MissingWeights
from mansard.inference.preparing.labelling import bodies

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data")
_SPARE_BYTES = 256 << 20  # that stay free on the disk


def files_of_weights(graph: GraphProto, source: Path) -> dict[str, Path]:
    """The files beside ``source`` with weights of ``graph``, by the location that it names.

    Weights whose file is missing lose their place: see ``without_numbers``. Raises ModelError for
    a place that leads out of the model's folder or beyond the end of its file.
    """
    paths: dict[str, Path] = {}
    sizes: dict[str, int] = {}
    for tensor in all_tensors(graph):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        place = {entry.key: entry.value for entry in tensor.external_data}
        location = place.get("location", "")
        path = _inside(source.parent, location, tensor.name)
        if location not in paths:
            with storage_errors(path):
                if not path.is_symlink() and not path.exists():
                    del tensor.external_data[:]
                    tensor.ClearField("data_location")
                    continue
                with open_file(path) as stream:
                    sizes[location] = os.fstat(stream.fileno()).st_size
            paths[location] = path
        _check_place(tensor, place, sizes[location])
    return paths


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Replace the locations of external weights in ``graph`` by ``names``."""
    for tensor in all_tensors(graph):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = names[entry.value]


def _inside(parent: Path, location: str, name: str) -> Path:
    """The path of a weight file; links to other folders are allowed, as model stores use them."""
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    is_rooted = PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive
    if not location or "\0" in location or is_rooted or ".." in parts:
        raise ModelError(
            f"its weights are said to be in {location!r}, which is not below its folder",
            where=f"tensor {name!r}",
            fix="the file may be hostile; get it from another place",
        )
    return parent / location


def _check_place(tensor: TensorProto, place: dict[str, str], size: int) -> None:
    try:
        offset, length = int(place.get("offset") or 0), int(place.get("length") or -1)
    except ValueError:
        offset, length = -1, -1
    wanted = _size_bytes(tensor)
    if length == -1 and offset >= 0:
        length = wanted
    if offset < 0 or length != wanted or offset + length > size:
        raise ModelError(
            f"its {wanted} bytes are not at the place that the file names",
            where=f"tensor {tensor.name!r}",
            fix="the files do not belong together, or one is cut short; get both again",
        )


def _size_bytes(tensor: TensorProto) -> int:
    n_elements: int = prod(tensor.dims)
    if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1):
        return (n_elements + 1) // 2
    try:
        return n_elements * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:
        raise ModelError(
            f"has the element type {tensor.data_type}", where=f"tensor {tensor.name!r}"
        ) from None


def name_by_content(path: Path, stem: str, suffix: str) -> str:
    """The name of ``path`` in the folder of files: the hash of its content.

    Raises StorageError, also where it is not a regular file.
    """
    with storage_errors(path), open_file(path) as stream:
        return f"{stem}-{stream_hash(stream)[:ID_CHARACTERS]}.{suffix}"


def link(path: Path, folder: Path, name: str) -> None:
    """Put ``path`` into ``folder`` as ``name``: a link, or a copy where that cannot be.

    Raises StorageError.
    """
    with (
        storage_errors(path),
        temporary_folder(folder, name) as scratch,
        open_file(path) as stream,
    ):
        held = scratch / "data"
        try:
            os.link(os.path.realpath(path), held)
        except OSError:  # on another disk, or of another user
            with held.open("wb") as copy:
                shutil.copyfileobj(stream, copy, 1 << 20)
                os.fsync(copy.fileno())
        held.replace(folder / name)
        # Renaming one link of a file over another does nothing, and leaves the first.
        with contextlib.suppress(FileNotFoundError):
            held.unlink()


def check_free(n_bytes: int, folder: Path, what: str) -> None:
    """Raise StorageError where ``n_bytes`` are more than ``folder`` has; ``what``: needs them."""
    with storage_errors(folder):
        free_bytes = shutil.disk_usage(folder).free
    if n_bytes + _SPARE_BYTES > free_bytes:
        raise StorageError(
            f"the disk is full: {what} about {n_bytes / 1e6:,.0f} MB, and "
            f"{_SPARE_BYTES / 1e6:.0f} MB must stay free; {free_bytes / 1e6:,.0f} MB are free",
            where=str(folder),
            fix="free some space, name another folder in TMPDIR, or measure less at once",
        )


def without_numbers(graph: GraphProto) -> dict[str, MissingWeights]:
    """The stored tensors without numbers, in the form of an export without weights.

    Raises ModelError for integers, which cannot be drawn.
    """
    missing: dict[str, MissingWeights] = {}
    for tensor in graph.initializer:
        if not prod(tensor.dims) or tensor.data_location == TensorProto.EXTERNAL:
            continue
        if any(getattr(tensor, field) for field in _DATA_FIELDS) or tensor.string_data:
            continue
        if tensor.data_type not in FLOATING:
            raise ModelError(
                "has no numbers in the file, and indices or quantised weights cannot be drawn",
                where=f"tensor {tensor.name!r}",
                fix="give the file together with its weights",
            )
        dims = tuple(tensor.dims)
        value = 1 / prod(dims[1:]) if len(dims) > 1 else 1.0
        missing[tensor.name] = MissingWeights(dims, value, tensor.data_type)
    return missing


def all_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every tensor of ``graph`` and of the graphs inside its nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for body in bodies(node):
            yield from all_tensors(body)
