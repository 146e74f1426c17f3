"""Arrays of an .npz, read whole or row by row, so that a large set needs little memory.

An .npz is a zip file whose members are arrays (https://numpy.org/doc/stable/reference/generated/
numpy.lib.format.html): each is read from its start to its end, and so its rows in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError, MansardError
from mansard.core.storage.files import open_file, storage_errors

Array = npt.NDArray[Any]

_MOST_BYTES = 2 << 30  # of arrays that are read at a time; a file of 2 MB can hold as many
_MOST_ARRAYS = 10_000
_MOST_HEADER_BYTES = 1 << 16
_MOST_AXES = 32  # as in NumPy 1
_PIECE_BYTES = 16 << 20


def npz_fault(what: str, path: Path) -> InputError:
    """An error about the content of an .npz."""
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
        if version == (2, 0):  # its header has its own length, up to 4 GiB
            at = stream.tell()
            if int.from_bytes(stream.read(4), "little") > _MOST_HEADER_BYTES:
                raise npz_fault(f"array {name!r} has too long a header", path)
            stream.seek(at)
        self.shape, is_by_column, self.dtype = read(stream)
        self.is_by_column = is_by_column and len(self.shape) > 1
        if self.dtype.hasobject:
            raise npz_fault(f"array {name!r} holds Python objects", path)
        if min(self.shape, default=0) < 0 or self.n_bytes > size_bytes - stream.tell():
            raise npz_fault(f"array {name!r} is cut short", path)
        if len(self.shape) > _MOST_AXES or prod(max(size, 1) for size in self.shape) >= 1 << 63:
            raise npz_fault(f"array {name!r} has a shape that no array has", path)

    @property
    def n_bytes(self) -> int:
        """The size of the whole array in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def rows(self, n_rows: int) -> Array:
        """The next ``n_rows`` rows; raises InputError where the file ends too early."""
        shape = (n_rows, *self.shape[1:])
        return self._read(prod(shape) * self.dtype.itemsize).reshape(shape)

    def whole(self) -> Array:
        """The whole array, before any row was read; raises InputError as ``rows``."""
        flat = self._read(self.n_bytes)
        return flat.reshape(self.shape, order="F" if self.is_by_column else "C")

    def _read(self, n_bytes: int) -> Array:
        """The next numbers; raises InputError for too many, or where the file ends early."""
        check_size(n_bytes, self._path)
        data = np.empty(n_bytes, np.uint8)
        at = 0
        while at < n_bytes:
            try:
                piece = self._stream.read(min(_PIECE_BYTES, n_bytes - at))
            except (OSError, MemoryError):
                raise
            except Exception as error:  # those of zipfile and of its decompressors have no base
                raise _damaged(error, self._path) from error
            if not piece:
                raise npz_fault(f"array {self._name!r} is cut short", self._path)
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        return data.view(self.dtype) if self.dtype.itemsize else np.empty(0, self.dtype)


@contextmanager
def stored_arrays(
    path: Path, names: Collection[str] | None = None
) -> Iterator[dict[str, StoredArray]]:
    """The arrays of an .npz by name, only ``names`` where given; InputError, StorageError."""
    with ExitStack() as stack:
        stack.enter_context(storage_errors(path))
        stream = stack.enter_context(open_file(path))
        arrays = {}
        try:
            archive = stack.enter_context(ZipFile(stream))
            if len(archive.infolist()) > _MOST_ARRAYS:
                raise npz_fault(f"it has more than {_MOST_ARRAYS:,} arrays", path)
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if names is None or name in names:
                    opened = stack.enter_context(archive.open(member))
                    arrays[name] = StoredArray(opened, member.file_size, name, path)
        except (OSError, MansardError):
            raise
        except Exception as error:  # likewise, and of NumPy's headers
            raise _damaged(error, path) from error
        yield arrays


def read_arrays(
    path: Path,
    names: Collection[str] | None = None,
    check: Callable[[Mapping[str, StoredArray]], None] = lambda _: None,
) -> dict[str, Array]:
    """The arrays of an .npz by name: all of them, or those of ``names`` that are there.

    ``check`` raises where the headers do not fit, before any number is read: a file of 1 MB can
    hold 1 GiB of zeros. Raises InputError for anything else than an .npz of plain arrays, and for
    more than 2 GiB of them, or StorageError.
    """
    with stored_arrays(path, names) as stored:
        check(stored)
        check_size(sum(array.n_bytes for array in stored.values()), path)
        return {name: stored[name].whole() for name in sorted(stored)}


def check_size(n_bytes: int, path: Path) -> None:
    """Raises InputError where arrays would take more memory than is read at a time."""
    if n_bytes > _MOST_BYTES:
        raise InputError(
            f"its arrays take {n_bytes / 2**30:.1f} GiB, more than the {_MOST_BYTES >> 30} GiB "
            "that are read at a time",
            where=str(path),
            fix="give fewer samples, or a smaller type",
        )


def _damaged(error: Exception, path: Path) -> InputError:
    return npz_fault(f"it is no .npz of arrays, or damaged ({error})", path)
