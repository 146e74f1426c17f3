"""Arrays of an .npz: whole, or row by row, so that a large set takes the memory of a few samples.

An .npz is a zip file whose members are arrays (https://numpy.org/doc/stable/reference/generated/
numpy.lib.format.html): each is read from its start to its end, and so a row after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError, MansardError
from mansard.core.files import open_file, storage_errors

Array = npt.NDArray[Any]

_MOST_BYTES = 16 << 30  # of arrays that are read whole: more is a typing error


def npz_fault(what: str, path: Path) -> InputError:
    """The error of a file that holds no such arrays."""
    return InputError(what, where=str(path), fix="write it with numpy.savez('x.npz', NAME=ARRAY)")


class StoredArray:
    """An array of an .npz; ``shape`` and ``dtype`` are known at once, the numbers are read later.

    ``is_by_column``: it is stored column by column, and can only be read whole.
    """

    def __init__(self, stream: IO[bytes], size_bytes: int, name: str, path: Path) -> None:
        self._stream, self._name, self._path = stream, name, path
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise npz_fault(f"array {name!r} has format {version}", path)
        self.shape, is_by_column, self.dtype = read(stream)
        self.is_by_column = is_by_column and len(self.shape) > 1
        if self.dtype.hasobject:
            raise npz_fault(f"array {name!r} holds Python objects", path)
        if min(self.shape, default=0) < 0 or self.n_bytes > size_bytes - stream.tell():
            raise npz_fault(f"array {name!r} is cut short", path)

    @property
    def n_bytes(self) -> int:
        """Of all numbers."""
        return prod(self.shape) * self.dtype.itemsize

    def rows(self, n_rows: int) -> Array:
        """The next ``n_rows`` rows; raises InputError where the file ends before."""
        shape = (n_rows, *self.shape[1:])
        return np.frombuffer(self._read(prod(shape) * self.dtype.itemsize), self.dtype).reshape(
            shape
        )

    def whole(self) -> Array:
        """All of it, where nothing was read yet; raises InputError as ``rows``."""
        flat = np.frombuffer(bytearray(self._read(self.n_bytes)), self.dtype)
        return flat.reshape(self.shape, order="F" if self.is_by_column else "C")

    def _read(self, n_bytes: int) -> bytes:
        try:
            data = self._stream.read(n_bytes)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # those of zipfile and of its decompressors have no base
            raise _damaged(error, self._path) from error
        if len(data) < n_bytes:
            raise npz_fault(f"array {self._name!r} is cut short", self._path)
        return data


@contextmanager
def stored_arrays(
    path: Path, names: Collection[str] | None = None
) -> Iterator[dict[str, StoredArray]]:
    """The arrays of an .npz by name, of ``names`` those there are; InputError, StorageError."""
    with ExitStack() as stack:
        stack.enter_context(storage_errors(path))
        stream = stack.enter_context(open_file(path))
        found = {}
        try:
            archive = stack.enter_context(ZipFile(stream))
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if names is None or name in names:
                    opened = stack.enter_context(archive.open(member))
                    found[name] = StoredArray(opened, member.file_size, name, path)
        except (OSError, MansardError):
            raise
        except Exception as error:  # likewise, and of NumPy's headers
            raise _damaged(error, path) from error
        yield found


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, Array]:
    """The arrays of an .npz by name: all of them, or those of ``names`` that are there.

    Raises InputError for anything else than an .npz of plain arrays, or StorageError.
    """
    with stored_arrays(path, names) as found:
        n_bytes = sum(array.n_bytes for array in found.values())
        if n_bytes > _MOST_BYTES:
            raise npz_fault(f"its arrays take {n_bytes >> 30} GiB", path)
        return {name: found[name].whole() for name in sorted(found)}


def _damaged(error: Exception, path: Path) -> InputError:
    return npz_fault(f"it is no .npz of arrays, or damaged ({error})", path)
