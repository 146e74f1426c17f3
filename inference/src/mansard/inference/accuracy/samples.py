"""Samples read from an .npz a batch at a time, so that a large set takes the memory of one batch.

An .npz is a zip file whose members are arrays (https://numpy.org/doc/stable/reference/generated/
numpy.lib.format.html): each is read from its start to its end, and so a row after the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError
from mansard.core.files import open_file, storage_errors
from mansard.inference.accuracy.plan import LABELS, Normalisation, SampleFile
from mansard.inference.inputs import Array, cast, numpy_name
from mansard.inference.plan import InputSpec

_FIX = "write it with numpy.savez('x.npz', INPUT=ARRAY, labels=CLASSES)"
_DAMAGED = (BadZipFile, EOFError, zlib.error, NotImplementedError, ValueError)


def npz_fault(what: str, path: Path) -> InputError:
    """The error of a file that holds no samples."""
    return InputError(what, where=str(path), fix=_FIX)


class StoredArray:
    """An array of an .npz, read row by row; ``shape`` and ``dtype`` are known at once."""

    def __init__(self, stream: IO[bytes], name: str, path: Path) -> None:
        self._stream, self._name, self._path = stream, name, path
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise npz_fault(f"array {name!r} has format {version}", path)
        self.shape, is_by_column, self.dtype = read(stream)
        if self.dtype.hasobject:
            raise npz_fault(f"array {name!r} holds Python objects", path)
        if is_by_column and len(self.shape) > 1:
            raise npz_fault(f"array {name!r} is stored by columns", path)

    def rows(self, n_rows: int) -> Array:
        """The next ``n_rows`` rows; raises InputError where the file ends before."""
        shape = (n_rows, *self.shape[1:])
        n_bytes = int(np.prod(shape)) * self.dtype.itemsize
        data = self._stream.read(n_bytes)
        if len(data) < n_bytes:
            raise npz_fault(f"array {self._name!r} is cut short", self._path)
        return np.frombuffer(data, self.dtype).reshape(shape)


@contextmanager
def stored_arrays(
    path: Path, names: Sequence[str] | None = None
) -> Iterator[dict[str, StoredArray]]:
    """The arrays of an .npz by name, of ``names`` those there are; InputError, StorageError."""
    with ExitStack() as stack:
        stack.enter_context(storage_errors(path))
        try:
            archive = stack.enter_context(ZipFile(stack.enter_context(open_file(path))))
            found = {}
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                if names is None or name in names:
                    found[name] = StoredArray(stack.enter_context(archive.open(member)), name, path)
            yield found
        except _DAMAGED as error:
            raise npz_fault(f"it is no .npz of arrays, or damaged ({error})", path) from error


def read_labels(path: Path) -> npt.NDArray[np.int64]:
    """The classes of all samples; raises InputError and StorageError."""
    with stored_arrays(path, [LABELS]) as found:
        labels = found.get(LABELS)
        if labels is None:
            raise npz_fault(f"there is no array {LABELS!r}", path)
        if labels.dtype.kind not in "iu" or len(labels.shape) != 1:
            raise npz_fault(
                f"{LABELS!r} is {labels.dtype} {list(labels.shape)}, and should be one integer "
                "for each sample",
                path,
            )
        return labels.rows(labels.shape[0]).astype(np.int64)


def batches(
    samples: SampleFile, specs: Sequence[InputSpec], folder: Path
) -> Iterator[tuple[int, Mapping[str, Array]]]:
    """How many samples are new in each batch, and the arrays to feed.

    The last batch is filled up with its own first rows. Raises InputError, StorageError.
    """
    path = folder / samples.file
    with stored_arrays(path, [spec.name for spec in specs]) as arrays:
        n_left, n_batch = samples.n_samples, specs[0].shape[0]
        while n_left:
            n_new = min(n_left, n_batch)
            fed = {}
            for spec in specs:
                rows = arrays[spec.name].rows(n_new)
                fed[spec.name] = _filled(_fed(rows, samples.normalisation, spec), n_batch)
            yield n_new, fed
            n_left -= n_new


def _filled(rows: Array, n_rows: int) -> Array:
    return rows if len(rows) == n_rows else np.resize(rows, (n_rows, *rows.shape[1:]))


def _fed(rows: Array, normalisation: Normalisation | None, spec: InputSpec) -> Array:
    if normalisation is not None:
        rows = normalised(rows, normalisation)
    if rows.dtype == np.float32:
        rows = cast(rows, spec.type_name)
    return np.ascontiguousarray(rows, numpy_name(spec.type_name))


def normalised(pixels: Array, how: Normalisation) -> npt.NDArray[np.float32]:
    """Pixels of several samples as a network is fed; float32."""
    shape: list[int] = [1] * pixels.ndim
    shape[how.channel_axis + 1] = -1
    mean, deviation = (
        np.asarray(each, np.float32).reshape(shape) for each in (how.mean, how.deviation)
    )
    numbers = pixels.astype(np.float32) / np.float32(how.scale)
    return np.asarray((numbers - mean) / deviation, np.float32)
